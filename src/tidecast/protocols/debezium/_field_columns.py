"""Values in messages as columns of the model. Source: Debezium protocol, column types, the real consumer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import MAX_DECIMAL_PRECISION, Kind, bit_width
from tidecast.protocols.debezium._decode_schema import ANY, CONNECT_TIME, Field
from tidecast.protocols.debezium._defaults import EPOCH_TEXT, in_milliseconds
from tidecast.values import (
    BYTES,
    INTEGERS,
    TEXT,
    arrow_type,
    bytes_of_base64,
    clock_text,
    date_text,
    decimal_of_bytes,
    from_text,
    joined,
    moment_text,
    null_where,
    nulls,
    plain_number,
    shortest_text,
    to_numpy,
    valid,
    whole,
)

_INT32, _INT64, _UINT64 = 1 << 31, 1 << 63, 1 << 64
_EXACT = Context(prec=400)
_NUMBERS = frozenset([int, float])


@dataclass(frozen=True)
class Cells:
    """A column of rows: its values, and which rows have one of another form than the column's, or one that is bad."""

    values: pa.Array
    strange: np.ndarray | None = None
    bad: np.ndarray | None = None


def read_column(field: Field, raw: Sequence[Any]) -> Cells:
    """Return the values of a column, null where a row has none. In: what JSON shows of them."""
    kind = arrow_type(field.column.data_type)
    if field.column.virtual or {*map(type, raw)} <= {NoneType}:
        return Cells(nulls(len(raw), kind))
    wanted, read = _READERS.get(field.column.data_type.kind, _TEXTS)
    types = wanted(field)
    strange = None
    if not {*map(type, raw)} <= types | {NoneType}:
        strange = np.array([value is not None and type(value) not in types for value in raw], bool)
        raw = [None if wrong else value for wrong, value in zip(strange, raw, strict=True)]
    values = read(field, raw)
    there = np.array([value is not None for value in raw], bool)
    lost = there & ~valid(values)
    return Cells(values, strange, lost if lost.any() else None)


def _integers(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return whole numbers, null beyond a type's range."""
    try:
        return pa.array(values, kind)
    except (OverflowError, pa.ArrowInvalid):
        return pa.array([v if v is None or v in INTEGERS[kind] else None for v in values], kind)


def _integer(field: Field, raw: Sequence[Any]) -> pa.Array:
    kind = arrow_type(field.column.data_type)
    if kind != pa.uint64():
        return _integers(raw, kind)
    texts, raw = _apart(raw)
    raw = [value + _UINT64 if value is not None and -_INT64 <= value < 0 else value for value in raw]
    return pc.coalesce(_integers(raw, kind), whole(texts, kind))


def _apart(raw: Sequence[Any]) -> tuple[pa.Array, Sequence[Any]]:
    """Return the texts among values, and the numbers; newer TiCDC may write large numbers as text."""
    if str not in {*map(type, raw)}:
        return nulls(len(raw), TEXT), raw
    texts = pa.array([value if type(value) is str else None for value in raw], TEXT)
    return texts, [None if type(value) is str else value for value in raw]


def _real(field: Field, raw: Sequence[Any]) -> pa.Array:
    doubles = pa.array([v if v is None else float(v) for v in raw], pa.float64())
    value = doubles.cast(arrow_type(field.column.data_type), safe=False)
    return null_where(value, valid(value) & ~np.isfinite(to_numpy(value)))


def _decimal(field: Field, raw: Sequence[Any]) -> pa.Array:
    data_type = field.column.data_type
    if field.form.type == "bytes":
        return decimal_of_bytes(_bytes(raw), data_type.length, data_type.decimal)
    texts, raw = _apart(raw)
    return pc.coalesce(decimal_of_doubles(field, raw), from_text(data_type, plain_number(texts)))


def decimal_of_doubles(field: Field, raw: Sequence[float | None]) -> pa.Array:
    """Return a DECIMAL column from the doubles nearest to its values; null for any other double.

    A default, which stands for NULL, may have more digits than its column.
    """
    data_type, default = field.column.data_type, _double(field.column.default)
    finite = [v if v is not None and isfinite(v) else None for v in raw]
    if not data_type.length:
        return shortest_text(pa.array([v if v is None else float(v) for v in finite], pa.float64()))
    rounded = [v if v is None else _nearest(v, data_type.length, data_type.decimal, default) for v in finite]
    if data_type.length <= MAX_DECIMAL_PRECISION:
        return pa.array(rounded, arrow_type(data_type))
    return pa.array([n if n is None else format(n, "f") for n in rounded], TEXT)


def _double(default: str | int | None) -> float | None:
    try:
        return None if default is None else float(default)
    except ValueError:
        return None


def _nearest(value: float, digits: int, scale: int, default: float | None) -> Decimal | None:
    """Return the decimal of so many digits that was rounded to a double, None where none was.

    The double may be above all decimals that the column has. The default is rounded to the column's digits.
    """
    number = Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    limit = Decimal(10**digits - 1).scaleb(-scale, _EXACT)
    found = number if abs(number) <= limit else limit.copy_sign(number)
    return found if float(value) in (float(found), default) else None


def _bytes(raw: Sequence[Any]) -> pa.Array:
    return bytes_of_base64(pa.array(raw, TEXT))


def _bit(field: Field, raw: Sequence[Any]) -> pa.Array:
    if field.form.type == "boolean":
        return bit_of_boolean(pa.array(raw, pa.bool_()))
    return bit_of_bytes(field, _bytes(raw))


def bit_of_boolean(value: pa.Array) -> pa.Array:
    """Return BIT(1)."""
    return pc.if_else(value, pa.scalar(b"\1", BYTES), pa.scalar(b"\0", BYTES))


def bit_of_bytes(field: Field, little: pa.Array) -> pa.Array:
    """Return a BIT column from bytes of which the lowest comes first, null for more bytes than the column has."""
    width = bit_width(field.column.data_type)
    length = to_numpy(pc.binary_length(little))
    fitting = null_where(little, valid(little) & (length > width))
    short = valid(fitting) & (length < width)
    if short.any():
        fitting = pa.array([b if b is None else b.ljust(width, b"\0") for b in fitting.to_pylist()], BYTES)
    return pc.binary_reverse(fitting)


def datetime_of(field: Field, number: pa.Array) -> pa.Array:
    """Return DATETIME from int64, milliseconds or microseconds by the field's form."""
    coarse = in_milliseconds(field.column.data_type)
    unit, width = (1000, 3) if coarse else (1_000_000, 6)
    seconds, part = np.divmod(to_numpy(number), unit)
    fraction = _fraction(part, width, field, always=field.digits or not coarse)
    return null_where(moment_text(pa.array(seconds), fraction), ~valid(number))


def time_of(field: Field, number: pa.Array) -> pa.Array:
    """Return TIME from int64: microseconds, milliseconds in Kafka Connect's own form."""
    if field.form.name == CONNECT_TIME:
        milliseconds = to_numpy(number)
        number = null_where(pa.array(milliseconds * 1000), ~valid(number) | (np.abs(milliseconds) >= _INT32))
    number = null_where(number, to_numpy(number) == -_INT64)
    part = np.abs(to_numpy(number)) % 1_000_000
    return null_where(clock_text(number, _fraction(part, 6, field, always=field.digits)), ~valid(number))


def _fraction(part: np.ndarray, width: int, field: Field, *, always: bool) -> pa.Array:
    """Return the fraction of a second with its point: as many digits as the column has, or all if they are unknown.

    Null for a fraction with more digits than the column has.
    """
    shown = field.column.data_type.decimal
    digits = pc.utf8_lpad(pa.array(part).cast(TEXT), width, "0")
    text = joined([".", pc.utf8_slice_codeunits(digits, 0, shown) if always else digits], TEXT)
    bare = np.full(len(part), not shown) if always else part == 0
    text = pc.if_else(pa.array(bare), pa.scalar("", TEXT), text)
    return null_where(text, part % 10 ** (width - shown) != 0) if always else text


def timestamp_of(field: Field, text: pa.Array) -> pa.Array:
    """Return TIMESTAMP from its text with a Z."""
    digits = field.column.data_type.decimal
    length = to_numpy(pc.binary_length(text))
    instant = np.asarray(pc.fill_null(pc.ends_with(text, "Z"), True))
    instant &= ((length >= len(EPOCH_TEXT)) & (length <= len(EPOCH_TEXT) + 7)) | ~valid(text)
    zero = "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    told = pc.utf8_rtrim(pc.replace_substring(text, "T", " "), "Z")
    return null_where(pc.if_else(pc.equal(text, EPOCH_TEXT), pa.scalar(zero, TEXT), told), ~instant)


_Reader = tuple[Callable[[Field], frozenset[type]], Callable[[Field, Sequence[Any]], pa.Array]]


def _in(*types: type) -> Callable[[Field], frozenset[type]]:
    return lambda field: frozenset(types)


def _of_bit(field: Field) -> frozenset[type]:
    return frozenset([bool if field.form.type == "boolean" else str])


def _of_decimal(field: Field) -> frozenset[type]:
    return frozenset([str]) if field.form.type == "bytes" else _of_number(field, _NUMBERS)


def _of_integer(field: Field) -> frozenset[type]:
    return _of_number(field, frozenset([int]))


def _of_number(field: Field, types: frozenset[type]) -> frozenset[type]:
    """Return the types of numbers: `types`, or text, as newer TiCDC may write large ones."""
    return {"string": frozenset([str]), ANY: types | {str}}.get(field.form.type, types)


_TEXTS: _Reader = (_in(str), lambda field, raw: pa.array(raw, TEXT))
_READERS: dict[Kind, _Reader] = {
    Kind.INTEGER: (_of_integer, _integer),
    Kind.YEAR: (_in(int), _integer),
    Kind.FLOAT: (lambda field: _NUMBERS, _real),
    Kind.DOUBLE: (lambda field: _NUMBERS, _real),
    Kind.DECIMAL: (_of_decimal, _decimal),
    Kind.BINARY: (_in(str), lambda field, raw: _bytes(raw)),
    Kind.BIT: (_of_bit, _bit),
    Kind.DATE: (_in(int), lambda field, raw: date_text(_integers(raw, pa.int64()))),
    Kind.DATETIME: (_in(int), lambda field, raw: datetime_of(field, _integers(raw, pa.int64()))),
    Kind.TIMESTAMP: (_in(str), lambda field, raw: timestamp_of(field, pa.array(raw, TEXT))),
    Kind.TIME: (_in(int), lambda field, raw: time_of(field, _integers(raw, pa.int64()))),
}
"""The types in which JSON shows values, and what reads them; those of any other kind are texts."""
