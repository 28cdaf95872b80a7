"""Messages of rows as JSON, to the byte as Go writes it.

Source: Simple protocol, JSON text, row values; Other documents, Go's encoding/json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._go import MARKUP, to_json
from tidecast.model import Column, DataType, Kind
from tidecast.protocols._decoded import CHECKSUM
from tidecast.protocols._json_text import Pieces, members
from tidecast.protocols.simple._message import ROW_OPS, VERSION, RowMessages
from tidecast.values import (
    BYTES,
    DIGITS,
    PLAIN,
    TEXT,
    Quoting,
    base64_text,
    field,
    joined,
    json_string,
    null_where,
    shift_zone,
    spread,
    valid,
)

_GO = Quoting(PLAIN.odd + bytes({character.encode()[0] for character in MARKUP}), to_json)
_TYPES = {op.value: kind for kind, op in ROW_OPS.items()}


def json_messages(rows: RowMessages, zone: str) -> pa.Array:
    """Return the messages of rows: large_binary."""
    names = {"database": rows.database, "table": rows.table}
    pieces: Pieces = [
        to_json({"version": VERSION} | {name: value for name, value in names.items() if value})[:-1],
        _unless(rows.table_id == 0, [',"tableID":', _number(rows.table_id)]),
        ',"type":"',
        pa.array([*_TYPES.values()], TEXT).take(pc.index_in(rows.op, pa.array([*_TYPES], rows.op.type))),
        '","commitTs":',
        _number(rows.commit_ts),
        ',"buildTs":',
        str(rows.build_ts) if isinstance(rows.build_ts, int) else _number(rows.build_ts),
        f',"schemaVersion":{rows.schema_version}' if rows.schema_version else "",
    ]
    if rows.location is not None:
        there = valid(rows.location)
        pieces.append(_unless(~there, [',"claimCheckLocation":', json_string(rows.location, _GO)]))
    if rows.handle_key_only:
        pieces.append(',"handleKeyOnly":true')
    pieces.append(_checksum(rows.checksum))
    if rows.columns:
        for name, side in rows.sides.items():
            pieces += _side(rows, name, side, zone)
    return joined([*pieces, "}"], TEXT).cast(BYTES)


def _unless(absent: np.ndarray, pieces: Pieces) -> pa.Array:
    """Return pieces as one, null where they are absent."""
    return null_where(joined(pieces, TEXT), absent)


def _number(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(TEXT)


def _checksum(checksum: pa.StructArray) -> pa.Array:
    if checksum.null_count == len(checksum):
        return pa.nulls(len(checksum), TEXT)
    parts: Iterator[tuple[str, Pieces]] = ((f.name, [field(checksum, f.name).cast(TEXT)]) for f in CHECKSUM)
    return _unless(~valid(checksum), [',"checksum":', *members(parts, to_json)])


def _side(rows: RowMessages, name: str, side: pa.StructArray, zone: str) -> Pieces:
    """Return the pieces of a member that shows a row, for the messages that have it."""
    shown = np.flatnonzero(valid(side))
    if not shown.size:
        return []
    if shown.size == len(side):
        return [f',"{name}":', *_object(rows.columns, side, zone)]
    some = joined([f',"{name}":', *_object(rows.columns, side.take(pa.array(shown)), zone)], TEXT)
    return [spread(some, shown, len(side))]


def _object(columns: Sequence[Column], side: pa.StructArray, zone: str) -> Pieces:
    return members(((c.name, _value(c, field(side, c.name), zone)) for c in columns), to_json)


def _value(column: Column, value: pa.Array, zone: str) -> Pieces:
    """Return the pieces of a value."""
    kind = column.data_type.kind
    write = _WRITERS.get(kind)
    if kind is Kind.TIMESTAMP:
        text: Pieces = [f'{{"location":{to_json(zone)},"value":', json_string(shift_zone(value, "UTC", zone), _GO), "}"]
    elif write is None:
        return [pc.fill_null(json_string(value, _GO), "null")]
    else:
        text = ['"', write(column.data_type, value).cast(TEXT), '"']
    if value.null_count:
        return [pc.fill_null(_unless(~valid(value), text), "null")]
    return text


_WRITERS: dict[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    **DIGITS,
    Kind.BINARY: lambda data_type, value: base64_text(value),
}
"""The text of values that need no escapes, by kind; a number is written as its text."""
