"""Fields of Avro records as columns of the model, by Debezium's rules.

Source: Debezium protocol, Avro, column types.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Kind
from tidecast.protocols.debezium._decode_schema import Field
from tidecast.protocols.debezium._field_columns import (
    bit_of_boolean,
    bit_of_bytes,
    datetime_of,
    decimal_of_doubles,
    time_of,
    timestamp_of,
)
from tidecast.values import (
    arrow_type,
    bytes_of_base64,
    date_text,
    decimal_of_bytes,
    from_text,
    null_where,
    plain_number,
    text_of_bytes,
    to_numpy,
    whole,
)

_INT32 = 1 << 31
_WHOLE = frozenset(["int8", "int16", "int32", "int64"])
_REAL = frozenset(["float", "double"])


def takes(field: Field) -> bool:
    """Tell whether a column's values are of a type that is read."""
    types, _ = _READERS.get(field.column.data_type.kind, _TEXTS)
    return field.form.type in types


def column_of(field: Field, raw: pa.Array) -> pa.Array:
    """Return a field's values as the model holds them, null for one that is not of its column's type.

    In: int64, float32, float64, bool or binary, as `read_field` returns them.
    """
    _, read = _READERS.get(field.column.data_type.kind, _TEXTS)
    return read(field, text_of_bytes(raw) if field.form.type == "string" else raw)


def _integer(field: Field, raw: pa.Array) -> pa.Array:
    kind = arrow_type(field.column.data_type)
    if raw.type != pa.int64():
        return whole(raw, kind)
    if kind == pa.uint64():  # Debezium's own connector wraps what no long has
        return raw.view(kind)
    if kind == pa.int64():
        return raw
    number = to_numpy(raw)
    return null_where(raw, (number < -_INT32) | (number >= _INT32)).cast(kind)


def _real(field: Field, raw: pa.Array) -> pa.Array:
    return pc.cast(raw, arrow_type(field.column.data_type), safe=False)


def _decimal(field: Field, raw: pa.Array) -> pa.Array:
    data_type = field.column.data_type
    if field.form.type == "bytes":
        return decimal_of_bytes(raw, data_type.length, data_type.decimal)
    if field.form.type in _REAL:
        return decimal_of_doubles(field, raw.to_pylist())
    return from_text(data_type, plain_number(raw))


def _binary(field: Field, raw: pa.Array) -> pa.Array:
    return bytes_of_base64(raw) if field.form.type == "string" else raw


def _bit(field: Field, raw: pa.Array) -> pa.Array:
    return bit_of_boolean(raw) if field.form.type == "boolean" else bit_of_bytes(field, raw)


_Reader = tuple[frozenset[str], Callable[[Field, pa.Array], pa.Array]]
_TEXTS: _Reader = (frozenset(["string"]), lambda field, raw: raw)
_READERS: dict[Kind, _Reader] = {
    Kind.INTEGER: (_WHOLE | {"string"}, _integer),
    Kind.YEAR: (_WHOLE, _integer),
    Kind.FLOAT: (_REAL, _real),
    Kind.DOUBLE: (_REAL, _real),
    Kind.DECIMAL: (_REAL | {"bytes", "string"}, _decimal),
    Kind.BINARY: (frozenset(["bytes", "string"]), _binary),
    Kind.BIT: (frozenset(["bytes", "boolean"]), _bit),
    Kind.DATE: (_WHOLE, lambda field, raw: date_text(raw)),
    Kind.DATETIME: (_WHOLE, datetime_of),
    Kind.TIMESTAMP: (frozenset(["string"]), timestamp_of),
    Kind.TIME: (_WHOLE, time_of),
}
"""Connect's types in which values come, and what reads them; those of any other kind are texts."""
