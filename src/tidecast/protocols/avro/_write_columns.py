"""Columns of the model as fields of Avro records, a binary column or several for each field.

Source: Avro protocol, wire format, column types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._read_schema import avro_type, branches
from tidecast.protocols.avro._schema import avro_form
from tidecast.values import BYTES, TEXT, beginnings, decimal_bytes, decimal_text, shift_zone, to_numpy, valid

_VARINT = 10
"""The most bytes of a number of 64 bits."""
_SHIFTS = (7 * np.arange(_VARINT)).astype(np.uint64)
_LIMITS = np.uint64(1) << _SHIFTS[1:]
_MORE = 0x80

_FIXED: dict[object, str] = {"float": "<f4", "double": "<f8", "boolean": "u1"}
"""Avro's types of fixed width as numpy's."""


def written(field_type: object, value: pa.Array) -> list[pa.Array]:
    """Return a field's values as Avro's bytes: columns to be put one behind the other, none of them null.

    In: the field's type as its schema has it, and values as `value_of` returns them; a null without a branch of its own
    gives bytes that mean nothing.
    """
    block, null = branches(field_type)
    there = valid(value) if null is not None else np.ones(len(value), bool)
    branch = None if null is None else np.where(there, 2 - 2 * null, 2 * null).astype(np.uint8)
    kind = avro_type(block)
    if kind in _FIXED:
        numbers = to_numpy(value.cast(pa.uint8()) if kind == "boolean" else value).astype(_FIXED[kind])
        cells = numbers.view(np.uint8).reshape(len(value), -1)
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


def value_of(data_type: DataType, value: pa.Array, options: AvroOptions) -> pa.Array:
    """Return a column of the model as its Avro form holds it."""
    write = _WRITERS.get(data_type.kind)
    return write(data_type, value, options) if write else value


def _integer(data_type: DataType, value: pa.Array, options: AvroOptions) -> pa.Array:
    if value.type != pa.uint64():
        return value
    return value.cast(TEXT) if avro_form(data_type, options).avro == "string" else value.view(pa.int64())


def _decimal(data_type: DataType, value: pa.Array, options: AvroOptions) -> pa.Array:
    if avro_form(data_type, options).avro == "string":
        return decimal_text(value)
    return decimal_bytes(value, data_type.decimal)


_WRITERS: dict[Kind, Callable[[DataType, pa.Array, AvroOptions], pa.Array]] = {
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.TIMESTAMP: lambda data_type, value, options: shift_zone(value, "UTC", options.zone),
}
