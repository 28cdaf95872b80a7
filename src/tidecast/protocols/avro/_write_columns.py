"""Columns of the model as fields of Avro records, a binary column or several for each field.

Source: Avro protocol, wire format, column types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidecast.model import DataType, Kind
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._read_schema import avro_type, branches
from tidecast.protocols.avro._schema import avro_form
from tidecast.values import TEXT, avro_bytes, decimal_bytes, decimal_text, shift_zone, valid


def written(field_type: object, value: pa.Array) -> list[pa.Array]:
    """Return a field's values as Avro's bytes: columns to be put one behind the other, none of them null.

    In: the field's type as its schema has it, and values as `value_of` returns them; a null without a branch of its own
    gives no bytes.
    """
    block, null = branches(field_type)
    branch = None if null is None else np.where(valid(value), 2 - 2 * null, 2 * null).astype(np.uint8)
    return avro_bytes(str(avro_type(block)), value, branch)


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
