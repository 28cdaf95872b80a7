"""Batches of Debezium messages to rows on Arrow columns. Source: Debezium protocol, messages, the real consumer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Index, InvalidSchema, Op, Reason, TableSchema, checked
from tidecast.protocols._decoded import TAG, Decoded, Decoder, Rejected, Rows, TableVersion, without_zero
from tidecast.protocols.debezium._decode_schema import Field, MoreAfterEnd, fields_of, read_block
from tidecast.protocols.debezium._field_columns import read_column
from tidecast.protocols.debezium._known import UNPLACED, Chosen, Known
from tidecast.protocols.debezium._parse import SNAPSHOT, Said, parse
from tidecast.values import nulls, row_type


class _Group(NamedTuple):
    """The rows that have the same schema, or none of their own, and the same key."""

    database: str
    table: str
    keys: tuple[str, ...] | None
    shape: bytes | None


class _Reading(NamedTuple):
    """A table version, and how the values of its rows are read."""

    version: TableVersion
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class DebeziumDecoder(Decoder):
    """Reads Debezium messages, TiCDC's or those of Debezium's own connector for MySQL.

    A row is read by the schema in its message; without one, by the last known version of its table before it. The
    commit-ts decides what is before; where rows have none, the offset does if these have one order, else the last
    version counts. Where a known version gives the very schema in the message, it serves too, since it tells more; see
    `chosen`. A table that only messages tell has the commit-ts of its first row as its version, and no column ids.
    A schema change of it begins another version. Tombstones, which repeat a delete, are left out.
    """

    known: Known

    def of(self, version: TableVersion) -> DebeziumDecoder:
        """See `Decoder.of`."""
        return replace(self, known=self.known.only((version.schema.database, version.schema.table)))

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. In: their `offset`, where that tells the version of rows."""
        offsets = messages.column("offset") if "offset" in messages.schema.names else None
        parts = (messages.column(name).to_pylist() for name in ("key", "value"))
        groups: dict[_Group, list[_Placed]] = {}
        wrong: list[tuple[int, Reason, str | None]] = []
        control: list[int] = []
        marks: list[tuple[int, int]] = []
        for place, said in enumerate(map(parse, *parts)):
            if isinstance(said, Said):
                if said.is_row:
                    assert said.table is not None
                    group = _Group(said.database, said.table, said.keys, said.shape)
                    groups.setdefault(group, []).append((place, said))
                elif said.op is None:
                    control.append(place)
                elif said.commit_ts is not None:
                    marks.append((place, said.commit_ts))
            elif said is not None:
                wrong.append((place, *said))
        rows: list[Rows] = []
        for group, mine in groups.items():
            for reading, some in self._readings(group, mine, offsets):
                if isinstance(reading, _Reading):
                    rows.append(_rows(reading, some, values=values, strict=group.shape is None))
                else:
                    wrong += [(place, reading[0], reading[1](said)) for place, said in some]
        return Decoded.one_by_one(rows, Rejected.each(wrong), control, marks)

    def _readings(
        self, group: _Group, rows: Sequence[_Placed], offsets: pa.Array | None
    ) -> Iterator[tuple[_Reading | _Unreadable, Sequence[_Placed]]]:
        """Yield how rows of a group are read, or why they cannot be, and these rows."""
        name = (group.database, group.table)
        versions = self.known.of(name)
        commit_ts = without_zero(pa.array([said.commit_ts for _, said in rows], pa.int64()))
        at = None if offsets is None else offsets.take(pa.array([place for place, _ in rows]))
        begun = self.known.begun(name, commit_ts, at)
        found = {number: _found(group, versions, number) for number in np.unique(begun).tolist()}
        marks = {number: one.mark if isinstance(one, _Found) else number for number, one in found.items()}
        for mark in dict.fromkeys(marks.values()):
            numbers = [number for number in found if marks[number] == mark]
            of_mark = np.flatnonzero(np.isin(begun, numbers))
            some = rows if len(of_mark) == len(rows) else [rows[n] for n in of_mark.tolist()]
            yield _reading(group, found[numbers[0]], some), some


_Placed = tuple[int, Said]
"""A row, and where its message stands."""

_Unreadable = tuple[Reason, Callable[[Said], str]]
"""Why rows cannot be read, and what gives the detail of each."""


class _Found(NamedTuple):
    """The table of rows, and how their values are read; for the rest see `Chosen`."""

    schema: TableSchema
    fields: tuple[Field, ...]
    of_rows: bool
    mark: tuple[int | None, int | None]


def _found(group: _Group, versions: Sequence[TableSchema], begun: int) -> _Found | _Unreadable:
    """Return the table of rows of a group before which some versions begin, or why they cannot be read."""
    if group.shape is None:
        number = len(versions) if begun == UNPLACED else begun
        if not number:
            words = f"no schema of {group.database}.{group.table} before commit-ts "
            return Reason.UNKNOWN_TABLE, lambda said: f"{words}{said.commit_ts or 0}"
        last = versions[number - 1]
        told, fields = Chosen(last, True, (number - 1, None)), fields_of(last)
    else:
        try:
            block = read_block(group.shape, versions, begun)
        except MoreAfterEnd:
            return Reason.BAD_JSON, lambda said: "more follows its end"
        if block is None:
            return Reason.FOREIGN_SCHEMA, lambda said: "the schema in the message is not one of Debezium's for a row"
        told, fields = block
    schema = told.schema or TableSchema(group.database, group.table, 0, 0, tuple(f.column for f in fields))
    reason = Reason.FOREIGN_SCHEMA if group.shape else Reason.UNKNOWN_TABLE
    schema = replace(schema, keys_known=True)
    if {*(group.keys or ())} != {*schema.handle_key}:
        schema = replace(schema, indexes=Index.of_key(group.keys or ()))
    try:
        checked(schema)
    except InvalidSchema as invalid:
        why = str(invalid)
        return reason, lambda said: why
    return _Found(schema, fields, told.of_rows and told.schema is not None, told.mark)


def _reading(group: _Group, found: _Found | _Unreadable, rows: Sequence[_Placed]) -> _Reading | _Unreadable:
    """Return how rows are read. A table of which no version is known to be theirs begins with the first of them."""
    if not isinstance(found, _Found):
        return found
    since = min((said.commit_ts for _, said in rows if said.commit_ts), default=None)
    schema = found.schema if found.of_rows or since is None else replace(found.schema, version=since)
    shape = None if group.shape is None else _digest(group.shape)
    name = orjson.dumps([group.database, group.table, group.keys, shape, *found.mark]).decode()
    return _Reading(TableVersion.in_json(name, schema), found.fields)


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
        missing[name] = ~there
        if not there.any():
            continue
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
    absent = np.where(deletes, missing["before"], missing["after"])
    blame(absent, "the row is missing")
    for flags, words in bad:
        blame(flags, words)
    without_old = missing["before"] | np.asarray(pc.equal(rows.op, Op.CREATE.value))
    reason = [
        None if cause is None else str(Reason.BAD_MESSAGE if no_row else Reason.BAD_VALUE)
        for cause, no_row in zip(causes, absent, strict=True)
    ]
    return replace(
        rows,
        old=_side(rows, images.get("before"), without_old),
        data=_side(rows, images.get("after"), missing["after"] | deletes),
        reason=pa.array(reason, TAG),
        detail=pa.array(causes, TAG),
    )


def _side(rows: Rows, columns: Sequence[pa.Array] | None, missing: np.ndarray) -> pa.StructArray:
    kind = row_type(rows.version.schema)
    if columns is None:
        return nulls(len(missing), kind)
    return pa.StructArray.from_arrays(columns, fields=[*kind], mask=pa.array(missing))


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
