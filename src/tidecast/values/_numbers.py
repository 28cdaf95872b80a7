"""ENUM, SET and BIT as the numbers that they are in MySQL, and back. Source: Simple protocol, row values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, bit_width
from tidecast.values._arrow import BYTES, TEXT, by_distinct, content_of, gather, null_where, numbers, to_numpy, valid

_WORD = 8


def _unescaped(element: str) -> str:
    return element.replace("\\'", "'").replace("''", "'")


def _as_listed(data_type: DataType) -> Callable[[list[str]], list[str]]:
    """Return a function that spells elements as their type does.

    Avro's schemas show elements with their quotes unescaped, and rows do not: a text that is none of the elements
    counts as the one that it is without those escapes. Source: Avro protocol, allowed.
    """
    listed = {*data_type.elements}
    quoted = any("'" in element for element in listed)
    return lambda parts: parts if not quoted or listed.issuperset(parts) else [*map(_unescaped, parts)]


def enum_number(data_type: DataType, element: pa.Array) -> pa.Array:
    """Return the number from 1 of each element as int64, 0 for the invalid value '', null for any other text."""
    as_listed = _as_listed(data_type)
    known = {"": 0} | {e: n for n, e in reversed([*enumerate(data_type.elements, 1)])}
    return by_distinct(element, lambda text: known.get(as_listed([text])[0]), pa.int64())


def enum_element(data_type: DataType, number: pa.Array) -> pa.Array:
    """Return the element of each number (uint64), '' for 0, null for a number without element."""
    elements = pa.array(["", *data_type.elements], TEXT)
    return elements.take(null_where(number, to_numpy(number) >= len(elements)))


def set_mask(data_type: DataType, elements: pa.Array) -> pa.Array:
    """Return a bit for each element as uint64, the lowest for the first; null for text that is no element."""
    as_listed = _as_listed(data_type)
    bits = {e: 1 << n for n, e in enumerate(data_type.elements)}

    def mask(text: str) -> int | None:
        parts = as_listed(text.split(",")) if text else []
        return sum(bits[p] for p in {*parts}) if bits.keys() >= {*parts} else None

    return by_distinct(elements, mask, pa.uint64())


def set_elements(data_type: DataType, mask: pa.Array) -> pa.Array:
    """Return the elements of each mask (uint64), joined by commas; null for a mask with bits of no element."""
    elements = data_type.elements

    def text(bits: int) -> str | None:
        return None if bits >> len(elements) else ",".join(e for n, e in enumerate(elements) if bits >> n & 1)

    return by_distinct(mask, text, TEXT)


def bit_number(bits: pa.Array) -> pa.Array:
    """Return big-endian bits as uint64; null for more than 64 of them that count."""
    length = np.asarray(pc.fill_null(pc.binary_length(bits), 0))
    if (length > _WORD).any():
        bits = pa.array([b if b is None else b.lstrip(b"\0").rjust(1, b"\0") for b in bits.to_pylist()], BYTES)
        length = np.asarray(pc.fill_null(pc.binary_length(bits), 0))
    source, offsets = content_of(bits)
    matrix = source.take(offsets[1:, None] - _WORD + np.arange(_WORD), mode="clip")
    matrix = np.where(np.arange(_WORD) < (_WORD - length)[:, None], 0, matrix).astype(np.uint8)
    return numbers(matrix.view(">u8").ravel().astype(np.uint64), valid(bits) & (length <= _WORD), pa.uint64())


def bit_bytes(data_type: DataType, number: pa.Array) -> pa.Array:
    """Return each number (uint64) as bytes of the column's length, null for a number that has more bits."""
    width, value = bit_width(data_type), to_numpy(number)
    there = valid(number)
    if width < _WORD:
        there = there & (value >> np.uint64(8 * width) == 0)
    matrix = value.astype(">u8").view(np.uint8)
    ends = (np.arange(len(value)) + 1) * _WORD
    return gather(matrix, ends - min(width, _WORD), np.where(there, min(width, _WORD), 0), there)
