"""A MySQL column in a table: its type there, its value, and what it holds in rows that are older than it.

| kind | type in the table |
|---|---|
| DATE | date |
| DATETIME | timestamp without time zone |
| TIMESTAMP | timestamp |
| others | the model's, see `spark_type` |
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
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

_NUMERIC = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


def table_type(data_type: DataType) -> T.DataType:
    """Return the type of a MySQL column in a table."""
    return _TEMPORAL.get(data_type.kind) or spark_type(data_type)


def may_be_unrepresentable(data_type: DataType) -> bool:
    """Tell whether MySQL has values of this type that the table's type cannot hold: zero dates, 30 February."""
    return data_type.kind in _TEMPORAL


def table_value(value: Column, data_type: DataType) -> Column:
    """Return a value of the model as the table holds it; null where it has no form there."""
    if data_type.kind not in _TEMPORAL:
        return value
    # The model's TIMESTAMP text is UTC; the session's time zone shall have no say.
    text = F.concat(value, F.lit("Z")) if data_type.kind is Kind.TIMESTAMP else value
    return text.try_cast(table_type(data_type))


def fill(column: model.Column) -> Column | None:
    """Return what rows hold that are older than an added column: its default, else MySQL's implicit one.

    Out: a literal of `table_type`, or None where the default is unknown, no literal, or has no form in the table.
    """
    kind, default = column.data_type.kind, column.default
    if not column.default_known:
        return None
    if default is None and column.nullable:
        return F.lit(None).cast(table_type(column.data_type))
    if default is None:
        default = _implicit(column.data_type)
    if default is None or not _CHECKS.get(kind, _any)(default):
        return None
    literal = _LITERALS.get(kind, _text)(default, column.data_type)
    return table_value(literal, column.data_type).cast(table_type(column.data_type))


def fills(column: model.Column) -> bool:
    """Tell whether rows that are older than an added column hold a value in it, and not null."""
    return fill(column) is not None and not (column.default is None and column.nullable)


def _implicit(data_type: DataType) -> str | int | None:
    """Return the value that MySQL gives to NOT NULL columns without a default; None where it has no form."""
    kind = data_type.kind
    if kind in _NUMERIC or kind is Kind.BIT:
        return 0 if kind is Kind.BIT else "0"
    if kind is Kind.ENUM:
        return data_type.elements[0] if data_type.elements else None
    return _IMPLICIT_TEXTS.get(kind)


_IMPLICIT_TEXTS = {Kind.TEXT: "", Kind.BINARY: "", Kind.SET: "", Kind.TIME: "00:00:00", Kind.JSON: "null"}


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
