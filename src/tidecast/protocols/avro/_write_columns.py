"""Columns of the model as values of Avro records. Source: Avro protocol, column types."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidecast.model import DataType, Kind
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import avro_form
from tidecast.values import TEXT, decimal_bytes, decimal_text, shift_zone


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
