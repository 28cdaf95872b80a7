"""Arrow columns made from numpy arrays and back: the few steps that all kinds of values share.

A value that is not of its column's type becomes null. `refused` compares a column before and after a step, and finds
the rows that lost their value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()
BYTES = pa.large_binary()
"""Text and bytes with 64-bit offsets: a batch of large messages passes the 2 GiB that 32 bits can address."""


def valid(array: pa.Array) -> np.ndarray:
    """Return a boolean per row: whether the row has a value."""
    if not array.null_count:
        return np.ones(len(array), bool)
    return np.asarray(array.is_valid())


def to_numpy(array: pa.Array) -> np.ndarray:
    """Return the numbers of a column, 0 for null."""
    return np.asarray(pc.fill_null(array, 0) if array.null_count else array)


def numbers(values: np.ndarray, there: np.ndarray | None, kind: pa.DataType) -> pa.Array:
    """Return numbers of fixed width as a column, null where `there` is false."""
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [_bits(there), data])


def fixed_bytes(values: np.ndarray, there: np.ndarray | None) -> pa.Array:
    """Return the bytes of numbers as a binary column, null where `there` is false."""
    offsets = np.arange(len(values) + 1, dtype=np.int64) * values.dtype.itemsize
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(BYTES, len(values), [_bits(there), pa.py_buffer(offsets), data])


def gather(data: np.ndarray, start: np.ndarray, length: np.ndarray, there: np.ndarray | None) -> pa.Array:
    """Return spans of some bytes as a binary column, null where `there` is false.

    `data` is uint8. No span may begin before the one in front of it ends.
    """
    # Spans and the gaps between them, as one column over the bytes that are there; every second of it is a span.
    offsets = np.empty(2 * len(start), np.int64)
    offsets[0::2] = start
    np.add(start, length, out=offsets[1::2])
    count = max(len(offsets) - 1, 0)
    both = pa.Array.from_buffers(BYTES, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * len(start), 2), mask=None if there is None else ~there))


def beginnings(cells: np.ndarray, length: np.ndarray) -> pa.Array:
    """Return the first bytes of each row of a matrix as a binary column. In: uint8, and how many of each row."""
    offsets = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    data = cells[np.arange(cells.shape[1]) < length[:, None]]
    return pa.Array.from_buffers(BYTES, len(cells), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def field(rows: pa.StructArray, name: str) -> pa.Array:
    """Return the values of one column of rows."""
    return rows.field(rows.type.get_field_index(name))


def content_of(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of a text or binary column, and where each value starts; the last number is where all end."""
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    content = array.buffers()[2]
    # One byte at least, so that a place outside can be clipped to what is there.
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(1, np.uint8)
    return data, offsets


def _bits(there: np.ndarray | None) -> pa.Buffer | None:
    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return a column without any value."""
    return pa.nulls(count, kind)


def alike(one: pa.Array, other: pa.Array) -> np.ndarray:
    """Return a boolean per row: whether two columns have the same value there, or both none."""
    same: np.ndarray = np.asarray(pc.fill_null(pc.equal(one, other), False)) | ~(valid(one) | valid(other))
    return same


def null_where(array: pa.Array, bad: np.ndarray) -> pa.Array:
    """Return a column without the values of some rows."""
    return pc.if_else(pa.array(~bad), array, pa.scalar(None, array.type)) if bad.any() else array


def refused(before: pa.Array, after: pa.Array) -> np.ndarray | None:
    """Return which rows lost their value in a step, None where none did."""
    if before.null_count == after.null_count:
        return None
    lost: np.ndarray = valid(before) & ~valid(after)
    return lost


def spread(array: pa.Array, rows: np.ndarray, count: int) -> pa.Array:
    """Return a column of `count` rows that has these values at `rows`, and null elsewhere."""
    if len(rows) == count:
        return array
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return array.take(pa.array(places, mask=places < 0))


def text_of_bytes(array: pa.Array) -> pa.Array:
    """Return bytes as text; null where they are not UTF-8."""
    try:
        return array.cast(TEXT)
    except pa.ArrowInvalid:
        return null_where(array, ~np.fromiter(map(_is_text, array.to_pylist()), bool, len(array))).cast(TEXT)


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def by_distinct(array: pa.Array, make: Callable[[Any], object], kind: pa.DataType) -> pa.Array:
    """Return what `make` returns for each value, called once for each distinct one; null stays null."""
    encoded = array.dictionary_encode()
    made = pa.array([make(value) for value in encoded.dictionary.to_pylist()], kind)
    return made.take(encoded.indices)


def rewritten(text: pa.Array, rows: np.ndarray, write: Callable[[str], str | None]) -> pa.Array:
    """Return texts of which those of some rows, which are not null, are written anew."""
    if not rows.size:
        return text
    written = text.to_pylist()
    for row in rows:
        written[row] = write(written[row])
    return pa.array(written, TEXT)


def joined(pieces: Iterable[pa.Array | pa.Scalar | str | bytes], kind: pa.DataType = BYTES) -> pa.Array:
    """Return texts or bytes put together row by row; null counts as nothing, and a constant as one for all rows.

    One piece at least must be a column.
    """
    nothing = pa.scalar("" if kind == TEXT else b"", kind)
    found: list[pa.Array | pa.Scalar] = []
    for constant, some in groupby(pieces, lambda piece: isinstance(piece, str | bytes)):
        together = [*some]
        found += [pa.scalar(nothing.as_py().join(together), kind)] if constant else together
    # Arrow leaves out a row in which all is null; a piece that never is keeps it.
    return pc.binary_join_element_wise(*found, nothing, nothing, null_handling="skip")
