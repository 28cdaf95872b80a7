"""The Arrow type that holds the values of a MySQL type.

| kind | Arrow type | why |
|---|---|---|
| INTEGER | int32; int64 for INT UNSIGNED and BIGINT; uint64 for BIGINT UNSIGNED | exact |
| YEAR | int32 | 0 is the year 0000 |
| FLOAT, DOUBLE | float32, float64 | |
| DECIMAL | decimal128(p, s) up to 38 digits; else, and where p and s are unknown, its text | Spark ends at 38 |
| TEXT, JSON, VECTOR, SET | text | SET: the elements joined by commas |
| ENUM | text | the element; '' for the invalid value 0 |
| BINARY | bytes | |
| BIT | bytes, big-endian, ceil(n/8) of them | a bit string, as on the wire |
| DATE, DATETIME, TIME | text as MySQL writes it | zero dates, 838 hours |
| TIMESTAMP | text as MySQL writes it, in UTC | zero value |
"""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import MAX_DECIMAL_PRECISION, DataType, Kind, TableSchema
from tidecast.values._arrow import BYTES, TEXT

INTEGERS = {pa.int32(): range(-(1 << 31), 1 << 31), pa.int64(): range(-(1 << 63), 1 << 63), pa.uint64(): range(1 << 64)}
"""The numbers that whole numbers of an Arrow type can be."""

_FIXED: dict[Kind, pa.DataType] = {
    Kind.YEAR: pa.int32(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BINARY: BYTES,
    Kind.BIT: BYTES,
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type that holds the values of a MySQL type."""
    match data_type.kind:
        case Kind.INTEGER if data_type.mysql_type == "bigint":
            return pa.uint64() if data_type.unsigned else pa.int64()
        case Kind.INTEGER:
            return pa.int64() if data_type.mysql_type == "int" and data_type.unsigned else pa.int32()
        case Kind.DECIMAL if 0 < data_type.length <= MAX_DECIMAL_PRECISION:
            return pa.decimal128(data_type.length, data_type.decimal)
        case kind:
            return _FIXED.get(kind, TEXT)


def row_type(schema: TableSchema) -> pa.DataType:
    """Return the struct that holds one row of a table version."""
    return pa.struct([pa.field(c.name, arrow_type(c.data_type)) for c in schema.columns])
