"""Columns of the model as values of Avro records. Source: Debezium protocol, Avro, column types, NULL values."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Column, Kind
from tidecast.protocols.debezium._schema import form
from tidecast.protocols.debezium._value_columns import (
    datetime_number,
    day_number,
    instant_text,
    known_values,
    shows_unreal_days,
)
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions
from tidecast.protocols.debezium.avro._schema import goes_as_text
from tidecast.values import TEXT, arrow_type, clock_micros, decimal_bytes, decimal_text, nulls

_ONE_BIT = pa.scalar(b"\x00", pa.large_binary())


def avro_column(column: Column, value: pa.Array, options: DebeziumAvroOptions) -> pa.Array:
    """Return a column's values in the type that its schema has. In: see `tidecast.values.arrow_type`."""
    if column.virtual:
        return nulls(len(value), arrow_type(column.data_type))
    known = known_values(column, value, options)
    write = _WRITERS.get(column.data_type.kind)
    written = write(column, known, options) if write else known
    return pc.fill_null(written, 0) if shows_unreal_days(column) and written.null_count else written


def _integer(column: Column, value: pa.Array, options: DebeziumAvroOptions) -> pa.Array:
    if value.type != pa.uint64():
        return value
    return value.cast(TEXT) if goes_as_text(column, options) else value.view(pa.int64())


def _float(column: Column, value: pa.Array, options: DebeziumAvroOptions) -> pa.Array:
    return value.cast(pa.float64()) if form(column.data_type).type == "double" else value


def _decimal(column: Column, value: pa.Array, options: DebeziumAvroOptions) -> pa.Array:
    text = options.decimal_handling_mode == "string"
    return decimal_text(value) if text else decimal_bytes(value, column.data_type.decimal)


def _bit(column: Column, value: pa.Array, options: DebeziumAvroOptions) -> pa.Array:
    return pc.not_equal(value, _ONE_BIT) if column.data_type.length <= 1 else pc.binary_reverse(value)


_WRITERS: dict[Kind, Callable[[Column, pa.Array, DebeziumAvroOptions], pa.Array]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.DATE: lambda column, value, options: day_number(value),
    Kind.DATETIME: lambda column, value, options: datetime_number(column.data_type, value),
    Kind.TIMESTAMP: lambda column, value, options: instant_text(value),
    Kind.TIME: lambda column, value, options: clock_micros(value),
}
"""How values are written, by kind; those of any other kind are as the model has them."""
