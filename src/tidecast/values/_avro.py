"""Values in Avro's binary form. Source: Avro protocol, wire format."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import BYTES, beginnings, to_numpy, valid

_VARINT = 10
"""The most bytes of a number of 64 bits."""
_SHIFTS = (7 * np.arange(_VARINT)).astype(np.uint64)
_LIMITS = np.uint64(1) << _SHIFTS[1:]
_MORE = 0x80
_FIXED = {"float": "<f4", "double": "<f8", "boolean": "u1"}
"""Avro's types of fixed width as numpy's."""


def avro_bytes(kind: str, value: pa.Array, branch: np.ndarray | None = None) -> list[pa.Array]:
    """Return values as Avro writes them: binary columns to be put one behind the other, null as no bytes at all.

    In: the name of an Avro type, values of that type, and the byte of a union's branch in front of each, for null as
    well, if there is one (uint8).
    """
    there = valid(value)
    if kind in _FIXED:
        numbers = to_numpy(value.cast(pa.uint8()) if kind == "boolean" else value).astype(_FIXED[kind])
        cells = numbers.view(np.uint8).reshape(-1, numbers.itemsize)
        return [_cells(branch, cells, np.where(there, cells.shape[1], 0))]
    if kind in ("int", "long"):
        return [_cells(branch, *_varints(to_numpy(value).astype(np.int64), there))]
    content = value.cast(BYTES)
    lengths = to_numpy(pc.binary_length(content)).astype(np.int64)
    return [_cells(branch, *_varints(lengths, there)), content if there.all() else pc.fill_null(content, b"")]


def _varints(number: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers in zigzag and seven bits a byte: a row of bytes each, and how many of them count."""
    zigzag = ((number << 1) ^ (number >> 63)).view(np.uint64)
    length = np.searchsorted(_LIMITS, zigzag, side="right") + 1
    width = int(length.max(initial=1))
    cells = ((zigzag[:, None] >> _SHIFTS[:width]) & np.uint64(_MORE - 1)).astype(np.uint8)
    cells[np.arange(width) < (length - 1)[:, None]] |= _MORE
    return cells, np.where(there, length, 0)


def _cells(branch: np.ndarray | None, cells: np.ndarray, length: np.ndarray) -> pa.Array:
    """Return the first bytes of each row of cells, behind the byte of its branch where there is one."""
    if branch is not None:
        cells, length = np.concatenate([branch[:, None], cells], axis=1), length + 1
    return beginnings(cells, length)
