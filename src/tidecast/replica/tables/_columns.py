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
from decimal import Decimal, InvalidOperation

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast import model
from tidecast.model import DataType, Kind, bit_width, spark_type

_TEMPORAL: dict[Kind, T.DataType] = {
    Kind.DATE: T.DateType(),
    Kind.DATETIME: T.TimestampNTZType(),
    Kind.TIMESTAMP: T.TimestampType(),
}

_TEXT_OF, _HASH_OF = "text of ", "hash of "
_ZEROS = {Kind.DATE: "0000-00-00", Kind.DATETIME: "0000-00-00 00:00:00", Kind.TIMESTAMP: "0000-00-00 00:00:00"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?)?")

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


def table_value(value: Column, data_type: DataType) -> Column:
    """Return a value of the model as the table holds it; null where it has no form there."""
    if data_type.kind not in _TEMPORAL:
        return value
    # The model's TIMESTAMP text is UTC, whatever the session's time zone.
    text = F.concat(value, F.lit("Z")) if data_type.kind is Kind.TIMESTAMP else value
    return text.try_cast(table_type(data_type))


def fill(column: model.Column) -> Column | None:
    """Return what rows hold that are older than an added column: its default, else MySQL's implicit one.

    Out: a literal of `table_type`, or None where the default is unknown, no literal, or has no form in the table.
    """
    data_type = column.data_type
    if not fills_known(column):
        return None
    default = _default(column)
    if default is None:
        return F.lit(None).cast(table_type(data_type))
    if is_text(data_type):
        default = _with_fraction(str(default), data_type)
    literal = _LITERALS.get(source_type(data_type).kind, _text)(default, data_type)
    return table_value(literal, data_type).cast(table_type(data_type))


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
    """Return the text of a moment with as many digits after the point as every value has."""
    if not data_type.decimal or source_type(data_type).kind is Kind.DATE:
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


def _text(default: str | int, data_type: DataType) -> Column:
    return F.lit(str(default))


def _number(default: str | int, data_type: DataType) -> Column:
    return F.lit(str(default)).try_cast(spark_type(data_type))


def _year(default: str | int, data_type: DataType) -> Column:
    """A year of two digits is one from 1970 to 2069."""
    year = int(Decimal(default))
    return F.lit(year + (2000 if year < 70 else 1900) if 0 < year < 100 else year)


def _bits(default: str | int, data_type: DataType) -> Column:
    bits = max(data_type.length, 1)
    return F.lit((int(default) % (1 << bits)).to_bytes(bit_width(data_type), "big"))


def _bytes(default: str | int, data_type: DataType) -> Column:
    padded = data_type.length if data_type.mysql_type == "binary" else 0
    return F.lit(str(default).encode().ljust(padded, b"\0"))


_LITERALS: dict[Kind, Callable[[str | int, DataType], Column]] = {
    **dict.fromkeys(_NUMERIC, _number),
    Kind.YEAR: _year,
    Kind.BIT: _bits,
    Kind.BINARY: _bytes,
}
