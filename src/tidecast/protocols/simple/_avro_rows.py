"""Messages of rows as Avro: a union of records, rows as maps of unions. Source: Simple protocol, Avro schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Column, DataType, Kind
from tidecast.protocols._avro_fields import long_bytes, string_bytes
from tidecast.protocols.simple._avro import DML, beginning
from tidecast.protocols.simple._message import ROW_OPS, VERSION, RowMessages
from tidecast.values import (
    BYTES,
    avro_bytes,
    bit_number,
    decimal_text,
    enum_number,
    field,
    joined,
    set_mask,
    shift_zone,
    spread,
    valid,
)
from tidecast.values import TEXT as STRINGS

Pieces = list[pa.Array | bytes]

_NULL, _PRESENT, _TRUE = b"\x00", b"\x02", b"\x01"
_CHECKSUM = {"version": "int", "corrupted": "boolean", "current": "long", "previous": "long"}


def avro_messages(rows: RowMessages, zone: str) -> pa.Array:
    """Return the messages of rows: large_binary."""
    head = beginning(DML) + long_bytes(VERSION) + string_bytes(rows.database) + string_bytes(rows.table)
    types = pa.array([long_bytes(number) for number in range(len(ROW_OPS))], BYTES)
    kinds = pc.index_in(rows.op, pa.array([op.value for op in ROW_OPS.values()], rows.op.type))
    pieces: Pieces = [
        head,
        *avro_bytes("long", pa.array(rows.table_id)),
        types.take(kinds),
        *avro_bytes("long", pa.array(rows.commit_ts)),
        *([long_bytes(built)] if isinstance(built := rows.build_ts, int) else avro_bytes("long", pa.array(built))),
        long_bytes(rows.schema_version),
    ]
    if rows.location is None:
        pieces.append(_NULL)
    else:
        pieces += avro_bytes("string", rows.location, _branches(valid(rows.location)))
    pieces.append(_PRESENT + _TRUE if rows.handle_key_only else _NULL)
    members = [part for name, kind in _CHECKSUM.items() for part in avro_bytes(kind, field(rows.checksum, name))]
    pieces.append(_optional(valid(rows.checksum), joined(members)))
    pieces += [_side(rows, side, zone) for side in rows.sides.values()]
    return joined(pieces)


def _branches(there: np.ndarray) -> np.ndarray:
    return np.where(there, _PRESENT[0], _NULL[0]).astype(np.uint8)


def _optional(there: np.ndarray, content: pa.Array) -> pa.Array:
    """Return a value of a union with null."""
    present = joined([_PRESENT, content])
    return present if there.all() else pc.if_else(pa.array(there), present, pa.scalar(_NULL, BYTES))


def _side(rows: RowMessages, side: pa.StructArray, zone: str) -> pa.Array | bytes:
    """Return a row as an optional map, its entries ascending by name."""
    shown = np.flatnonzero(valid(side))
    if not shown.size:
        return _NULL
    some = side if shown.size == len(side) else side.take(pa.array(shown))
    pieces: Pieces = [_PRESENT + (long_bytes(len(rows.columns)) if rows.columns else b"")]
    for column in rows.columns:
        pieces += _entry(column, field(some, column.name), zone)
    whole = joined([*pieces, _NULL])
    return pc.fill_null(spread(whole, shown, len(side)), _NULL)


def _entry(column: Column, value: pa.Array, zone: str) -> Pieces:
    """Return a name and a value of the map's union."""
    form = _UNSIGNED_BIGINT if value.type == pa.uint64() else _FORMS.get(column.data_type.kind, _TEXT)
    name = string_bytes(column.name)
    inner = string_bytes(zone) if column.data_type.kind is Kind.TIMESTAMP else b""
    head: pa.Array | bytes = name + long_bytes(form.branch) + inner
    if value.null_count:
        head = pc.if_else(pc.is_valid(value), pa.scalar(head, BYTES), pa.scalar(name + _NULL, BYTES))
    return [head, *avro_bytes(form.avro, form.value(column.data_type, value, zone))]


class _Form(NamedTuple):
    """How a kind of value is written: its branch of the union, its Avro type, and the value as that type has it."""

    branch: int
    avro: str
    value: Callable[[DataType, pa.Array, str], pa.Array]


_LONG = _Form(1, "long", lambda data_type, value, zone: value)
_TEXT = _Form(4, "string", lambda data_type, value, zone: value)
_UNSIGNED_BIGINT = _Form(7, "long", lambda data_type, value, zone: value.view(pa.int64()))
_FORMS: dict[Kind, _Form] = {
    Kind.INTEGER: _LONG,
    Kind.YEAR: _LONG,
    Kind.ENUM: _Form(1, "long", lambda data_type, value, zone: enum_number(data_type, value)),
    Kind.SET: _Form(1, "long", lambda data_type, value, zone: set_mask(data_type, value).view(pa.int64())),
    Kind.FLOAT: _Form(2, "float", lambda data_type, value, zone: value),
    Kind.DOUBLE: _Form(3, "double", lambda data_type, value, zone: value),
    Kind.DECIMAL: _Form(4, "string", lambda data_type, value, zone: decimal_text(value)),
    Kind.BIT: _Form(4, "string", lambda data_type, value, zone: bit_number(value).cast(STRINGS)),
    Kind.BINARY: _Form(5, "bytes", lambda data_type, value, zone: value),
    Kind.TIMESTAMP: _Form(6, "string", lambda data_type, value, zone: shift_zone(value, "UTC", zone)),
}
