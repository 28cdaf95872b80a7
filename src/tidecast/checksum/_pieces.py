"""The bytes that a column's values give to the row checksum. Source: Avro protocol, row checksum.

Each maker returns one binary column, or several that follow each other; null for NULL.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind
from tidecast.values import (
    BYTES,
    bit_number,
    by_distinct,
    decimal_text,
    enum_number,
    fixed_bytes,
    refused,
    set_mask,
    to_numpy,
    valid,
)

Pieces = tuple[pa.Array, ...]

_NEVER = pa.scalar(b"\xff", BYTES)
"""What a value outside of its column's type gives: no value has a single byte, so that it fits no checksum."""


def pieces(data_type: DataType, value: pa.Array) -> Pieces:
    """Return the bytes of a column's values, in order; none for a type that takes no part."""
    make = _MAKERS.get(data_type.kind)
    return make(data_type, value) if make else ()


def _there(value: pa.Array) -> np.ndarray | None:
    return valid(value) if value.null_count else None


def _number(value: pa.Array) -> pa.Array:
    kind = "<u8" if value.type == pa.uint64() else "<i8"
    return fixed_bytes(to_numpy(value).astype(kind), _there(value))


def _known(value: pa.Array, number: pa.Array) -> Pieces:
    """Return the bytes of the numbers that values stand for; those of no value where there is none."""
    found, lost = _number(number), refused(value, number)
    return (found if lost is None else pc.if_else(pa.array(lost), _NEVER, found),)


def _real(data_type: DataType, value: pa.Array) -> Pieces:
    """A double; NaN and the infinities count as 0."""
    with np.errstate(invalid="ignore"):  # a damaged float may be a signalling NaN
        number = to_numpy(value).astype("<f8")
    return (fixed_bytes(np.where(np.isfinite(number), number, 0.0), _there(value)),)


def _text(data_type: DataType, value: pa.Array) -> Pieces:
    length = to_numpy(pc.binary_length(value)).astype("<u4")
    return fixed_bytes(length, _there(value)), value.cast(BYTES)


def _vector(data_type: DataType, value: pa.Array) -> Pieces:
    """The number of dimensions, and each as a 4-byte float."""
    found = by_distinct(value, _vector_bytes, BYTES)
    lost = refused(value, found)
    return (found if lost is None else pc.if_else(pa.array(lost), _NEVER, found),)


_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_NUMBERS = re.compile(rf"\[(?:{_NUMBER}(?:,{_NUMBER})*+)?\]", re.ASCII)
"""A vector as TiDB shows it: JSON has blanks, texts and booleans, too, which are no number of it."""


def _vector_bytes(text: str) -> bytes | None:
    if not _NUMBERS.fullmatch(text):
        return None
    try:
        parts = orjson.loads(text)
        return struct.pack(f"<I{len(parts)}f", len(parts), *parts)
    except (ValueError, TypeError, struct.error, OverflowError):
        return None


_MAKERS: dict[Kind, Callable[[DataType, pa.Array], Pieces]] = {
    Kind.INTEGER: lambda data_type, value: (_number(value),),
    Kind.YEAR: lambda data_type, value: (_number(value),),
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    # An element's number from 1, 0 for the invalid value ''.
    Kind.ENUM: lambda data_type, value: _known(value, enum_number(data_type, value)),
    # A bit for each element.
    Kind.SET: lambda data_type, value: _known(value, set_mask(data_type, value)),
    Kind.BIT: lambda data_type, value: _known(value, bit_number(value)),
    Kind.VECTOR: _vector,
    Kind.DECIMAL: lambda data_type, value: _text(data_type, decimal_text(value)),
    **dict.fromkeys(
        (Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME),
        _text,
    ),
}
