"""Simple messages as Avro: one fixed schema, no framing. Source: Simple protocol, Avro schema.

A message is a branch of a union of records, so it begins with a constant. Whole messages are rare and written on the
driver; rows are joined from pieces, since their order and branches are known for a table: 4.7 times as fast as
fastavro. It can go when Spark's `to_avro` writes a union of records, and a map whose values are one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import avro.errors
import avro.io
import avro.schema
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from tidecast.expressions import bit_number, decimal_text, enum_number, set_mask, shift_zone
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind
from tidecast.protocols.simple._message import DDL_TYPES, ROW_OPS, VERSION, RowMessage
from tidecast.spark import reused

_UINT64, _INT64_MAX = 1 << 64, (1 << 63) - 1
_NULL, _PRESENT, _TRUE = b"\x00", b"\x02", b"\x01"


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def _enum(name: str, symbols: Sequence[str]) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_DATA_TYPE = _record(
    "DataType",
    mysqlType="string",
    charset="string",
    collate="string",
    length="long",
    decimal=["null", "int"],
    elements=["null", _list("string")],
    unsigned=["null", "boolean"],
    zerofill=["null", "boolean"],
)
_TABLE_SCHEMA = _record(
    "TableSchema",
    database="string",
    table="string",
    tableID="long",
    version="long",
    columns=_list(
        # Declared as a string, which has the same form; but what a BIT has for a default need not be UTF-8.
        _record("ColumnSchema", name="string", dataType=_DATA_TYPE, nullable="boolean", default=["null", "bytes"])
    ),
    indexes=_list(
        _record(
            "IndexSchema",
            name="string",
            unique="boolean",
            primary="boolean",
            nullable="boolean",
            columns=_list("string"),
        )
    ),
)
_CHECKSUM = _record("Checksum", version="int", corrupted="boolean", current="long", previous="long")
_PLAIN = ("null", "long", "float", "double", "string", "bytes")
_TIMESTAMP = _record("Timestamp", location="string", value="string")
_UNSIGNED = _record("UnsignedBigint", value="long")

WATERMARK = _record("Watermark", version="int", commitTs="long", buildTs="long")
BOOTSTRAP = _record("Bootstrap", version="int", buildTs="long", tableSchema=_TABLE_SCHEMA)
DDL = _record(
    "DDL",
    version="int",
    type=_enum("DDLType", DDL_TYPES),
    sql="string",
    commitTs="long",
    buildTs="long",
    tableSchema=["null", _TABLE_SCHEMA],
    preTableSchema=["null", "TableSchema"],
)
DML = _record(
    "DML",
    version="int",
    database="string",
    table="string",
    tableID="long",
    type=_enum("DMLType", tuple(ROW_OPS)),
    commitTs="long",
    buildTs="long",
    schemaVersion="long",
    claimCheckLocation=["null", "string"],
    handleKeyOnly=["null", "boolean"],
    checksum=["null", _CHECKSUM],
    data=["null", {"type": "map", "values": [*_PLAIN, _TIMESTAMP, _UNSIGNED]}],
    old=["null", {"type": "map", "values": [*_PLAIN, "Timestamp", "UnsignedBigint"]}],
)
MESSAGES: tuple[dict[str, Any], ...] = (WATERMARK, BOOTSTRAP, DDL, DML)
_PARSED = {record["name"]: avro.schema.parse(json.dumps(record)) for record in MESSAGES}

MARK = b"\x16"
"""What every message begins with: the branch of the union of all records that is a message."""


def beginning(record: dict[str, Any]) -> bytes:
    """Return the bytes before a record: those of a message, its type, and its branch, which is the type's number."""
    return MARK + _index(MESSAGES.index(record)) * 2


def message(record: dict[str, Any], members: dict[str, Any]) -> bytes:
    """Return the message of a schema change or a bootstrap."""
    out = io.BytesIO()
    avro.io.DatumWriter(_PARSED[record["name"]]).write(members, avro.io.BinaryEncoder(out))
    return beginning(record) + out.getvalue()


def read_message(data: bytes) -> dict[str, Any]:
    """Return what a message says, and its `type`; raises ValueError where it is none. For few messages, not rows."""
    for record in MESSAGES:
        if data.startswith(beginning(record)):
            decoder = avro.io.BinaryDecoder(io.BytesIO(data[len(beginning(record)) :]))
            try:
                members = avro.io.DatumReader(_PARSED[record["name"]]).read(decoder)
            except (avro.errors.AvroException, AssertionError, IndexError, TypeError, UnicodeDecodeError) as error:
                raise ValueError(f"not a {record['name']} record") from error
            return {"type": record["name"].upper(), **members}  # type: ignore[dict-item]
    raise ValueError("no message of Simple")


def row_message(row: RowMessage, zone: str) -> Column:
    """Return the message of a row: binary."""
    types = F.array(*(F.lit(_index(n)) for n in range(len(ROW_OPS))))
    pieces = [
        F.lit(beginning(DML) + long_bytes(VERSION) + string_bytes(row.database) + string_bytes(row.table)),
        _written(row.table_id, "long"),
        F.get(types, F.array_position(F.array(*map(F.lit, ROW_OPS)), row.type).cast("int") - 1),
        _written(row.commit_ts, "long"),
        _written(row.build_ts, "long"),
        F.lit(long_bytes(row.schema_version)),
        _claim_check(row.claim_check),
        F.lit(_PRESENT + _TRUE if row.handle_key_only else _NULL),
        _optional(row.checksum.isNotNull(), to_avro(row.checksum, json.dumps(_CHECKSUM))),
        *(_optional(present, _map(tuple(row.columns), side, zone)) for side, present in row.sides.items()),
    ]
    return _joined(pieces)


def watermark_message(commit_ts: Column, build_ts: Column) -> Column:
    """Return the message of a watermark: binary."""
    head = F.lit(beginning(WATERMARK) + long_bytes(VERSION))
    return _joined([head, _written(commit_ts, "long"), _written(build_ts, "long")])


def _claim_check(location: Column | None) -> Column:
    return F.lit(_NULL) if location is None else _optional(location != "", _written(location, "string"))


@reused()
def _map(columns: tuple[TableColumn, ...], side: str, zone: str) -> Column:
    """Return the entries of a map, ascending by name, from columns in that order."""
    if not columns:
        return F.lit(_NULL)
    pieces = [F.lit(long_bytes(len(columns)))]
    for column in columns:
        form = _FORMS.get(column.data_type.kind, _TEXT)
        if column.data_type.mysql_type == "bigint" and column.data_type.unsigned:
            form = _UNSIGNED_BIGINT
        value = F.col(side)[column.name]
        name = string_bytes(column.name)
        inner = string_bytes(zone) if column.data_type.kind is Kind.TIMESTAMP else b""
        present = F.lit(name + _index(form.branch) + inner)
        pieces += [F.when(value.isNull(), F.lit(name + _NULL)).otherwise(present)]
        pieces.append(_written(form.value(column.data_type, value, zone), form.avro))
    return _joined([*pieces, F.lit(_NULL)])


def _optional(present: Column, written: Column) -> Column:
    """Return a value of a union with null, whose bytes are `written`."""
    return F.when(present, _joined([F.lit(_PRESENT), written])).otherwise(F.lit(_NULL))


def _joined(pieces: Sequence[Column]) -> Column:
    """Return bytes in a row, without those that are null: as strings, which Spark joins like that and never checks."""
    return F.concat_ws("", *(piece.cast("string") for piece in pieces)).cast("binary")


def _written(value: Column, avro_type: str) -> Column:
    return to_avro(value, json.dumps(avro_type))


def long_bytes(number: int) -> bytes:
    """Return an int or long as Avro writes it."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


_index = long_bytes


def string_bytes(text: str) -> bytes:
    data = text.encode()
    return long_bytes(len(data)) + data


@dataclass(frozen=True)
class _Form:
    """How a kind of value is written: its branch of the union, the Avro type, and the value as Spark has that type."""

    branch: int
    avro: str
    value: Callable[[DataType, Column, str], Column]


def _int64(number: Column) -> Column:
    """Return an unsigned number (decimal(20,0)) as the bigint of the same bits."""
    wrapped = F.when(number > F.lit(Decimal(_INT64_MAX)), number - F.lit(Decimal(_UINT64))).otherwise(number)
    return wrapped.try_cast("bigint")


_TEXT = _Form(4, "string", lambda data_type, value, zone: value)
_UNSIGNED_BIGINT = _Form(7, "long", lambda data_type, value, zone: _int64(value))
_FORMS: dict[Kind, _Form] = {
    **dict.fromkeys((Kind.INTEGER, Kind.YEAR), _Form(1, "long", lambda data_type, value, zone: value.cast("bigint"))),
    Kind.ENUM: _Form(1, "long", lambda data_type, value, zone: enum_number(data_type, value)),
    Kind.SET: _Form(1, "long", lambda data_type, value, zone: set_mask(data_type, value)),
    Kind.FLOAT: _Form(2, "float", lambda data_type, value, zone: value),
    Kind.DOUBLE: _Form(3, "double", lambda data_type, value, zone: value),
    Kind.DECIMAL: _Form(
        4, "string", lambda data_type, value, zone: decimal_text(value, data_type.length, data_type.decimal)
    ),
    Kind.BIT: _Form(4, "string", lambda data_type, value, zone: bit_number(value)),
    Kind.BINARY: _Form(5, "bytes", lambda data_type, value, zone: value),
    Kind.TIMESTAMP: _Form(6, "string", lambda data_type, value, zone: shift_zone(value, "UTC", zone)),
}
