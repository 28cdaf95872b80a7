"""Columns of the model as JSON text. Source: Debezium protocol, column types, NULL values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Column, DataType, Kind
from tidecast.protocols._json_text import with_exponent
from tidecast.protocols.debezium._defaults import (
    EPOCH_TEXT,
    EXACT_DIGITS,
    FIRST_TIMESTAMP,
    in_milliseconds,
    null_stand_in,
)
from tidecast.protocols.debezium._json import EXPONENT, QUOTING
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.values import (
    TEXT,
    base64_text,
    clock_micros,
    days_of,
    decimal_text,
    joined,
    json_string,
    micros_of,
    null_where,
    rewritten,
    shift_zone,
    shortest_text,
    to_numpy,
    valid,
)

_PLAIN_SCALE = 6
_PLAIN_FROM, _PLAIN_TO = 1e-6, 1e21
_SECOND_DAY, _ZERO = "1970-01-02", "0000"
_ONE_BIT = pa.scalar(b"\x00", pa.large_binary())


def json_column(column: Column, value: pa.Array, options: DebeziumOptions) -> pa.Array:
    """Return a column's values as JSON text, never null. In: see `tidecast.values.arrow_type`."""
    known = known_values(column, value, options)
    write = _WRITERS.get(column.data_type.kind)
    written = write(column.data_type, known) if write else json_string(known, QUOTING)
    return pc.fill_null(written, "0" if shows_unreal_days(column) else "null") if written.null_count else written


def known_values(column: Column, value: pa.Array, options: DebeziumOptions) -> pa.Array:
    """Return a column's values with what stands for a NULL, and for a TIMESTAMP that TiCDC takes for zero.

    DECIMAL may become text.
    """
    stand_in = null_stand_in(column, options) if value.null_count else None
    known = value
    if stand_in is not None:
        known = pc.fill_null(value if value.type == stand_in.type else decimal_text(value), stand_in)
    if column.data_type.kind is Kind.TIMESTAMP and options.zone != "UTC":
        known = _early_as_zero(known, options.zone)
    return known


def shows_unreal_days(column: Column) -> bool:
    """Tell whether a column shows 0 for a day that no calendar has, and not null."""
    return column.data_type.kind in (Kind.DATE, Kind.DATETIME) and not column.nullable


def _early_as_zero(moment: pa.Array, zone: str) -> pa.Array:
    """Return TIMESTAMP text, with `0000` for what the server's clock shows before the first one."""
    early = np.flatnonzero(np.asarray(pc.fill_null(pc.less(moment, _SECOND_DAY), False)))
    if not early.size:
        return moment
    local = shift_zone(moment.take(pa.array(early)), "UTC", zone)
    before = early[np.asarray(pc.less(local, FIRST_TIMESTAMP))]
    mask = np.zeros(len(moment), bool)
    mask[before] = True
    return pc.if_else(pa.array(mask), pa.scalar(_ZERO, moment.type), moment)


def _integer(data_type: DataType, value: pa.Array) -> pa.Array:
    return (value.view(pa.int64()) if value.type == pa.uint64() else value).cast(TEXT)


def _real(data_type: DataType, value: pa.Array) -> pa.Array:
    """The shortest digits, an exponent below 1e-6 and from 1e21 on."""
    text, size = shortest_text(value), np.abs(to_numpy(value))
    low, high = (np.array(bound, size.dtype) for bound in (_PLAIN_FROM, _PLAIN_TO))
    far = np.flatnonzero(valid(value) & (size != 0) & ~((size >= low) & (size < high)))
    return rewritten(text, far, lambda number: with_exponent(number, EXPONENT))


def _decimal(data_type: DataType, value: pa.Array) -> pa.Array:
    text = decimal_text(value)
    exact = 0 < data_type.length <= EXACT_DIGITS and data_type.decimal <= _PLAIN_SCALE
    if not exact or value.type == TEXT:
        return _real(data_type, text.cast(pa.float64()))
    return pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".") if data_type.decimal else text


def _bit(data_type: DataType, value: pa.Array) -> pa.Array:
    if data_type.length <= 1:
        return pc.if_else(pc.equal(value, _ONE_BIT), "false", "true").cast(TEXT)
    return json_string(base64_text(pc.binary_reverse(value)))


def _years(year: np.ndarray) -> np.ndarray:
    """TiCDC's guess of the century for years below 100."""
    return np.where(year < 70, year + 2000, np.where(year < 100, year + 1900, year))


def day_number(value: pa.Array) -> pa.Array:
    """Return the days since 1970 of DATE, null for a day that no calendar has."""
    return days_of(value, _years)


def datetime_number(data_type: DataType, value: pa.Array) -> pa.Array:
    """Return the milliseconds or microseconds since 1970 of DATETIME, null for a day that no calendar has."""
    micros = micros_of(value, _years)
    if not in_milliseconds(data_type):
        return micros
    return null_where(pa.array(to_numpy(micros) // 1000), ~valid(micros))


def instant_text(value: pa.Array, quote: str = "") -> pa.Array:
    """Return the text of TIMESTAMP, in quotation marks if need be."""
    text = joined([quote, pc.replace_substring(value, " ", "T"), f"Z{quote}"], TEXT)
    zero = pa.scalar(f"{quote}{EPOCH_TEXT}{quote}", TEXT)
    return null_where(pc.if_else(pc.starts_with(value, _ZERO), zero, text), ~valid(value))


_WRITERS: dict[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.BINARY: lambda data_type, value: json_string(base64_text(value)),
    Kind.DATE: lambda data_type, value: day_number(value).cast(TEXT),
    Kind.DATETIME: lambda data_type, value: datetime_number(data_type, value).cast(TEXT),
    Kind.TIMESTAMP: lambda data_type, value: instant_text(value, '"'),
    Kind.TIME: lambda data_type, value: clock_micros(value).cast(TEXT),
}
"""How values become text, by kind; those of any other kind are strings."""
