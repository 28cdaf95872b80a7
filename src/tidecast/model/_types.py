"""MySQL types and the Spark types that hold their values.

| kind | Spark type of the model | why |
|---|---|---|
| INTEGER | int, or bigint for INT UNSIGNED and BIGINT, decimal(20,0) for BIGINT UNSIGNED | exact |
| YEAR | int | 0 is the year 0000 |
| FLOAT, DOUBLE | float, double | |
| DECIMAL | decimal(p,s) up to 38 digits; else, and where p and s are unknown, its text | Spark ends at 38 |
| TEXT, JSON, VECTOR, SET | string | SET: the elements joined by commas |
| ENUM | string | the element; '' for the invalid value 0 |
| BINARY | binary | |
| BIT | binary, big-endian, ceil(n/8) bytes | a bit string, as on the wire |
| DATE, DATETIME, TIME | string, MySQL's text | zero dates, 838 hours |
| TIMESTAMP | string, MySQL's text in UTC | zero value |
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from pyspark.sql import types as T

if TYPE_CHECKING:
    from tidecast.model._schema import DataType

MAX_DECIMAL_PRECISION = 38


class Kind(enum.Enum):
    """A family of MySQL types whose values are written and read the same way."""

    INTEGER = "integer"
    YEAR = "year"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    BINARY = "binary"
    BIT = "bit"
    ENUM = "enum"
    SET = "set"
    JSON = "json"
    VECTOR = "vector"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    UNKNOWN = "unknown"

    @property
    def numeric(self) -> bool:
        """Whether UNSIGNED says something about this kind."""
        return self in (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("char", "varchar", "var_string", "tinytext", "text", "mediumtext", "longtext")
_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(INTEGERS, Kind.INTEGER),
    **dict.fromkeys(_TEXTS, Kind.TEXT),
    **dict.fromkeys(_BINARIES, Kind.BINARY),
    **{k.value: k for k in Kind if k not in (Kind.INTEGER, Kind.TEXT, Kind.BINARY, Kind.UNKNOWN)},
}

_SPARK: dict[Kind, T.DataType] = {
    Kind.YEAR: T.IntegerType(),
    Kind.FLOAT: T.FloatType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.BINARY: T.BinaryType(),
    Kind.BIT: T.BinaryType(),
}


def kind_of(mysql_type: str, charset: str) -> Kind:
    """Return the kind of a type; a string type whose charset is `binary` holds bytes."""
    kind = _KINDS.get(mysql_type, Kind.UNKNOWN)
    return Kind.BINARY if kind is Kind.TEXT and charset == "binary" else kind


def spark_type(data_type: DataType) -> T.DataType:
    """Return the Spark type in which the model holds values of a MySQL type."""
    match data_type.kind:
        case Kind.INTEGER if data_type.mysql_type == "bigint":
            return T.DecimalType(20, 0) if data_type.unsigned else T.LongType()
        case Kind.INTEGER if data_type.mysql_type == "int" and data_type.unsigned:
            return T.LongType()
        case Kind.INTEGER:
            return T.IntegerType()
        case Kind.DECIMAL if 0 < data_type.length <= MAX_DECIMAL_PRECISION:
            return T.DecimalType(data_type.length, data_type.decimal)
        case kind:
            return _SPARK.get(kind, T.StringType())
