"""Values of the model from the text that MySQL shows of them, as protocols in JSON carry it."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind
from tidecast.values._arrow import BYTES, TEXT, null_where, to_numpy, valid
from tidecast.values._kinds import INTEGERS, arrow_type
from tidecast.values._numbers import bit_bytes, enum_element, set_elements

_WHOLE = "^(0|-?[1-9][0-9]{0,19})$"
_REAL = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
_PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_EXACT = Context(prec=400)


def from_text(data_type: DataType, text: pa.Array) -> pa.Array:
    """Return values of the model (see `arrow_type`) from their text; null for a text that is none of the type.

    Numbers are digits; a BIT is an unsigned number, an ENUM its element's number, a SET its mask as a number. Text of
    other types is taken as it is. Source: Simple protocol, row values; Canal-JSON protocol, values and types.
    """
    read = _READERS.get(data_type.kind)
    return read(data_type, text) if read else text


def whole(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return whole numbers from their text; null unless it is how a number within the type's range is written."""
    try:
        value = text.cast(kind)
        if pc.all(pc.equal(value.cast(TEXT), text), min_count=0).as_py():
            return value
    except pa.ArrowInvalid:
        pass
    text = _matching(text, _WHOLE)
    outside = [t is not None and int(t) not in INTEGERS[kind] for t in text.to_pylist()]
    return null_where(text, np.array(outside, bool)).cast(kind)


def real(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the nearest floats or doubles of numbers' text; null for another text, and beyond the type's range."""
    value = _matching(text, _REAL).cast(kind)
    return null_where(value, valid(value) & ~np.isfinite(to_numpy(value)))


def plain_number(text: pa.Array) -> pa.Array:
    """Return the texts that are numbers without an exponent, null for others."""
    return _matching(text, _PLAIN_NUMBER)


def bytes_of_base64(text: pa.Array) -> pa.Array:
    """Return bytes from their text in base64; null for a text that is none, such as one without its padding."""
    return bytes_read(text, partial(a2b_base64, strict_mode=True))


def bytes_read(text: pa.Array, read: Callable[[str], bytes]) -> pa.Array:
    """Return the bytes that are read from each text; null for one of which `read` raises ValueError."""
    texts = text.to_pylist()
    try:
        return pa.array([t if t is None else read(t) for t in texts], BYTES)
    except ValueError:  # one of them
        return pa.array([t if t is None else _tried(read, t) for t in texts], BYTES)


def _tried(read: Callable[[str], bytes], text: str) -> bytes | None:
    try:
        return read(text)
    except ValueError:
        return None


def _matching(text: pa.Array, pattern: str) -> pa.Array:
    """Return the texts that a regular expression finds whole."""
    # `$` also finds the end before a line feed, which no number has.
    fits = pc.and_(pc.match_substring_regex(text, pattern), pc.invert(pc.match_substring(text, "\n")))
    return pc.if_else(fits, text, pa.scalar(None, TEXT))


def _decimal(data_type: DataType, text: pa.Array) -> pa.Array:
    kind = arrow_type(data_type)
    if not pa.types.is_decimal(kind):
        return text
    text = _matching(text, _REAL)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([_exact(t, kind) for t in text.to_pylist()], kind)


def _exact(text: str | None, kind: pa.DataType) -> Decimal | None:
    """Return a decimal of a type, None for one that has more digits before or after the point."""
    if text is None:
        return None
    number = Decimal(text)
    try:
        fitted = number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    except InvalidOperation:
        return None
    fits = fitted == number and abs(fitted) < Decimal(10) ** (kind.precision - kind.scale)
    return fitted if fits else None


_READERS: dict[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    Kind.INTEGER: lambda data_type, text: whole(text, arrow_type(data_type)),
    Kind.YEAR: lambda data_type, text: whole(text, pa.int32()),
    Kind.FLOAT: lambda data_type, text: real(text, pa.float32()),
    Kind.DOUBLE: lambda data_type, text: real(text, pa.float64()),
    Kind.DECIMAL: _decimal,
    Kind.BIT: lambda data_type, text: bit_bytes(data_type, whole(text, pa.uint64())),
    Kind.ENUM: lambda data_type, text: enum_element(data_type, whole(text, pa.uint64())),
    Kind.SET: lambda data_type, text: set_elements(data_type, whole(text, pa.uint64())),
}
