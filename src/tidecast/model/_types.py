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
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import types as T

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
        """Tell whether UNSIGNED says something about this kind."""
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


@dataclass(frozen=True)
class DataType:
    """A MySQL column type, as TiDB names it.

    `length` is the display width, the number of characters or the precision, and 0 where unknown;
    `decimal` the scale or the fractional seconds' digits, unknown where both are 0; `elements` the options of ENUM and
    SET.
    """

    mysql_type: str
    charset: str = "binary"
    collate: str = "binary"
    length: int = 0
    decimal: int = 0
    elements: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False

    @cached_property
    def kind(self) -> Kind:
        """The family of types that this one belongs to."""
        return kind_of(self.mysql_type, self.charset)

    def __str__(self) -> str:
        text = self.mysql_type
        if self.elements:
            text += "(" + ",".join("'" + e.replace("'", "''") + "'" for e in self.elements) + ")"
        elif self.kind is Kind.DECIMAL and self.length:
            text += f"({self.length},{self.decimal})"
        elif self.kind in (Kind.TEXT, Kind.BINARY, Kind.BIT) and 0 < self.length < 65535:
            text += f"({self.length})"
        return text + (" unsigned" if self.unsigned and self.kind.numeric else "")


def usual_length(data_type: DataType) -> int:
    """Return the length that TiDB shows for a type whose digits and elements decide it, 0 for others."""
    match data_type.kind:
        case Kind.DATE:
            return 10
        case Kind.TIME:
            return 10 + _fraction(data_type)
        case Kind.DATETIME | Kind.TIMESTAMP:
            return 19 + _fraction(data_type)
        case Kind.ENUM:
            return max(map(len, data_type.elements), default=0)
        case Kind.SET:
            return len(",".join(data_type.elements))
        case Kind.JSON:
            return 2**32 - 1
    return 0


def with_digits(data_type: DataType) -> DataType:
    """Return a type as others are told of it: with six digits after the point where nobody knows how many."""
    timed = data_type.kind in (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
    return replace(data_type, decimal=6) if timed and not (data_type.length or data_type.decimal) else data_type


def _fraction(data_type: DataType) -> int:
    return data_type.decimal and 1 + data_type.decimal


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


def type_name(words: str) -> str:
    """Return a type's name as TiDB has it; a statement may have another one, as INTEGER or CHARACTER VARYING."""
    name, *more = words.lower().removeprefix("national ").split()
    return "varchar" if "varying" in more else _SYNONYMS.get(name, name)


_SYNONYMS = {
    other: name
    for name, others in {
        "tinyint": "bool boolean int1",
        "smallint": "int2",
        "mediumint": "int3 middleint",
        "int": "integer int4",
        "bigint": "int8",
        "decimal": "dec numeric fixed",
        "float": "float4",
        "double": "real float8",
        "char": "character nchar",
        "varchar": "nvarchar varcharacter",
    }.items()
    for other in others.split()
}


def bit_default(number: int) -> bytes:
    """Return the bytes that TiDB keeps of the default of a BIT: no more than the number needs."""
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")


def bit_width(data_type: DataType) -> int:
    """Return how many bytes every value of a BIT has."""
    return (max(data_type.length, 1) + 7) // 8
