"""Types in Avro schemas, and fields of them as Arrow columns. Source: Avro protocol, wire format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidecast.protocols._avro_reader import Reader
from tidecast.values import avro_bytes, gather, numbers, valid

Block = str | dict[str, object]
"""The type of a field as a schema gives it: a name, or an object with `type` in it."""


def branches(field_type: object) -> tuple[Block, int | None]:
    """Return the type of a field without null, and the position of null in its union, None without one."""
    if not isinstance(field_type, list):
        return field_type, None  # type: ignore[return-value]
    null = field_type.index("null")
    (block,) = (t for t in field_type if t != "null")
    return block, null


def avro_type(field_type: object) -> object:
    """Return the name of a field's Avro type, without null."""
    block, _ = branches(field_type)
    return block if isinstance(block, str) else block["type"]


_READS: dict[str, tuple[Callable[..., np.ndarray], pa.DataType]] = {
    "int": (Reader.integer, pa.int64()),
    "long": (Reader.long, pa.int64()),
    "float": (Reader.single, pa.float32()),
    "double": (Reader.double, pa.float64()),
    "boolean": (Reader.boolean, pa.bool_()),
}
"""How a field of fixed width is read, by Avro's type. All others are texts or bytes."""

PRIMITIVES = frozenset([*_READS, "string", "bytes"])
"""The Avro types that `read_field` reads."""


def read_field(reader: Reader, field_type: object) -> pa.Array:
    """Return a field's raw values, null for the null of its union, and move the reader behind them."""
    block, null = branches(field_type)
    rows = None if null is None else reader.branch(null)
    there = None
    if rows is not None:
        there = np.zeros(reader.count, bool)
        there[rows] = True
    kind = avro_type(block)
    if kind not in _READS:
        start, length = reader.span(rows)
        if rows is not None:
            # A row without a value has an empty span where it stands, so that the spans stay in order.
            start, length = _whole(start, rows, reader.at), _whole(length, rows, np.zeros_like(reader.at))
        return gather(reader.data, start, length, there)
    read, arrow = _READS[kind]
    values = read(reader, rows)
    if rows is not None:
        values = _whole(values, rows, np.zeros(reader.count, values.dtype))
    if arrow == pa.bool_():
        return pa.array(values, mask=None if there is None else ~there)
    return numbers(values, there, arrow)


def _whole(values: np.ndarray, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return values at some rows, and those of `others` in between."""
    whole = others.copy()
    whole[rows] = values
    return whole


def written(field_type: object, value: pa.Array) -> list[pa.Array]:
    """Return a field's values as Avro's bytes: columns to be put one behind the other, none of them null.

    In: the field's type as its schema has it, and values of that type; a null without a branch of its own gives no
    bytes.
    """
    block, null = branches(field_type)
    branch = None if null is None else np.where(valid(value), 2 - 2 * null, 2 * null).astype(np.uint8)
    return avro_bytes(str(avro_type(block)), value, branch)


def long_bytes(number: int) -> bytes:
    """Return an int or long as Avro writes it."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def string_bytes(text: str) -> bytes:
    """Return a text as Avro writes it."""
    data = text.encode()
    return long_bytes(len(data)) + data
