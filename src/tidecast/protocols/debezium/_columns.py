"""Batches of Debezium messages to rows on Arrow columns. Source: Debezium protocol, messages, the real consumer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Index, InvalidSchema, Op, Reason, TableSchema, checked
from tidecast.protocols._decoded import TAG, Decoded, Decoder, Rejected, Rows, TableVersion
from tidecast.protocols.debezium._decode_schema import Field, MoreAfterEnd, fields_of, read_block
from tidecast.protocols.debezium._field_columns import read_column, readable
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import SNAPSHOT, Said, parse
from tidecast.values import row_type


class _Group(NamedTuple):
    """The rows that have the same schema, or were written under the same version of a table, and the same key.

    `begun` counts the known versions that began before rows without a schema of their own.
    """

    database: str
    table: str
    keys: tuple[str, ...] | None
    shape: bytes | None
    begun: int | None


class _Reading(NamedTuple):
    """A table version, and how the values of its rows are read."""

    version: TableVersion
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class DebeziumDecoder(Decoder):
    """Reads Debezium messages, TiCDC's or those of Debezium's own connector for MySQL.

    A row is read by the schema in its message; without one, by the last known version of its table before it. The
    commit-ts decides what is before; where rows have none, the offset does if these have one order, else the last
    version counts. Where a known version gives the very schema in the message, it serves too, since it tells more. A
    table that only messages tell has the commit-ts of its first row as its version, and no column ids. Tombstones,
    which repeat a delete, are left out.
    """

    known: Known

    def of(self, version: TableVersion) -> DebeziumDecoder:
        """See `Decoder.of`."""
        return replace(self, known=self.known.only((version.schema.database, version.schema.table)))

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. In: their `offset`, where that tells the version of rows."""
        offsets = messages.column("offset").to_pylist() if "offset" in messages.schema.names else None
        parts = (messages.column(name).to_pylist() for name in ("key", "value"))
        groups: dict[_Group, list[tuple[int, Said]]] = {}
        wrong: list[tuple[int, Reason, str | None]] = []
        control: list[int] = []
        marks: list[tuple[int, int]] = []
        for place, said in enumerate(map(parse, *parts)):
            if isinstance(said, Said):
                if said.is_row:
                    offset = None if offsets is None else offsets[place]
                    groups.setdefault(self._group(said, offset), []).append((place, said))
                elif said.op is None:
                    control.append(place)
                elif said.commit_ts is not None:
                    marks.append((place, said.commit_ts))
            elif said is not None:
                wrong.append((place, *said))
        rows: list[Rows] = []
        for group, mine in groups.items():
            reading = self._reading(group, mine)
            if isinstance(reading, _Reading):
                rows.append(_rows(reading, mine, values=values, strict=group.shape is None))
            else:
                wrong += [(place, reading[0], reading[1](said)) for place, said in mine]
        return Decoded.one_by_one(rows, Rejected.each(wrong), control, marks)

    def _group(self, said: Said, offset: int | None) -> _Group:
        assert said.table is not None
        begun = None if said.shape else self.known.begun((said.database, said.table), said.commit_ts, offset)
        return _Group(said.database, said.table, said.keys, said.shape, begun)

    def _reading(self, group: _Group, rows: Sequence[tuple[int, Said]]) -> _Reading | tuple[Reason, Any]:
        """Return how the rows of a group are read, or why they cannot be: a reason, and what gives the detail."""
        since = min((said.commit_ts for _, said in rows if said.commit_ts is not None), default=0)
        try:
            found = _read(group, self.known.of((group.database, group.table)))
        except MoreAfterEnd:
            return Reason.BAD_JSON, lambda said: "more follows its end"
        if found is None:
            words = f"no schema of {group.database}.{group.table} before commit-ts "
            return Reason.UNKNOWN_TABLE, lambda said: f"{words}{said.commit_ts or 0}"
        if isinstance(found, str):
            return Reason.FOREIGN_SCHEMA if group.shape else Reason.UNKNOWN_TABLE, lambda said: found
        schema, fields, told = found
        if not told:
            schema = replace(schema, version=since)
        return _Reading(_version(group, schema), fields)


def _read(group: _Group, versions: Sequence[TableSchema]) -> tuple[TableSchema, tuple[Field, ...], bool] | str | None:
    """Return the table of a group, how its values are read, and whether anything beside the message describes it.

    Else why rows cannot be read; None where nothing tells their table.
    """
    if group.shape is None:
        if not group.begun:
            return None
        schema: TableSchema | None = versions[group.begun - 1]
        fields = fields_of(versions[group.begun - 1])
    else:
        block = read_block(group.shape, versions)
        if block is None:
            return "the schema in the message is not one of Debezium's for a row"
        schema, fields = block
    told = schema is not None
    if schema is None:
        schema = TableSchema(group.database, group.table, 0, 0, tuple(f.column for f in fields))
    try:
        checked(schema)
    except InvalidSchema as invalid:
        return str(invalid)
    unreadable = [f.column.name for f in fields if not readable(f)]
    if unreadable:
        return f"column {unreadable[0]} is a decimal of an unknown number of digits"
    if {*(group.keys or ())} == {*schema.handle_key}:
        return schema, fields, told
    key = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=group.keys or ())
    return replace(schema, indexes=(key,) if group.keys else ()), fields, told


def _version(group: _Group, schema: TableSchema) -> TableVersion:
    shape = None if group.shape is None else _digest(group.shape)
    name = orjson.dumps([group.database, group.table, group.keys, shape, group.begun]).decode()
    return TableVersion.in_json(name, schema)


@lru_cache(1024)
def _digest(shape: bytes) -> str:
    return hashlib.sha256(shape).hexdigest()


def _rows(reading: _Reading, messages: Sequence[tuple[int, Said]], *, values: bool, strict: bool) -> Rows:
    """Return the rows of a group. In a `strict` one a row has no column that its table lacks."""
    ops = [Op.CREATE.value if said.op == SNAPSHOT else str(said.op) for _, said in messages]
    places = Rows.of_places(
        reading.version,
        np.array([place for place, _ in messages]),
        pa.array(ops, TAG),
        pa.array([said.commit_ts for _, said in messages], pa.int64()),
    )
    return _with_values(places, reading.fields, [said.payload for _, said in messages], strict) if values else places


def _with_values(rows: Rows, fields: Sequence[Field], payloads: Sequence[Mapping[str, Any]], strict: bool) -> Rows:
    count, deletes = len(payloads), np.asarray(pc.equal(rows.op, Op.DELETE.value))
    causes: list[str | None] = [None] * count
    images, missing = {}, {}

    def blame(flags: np.ndarray, words: str) -> None:
        for row in np.flatnonzero(flags):
            causes[row] = causes[row] or words

    bad: list[tuple[np.ndarray, str]] = []
    for name in ("before", "after"):
        shown = [payload.get(name) for payload in payloads]
        there = np.array([type(side) is dict for side in shown], bool)
        blame(~there & np.array([side is not None for side in shown], bool), _STRANGE)
        sides = [side if type(side) is dict else _NOTHING for side in shown]
        if strict:
            for flags, words in _unknown(sides, fields):
                blame(flags, words)
        cells = [read_column(f, [side.get(f.column.name) for side in sides]) for f in fields]
        for f, cell in zip(fields, cells, strict=True):
            if cell.strange is not None:
                blame(cell.strange, _STRANGE)
            if cell.bad is not None:
                bad.append((cell.bad, f"column {f.column.name} has a bad value"))
        images[name] = [cell.values for cell in cells]
        missing[name] = ~there
    absent = np.where(deletes, missing["before"], missing["after"])
    blame(absent, "the row is missing")
    for flags, words in bad:
        blame(flags, words)
    kinds = [*row_type(rows.version.schema)]
    without_old = missing["before"] | np.asarray(pc.equal(rows.op, Op.CREATE.value))
    reason = [
        None if cause is None else str(Reason.BAD_MESSAGE if no_row else Reason.BAD_VALUE)
        for cause, no_row in zip(causes, absent, strict=True)
    ]
    return replace(
        rows,
        old=pa.StructArray.from_arrays(images["before"], fields=kinds, mask=pa.array(without_old)),
        data=pa.StructArray.from_arrays(images["after"], fields=kinds, mask=pa.array(missing["after"] | deletes)),
        reason=pa.array(reason, TAG),
        detail=pa.array(causes, TAG),
    )


_STRANGE = "a value is not of its column's form"
_NOTHING: Mapping[str, Any] = {}


def _unknown(sides: Iterable[Mapping[str, Any]], fields: Sequence[Field]) -> list[tuple[np.ndarray, str]]:
    """Return the rows that show a column which their table lacks, and what is wrong with each."""
    known = {f.column.name for f in fields}
    strange = [None if side.keys() <= known else next(name for name in side if name not in known) for side in sides]
    return [
        (np.array([name == one for name in strange], bool), f"column {one} is not in the table")
        for one in dict.fromkeys(strange)
        if one is not None
    ]
