"""Fields of Avro records as columns of the model. Source: Avro protocol, column types, consumers compared."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind, bit_width
from tidecast.protocols._avro_fields import avro_type
from tidecast.protocols.avro._read_schema import Field
from tidecast.values import (
    BYTES,
    arrow_type,
    decimal_of_bytes,
    plain_number,
    shift_zone,
    text_of_bytes,
    to_numpy,
    valid,
    whole,
)


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
        return whole(raw, kind)
    if kind == pa.uint64():
        return raw.view(kind)
    return raw if kind == pa.int64() else pc.cast(raw, kind, safe=False)


def _decimal(data_type: DataType, raw: pa.Array, zone: str) -> pa.Array:
    if raw.type == BYTES:
        return decimal_of_bytes(raw, data_type.length, data_type.decimal)
    return plain_number(raw)


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
