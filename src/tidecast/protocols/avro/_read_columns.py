"""Fields of Avro records as columns of the model. Source: Avro protocol, column types, consumers compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind, bit_width
from tidecast.protocols._avro_reader import Reader
from tidecast.protocols.avro._read_schema import Field, avro_type, branches
from tidecast.values import (
    BYTES,
    arrow_type,
    decimal_of_bytes,
    gather,
    numbers,
    shift_zone,
    text_of_bytes,
    to_numpy,
    unsigned,
    valid,
)

_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
_READS: dict[str, tuple[Callable[..., np.ndarray], pa.DataType]] = {
    "int": (Reader.integer, pa.int64()),
    "long": (Reader.long, pa.int64()),
    "float": (Reader.single, pa.float32()),
    "double": (Reader.double, pa.float64()),
    "boolean": (Reader.boolean, pa.bool_()),
}
"""How a field of fixed width is read, by Avro's type. All others are texts or bytes."""


def read_field(reader: Reader, field: Field) -> pa.Array:
    """Return a field's raw values, null for the null of its union, and move the reader behind them."""
    block, null = branches(field.type)
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


def column_of(field: Field, raw: pa.Array, zone: str) -> pa.Array:
    """Return a field's values as the model holds them, null for one that is not of its column's type."""
    assert field.column is not None
    data_type = field.column.data_type
    read = _COLUMNS.get(data_type.kind)
    if avro_type(field.type) == "string":
        raw = text_of_bytes(raw)
    return read(data_type, raw, zone) if read else raw


def _integer(data_type: DataType, raw: pa.Array, zone: str) -> pa.Array:
    kind = arrow_type(data_type)
    if raw.type != pa.int64():
        return unsigned(raw)
    if kind == pa.uint64():
        return raw.view(kind)
    return raw if kind == pa.int64() else pc.cast(raw, kind, safe=False)


def _decimal(data_type: DataType, raw: pa.Array, zone: str) -> pa.Array:
    if raw.type == BYTES:
        return decimal_of_bytes(raw, data_type.length, data_type.decimal)
    is_number = pc.and_(pc.match_substring_regex(raw, _NUMBER), pc.invert(pc.match_substring(raw, "\n")))
    return pc.if_else(is_number, raw, pa.scalar(None, raw.type))


def _bit(data_type: DataType, raw: pa.Array, zone: str) -> pa.Array:
    """Old releases trim leading zero bytes; the model has all bytes of the column's length."""
    width = bit_width(data_type)
    short = valid(raw) & (to_numpy(pc.binary_length(raw)) < width)
    if not short.any():
        return raw
    return pa.array([b if b is None else b.rjust(width, b"\0") for b in raw.to_pylist()], BYTES)


def _float(data_type: DataType, raw: pa.Array, zone: str) -> pa.Array:
    """Old releases write a FLOAT as a double."""
    return raw if raw.type == pa.float32() else pc.cast(raw, pa.float32(), safe=False)


_COLUMNS: dict[Kind, Callable[[DataType, pa.Array, str], pa.Array]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.TIMESTAMP: lambda data_type, raw, zone: shift_zone(raw, zone, "UTC"),
}
