"""A MySQL column in a table: its type there, its value, and what it holds in rows that are older than it.

| kind | type in the table |
|---|---|
| DATE | date |
| DATETIME | timestamp without time zone |
| TIMESTAMP | timestamp |
| others | the model's, see `spark_type` |

To keep values that have no form in these types, the first three become MySQL's text, that of TIMESTAMP in UTC.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast import model
from tidecast.model import DataType, Kind, bit_width, spark_type
from tidecast.values import BYTES, TEXT, arrow_type, calendar_value, for_spark

_TEMPORAL: dict[Kind, T.DataType] = {
    Kind.DATE: T.DateType(),
    Kind.DATETIME: T.TimestampNTZType(),
    Kind.TIMESTAMP: T.TimestampType(),
}

_TEXT_OF, _HASH_OF = "text of ", "hash of "
_ZEROS = {Kind.DATE: "0000-00-00", Kind.DATETIME: "0000-00-00 00:00:00", Kind.TIMESTAMP: "0000-00-00 00:00:00"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?)?")

_CLOCK = re.compile(r"-?\d+:\d\d:\d\d(\.\d+)?")

_EXACT = Context(prec=400)
_NUMERIC = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


def table_type(data_type: DataType) -> T.DataType:
    """Return the type of a MySQL column in a table."""
    return _TEMPORAL.get(data_type.kind) or spark_type(data_type)


def may_be_unrepresentable(data_type: DataType) -> bool:
    """Tell whether MySQL has values of this type that the table's type cannot hold: zero dates, 30 February."""
    return data_type.kind in _TEMPORAL


def as_text(data_type: DataType) -> DataType:
    """Return the type of a column that keeps MySQL's text of values which its table's type may not hold."""
    if not may_be_unrepresentable(data_type):
        return data_type
    return replace(data_type, mysql_type=f"{_TEXT_OF}{data_type.mysql_type}")


def is_text(data_type: DataType) -> bool:
    """Tell whether `as_text` made a type."""
    return data_type.mysql_type.startswith(_TEXT_OF)


def as_hash(data_type: DataType) -> DataType:
    """Return the type of a column of hashes of values; it tells what their text, or their bytes, look like."""
    return DataType(f"{_HASH_OF}{_written(data_type)}", "utf8mb4", "utf8mb4_bin", length=64)


def hashed(data_type: DataType) -> str | None:
    """Return of what hashes are for which `as_hash` made a type: of another one they differ. None for other types."""
    name = data_type.mysql_type
    return name.removeprefix(_HASH_OF) if name.startswith(_HASH_OF) else None


def _written(data_type: DataType) -> str:
    kind = data_type.kind
    if kind in (Kind.INTEGER, Kind.YEAR) or (kind is Kind.DECIMAL and data_type.length and not data_type.decimal):
        return "whole numbers"
    if kind in _WITH_FRACTION:
        return f"{kind.value} with {data_type.decimal} digits after the point"
    if kind is Kind.BIT:
        return f"{bit_width(data_type)} bytes"
    return "text" if kind in _TEXTS else kind.value


_WITH_FRACTION = (Kind.DECIMAL, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_TEXTS = (Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON, Kind.VECTOR)


def source_type(data_type: DataType) -> DataType:
    """Return the type at the source of one that `as_text` may have made."""
    return replace(data_type, mysql_type=data_type.mysql_type.removeprefix(_TEXT_OF))


def arrow_type_of(kind: T.DataType) -> pa.DataType:
    """Return the Arrow type of a table's column."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind]


_ARROW: dict[T.DataType, pa.DataType] = {
    T.IntegerType(): pa.int32(),
    T.LongType(): pa.int64(),
    T.FloatType(): pa.float32(),
    T.DoubleType(): pa.float64(),
    T.BooleanType(): pa.bool_(),
    T.BinaryType(): BYTES,
    T.StringType(): TEXT,
    T.NullType(): pa.null(),
    T.DateType(): pa.date32(),
    T.TimestampNTZType(): pa.timestamp("us"),
    T.TimestampType(): pa.timestamp("us", "UTC"),
}


def table_value(value: pa.Array, data_type: DataType) -> pa.Array:
    """Return values of the model as the table holds them; null where they have no form there.

    The model's TIMESTAMP text is UTC.
    """
    if data_type.kind not in _TEMPORAL:
        return for_spark(value)
    return calendar_value(value, arrow_type_of(table_type(data_type)))


def fill(column: model.Column) -> pa.Scalar | None:
    """Return what rows hold that are older than an added column: its default, else MySQL's implicit one.

    Out: a value of `table_type`, or None where the default is unknown, no literal, or has no form in the table.
    """
    data_type = column.data_type
    if not fills_known(column):
        return None
    default = _default(column)
    if default is None:
        return pa.scalar(None, arrow_type_of(table_type(data_type)))
    if is_text(data_type):
        default = _with_fraction(str(default), data_type)
    kind = source_type(data_type).kind
    literal = _LITERALS[kind](default, data_type) if kind in _LITERALS else str(default)
    return table_value(pa.array([literal], arrow_type(data_type)), data_type)[0]


def literal(value: pa.Scalar) -> Column:
    """Return a value of a table's column for a plan of Spark."""
    if pa.types.is_temporal(value.type) and value.is_valid:
        return F.lit(value.cast(pa.string()).as_py()).cast(_SPARK[value.type])
    return F.lit(value.as_py())


_SPARK = {kind: spark for spark, kind in _ARROW.items()}


def fills_known(column: model.Column) -> bool:
    """Tell whether it is known what rows hold that are older than an added column (see `fill`)."""
    if not column.default_known:
        return False
    default, kept = _default(column), is_text(column.data_type)
    if default is None:
        return column.nullable
    return (_is_written_moment if kept else _CHECKS.get(source_type(column.data_type).kind, _any))(default)


def fills(column: model.Column) -> bool:
    """Tell whether rows that are older than an added column hold a value in it, and not null."""
    return fills_known(column) and _default(column) is not None


def _default(column: model.Column) -> str | int | None:
    """Return a column's default, else MySQL's implicit one; None for null, and where it has no form."""
    if column.default is not None or column.nullable:
        return column.default
    kind = source_type(column.data_type).kind
    return _ZEROS[kind] if is_text(column.data_type) else _implicit(column.data_type)


def _implicit(data_type: DataType) -> str | int | None:
    """Return the value that MySQL gives to NOT NULL columns without a default; None where it has no form."""
    kind = data_type.kind
    if kind in _NUMERIC or kind is Kind.BIT:
        return 0 if kind is Kind.BIT else "0"
    if kind is Kind.ENUM:
        return data_type.elements[0] if data_type.elements else None
    return _IMPLICIT_TEXTS.get(kind)


_IMPLICIT_TEXTS = {Kind.TEXT: "", Kind.BINARY: "", Kind.SET: "", Kind.TIME: "00:00:00", Kind.JSON: "null"}


def _with_fraction(moment: str, data_type: DataType) -> str:
    """Return the text of a moment or a time with as many digits after the point as every value has."""
    if data_type.decimal <= 0 or source_type(data_type).kind is Kind.DATE:
        return moment
    whole, _, fraction = moment.partition(".")
    return f"{whole}.{fraction.ljust(data_type.decimal, '0')}"


def _any(default: str | int) -> bool:
    return True


def _is_number(default: str | int) -> bool:
    try:
        return Decimal(default).is_finite()
    except InvalidOperation:
        return False


def _is_moment(default: str | int) -> bool:
    try:
        dt.datetime.fromisoformat(str(default))
    except ValueError:
        return False
    return True


def _is_written_moment(default: str | int) -> bool:
    """Zero dates are, as text."""
    return bool(_MOMENT.fullmatch(str(default)))


def _is_whole(default: str | int) -> bool:
    """Bytes that are no text are lost before a source sees them."""
    return "\ufffd" not in str(default)


_CHECKS: dict[Kind, Callable[[str | int], bool]] = {
    **dict.fromkeys(_NUMERIC, _is_number),
    **dict.fromkeys(_TEMPORAL, _is_moment),
    Kind.BINARY: _is_whole,
}


def _number(default: str | int, data_type: DataType) -> object:
    """Return a number as its type has it, None beyond its range."""
    kind, number = arrow_type(data_type), Decimal(default)
    if pa.types.is_decimal(kind):
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _EXACT)
        return rounded if abs(rounded) < Decimal(10) ** (kind.precision - kind.scale) else None
    if not pa.types.is_integer(kind):
        return float(number) if pa.types.is_floating(kind) else _decimal_text(number, data_type)
    low, high = (0, 1 << 64) if kind == pa.uint64() else (-(1 << kind.bit_width - 1), 1 << kind.bit_width - 1)
    return int(number) if number == int(number) and low <= number < high else None


def _decimal_text(number: Decimal, data_type: DataType) -> str | None:
    """Return the text of a DECIMAL as MySQL shows it, with all its digits after the point; None beyond its range."""
    if data_type.length <= 0:  # its digits are unknown
        return format(number, "f")
    rounded = number.quantize(Decimal(1).scaleb(-data_type.decimal), ROUND_HALF_UP, _EXACT)
    fits = abs(rounded) < Decimal(10) ** (data_type.length - data_type.decimal)
    return format(rounded if rounded else abs(rounded), "f") if fits else None


def _time(default: str | int, data_type: DataType) -> str:
    text = str(default)
    return _with_fraction(text, data_type) if _CLOCK.fullmatch(text) else text


def _year(default: str | int, data_type: DataType) -> int:
    """A year of two digits is one from 1970 to 2069."""
    year = int(Decimal(default))
    return year + (2000 if year < 70 else 1900) if 0 < year < 100 else year


def _bits(default: str | int, data_type: DataType) -> bytes:
    bits = max(data_type.length, 1)
    return (int(default) % (1 << bits)).to_bytes(bit_width(data_type), "big")


def _bytes(default: str | int, data_type: DataType) -> bytes:
    padded = data_type.length if data_type.mysql_type == "binary" else 0
    return str(default).encode().ljust(padded, b"\0")


_LITERALS: dict[Kind, Callable[[str | int, DataType], object]] = {
    **dict.fromkeys(_NUMERIC, _number),
    Kind.YEAR: _year,
    Kind.BIT: _bits,
    Kind.BINARY: _bytes,
    Kind.TIME: _time,
}
