"""Batches of messages to rows on Arrow columns. Source: Debezium protocol, Avro; Avro protocol, wire format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Index, InvalidSchema, Op, Reason, TableSchema, checked, latest_tso
from tidecast.protocols._avro_reader import Reader
from tidecast.protocols._decoded import TAG, Decoded, Rejected, Rows, TableVersion, with_names, without_zero
from tidecast.protocols._description import Description
from tidecast.protocols._registered import RegisteredDecoder, describe_ids, framed, groups
from tidecast.protocols.debezium._decode_schema import Field
from tidecast.protocols.debezium._encode import CONNECTOR
from tidecast.protocols.debezium._known import Chosen, Known
from tidecast.protocols.debezium._parse import OPS, SNAPSHOT, Problem, Said, describe_payload, said_of
from tidecast.protocols.debezium.avro._control import read_message
from tidecast.protocols.debezium.avro._fitting import fitting
from tidecast.protocols.debezium.avro._layout import Layout, key_names, layout_of
from tidecast.protocols.debezium.avro._records import Envelopes, Part, read_envelopes
from tidecast.protocols.debezium.avro._values import column_of
from tidecast.registry import Framing
from tidecast.values import BYTES, content_of, nulls, refused, row_type, spread, to_numpy, valid

_CREATE, _DELETE = Op.CREATE.value, Op.DELETE.value


@dataclass(frozen=True)
class _Kind:
    """Messages with one schema for their keys and one for their values: what these begin with, and say.

    `keys` are the names in keys, and `registered` the place of the value's schema in the registry.
    """

    key: bytes
    value: bytes
    keys: tuple[str, ...]
    layout: Layout
    registered: int

    def reading(
        self, database: str, table: str, commit_ts: int | None, told: Chosen, fields: tuple[Field, ...]
    ) -> _Reading | Problem:
        """Return how rows of a table are read of which the first has a commit-ts, or why they cannot be.

        In: what `fitting` gives.
        """
        since = self.registered if commit_ts is None else commit_ts
        schema = told.schema or TableSchema(database, table, 0, since, tuple(f.column for f in fields))
        schema = replace(schema, keys_known=True)
        if not told.of_rows and commit_ts is not None:
            schema = replace(schema, version=commit_ts)
        if {*self.keys} != {*schema.handle_key}:
            columns = tuple(replace(c, nullable=c.nullable and c.name not in self.keys) for c in schema.columns)
            schema = replace(schema, columns=columns, indexes=Index.of_key(self.keys))
        try:
            checked(schema)
        except InvalidSchema as invalid:
            return Reason.FOREIGN_SCHEMA, str(invalid)
        name = orjson.dumps([self.key.hex(), self.value.hex(), database, table, *told.mark]).decode()
        version = TableVersion(name, schema, key_begins=self.key, value_begins=self.value)
        there = [field.column.name for field in self.layout.columns]
        return _Reading(version, fields, tuple(there.index(field.column.name) for field in fields))


class _Reading(NamedTuple):
    """A table version, how the fields of its rows are read, and where each of them stands in their records."""

    version: TableVersion
    fields: tuple[Field, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class DebeziumAvroDecoder(RegisteredDecoder):
    """Reads Debezium's envelope as Avro, TiCDC's or that of Debezium's own connector for MySQL.

    Where a known version of a table gives the very schema of its rows, it serves too, since it tells more; see
    `chosen`. A table that only schemas tell has no column ids. Its version is the commit-ts of its first row, or the
    place of its schema in the registry if rows have none. A schema change of it begins another version.
    Tombstones, which repeat a delete, heartbeats and the beginning and end of transactions are left out.
    """

    known: Known = Known(ordered=False)  # noqa: RUF009 - it cannot be changed

    def of(self, version: TableVersion) -> Self:
        """See `Decoder.of`."""
        known = self.known.only((version.schema.database, version.schema.table))
        return replace(super().of(version), known=known)

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. In: their `offset`, where that tells the version of rows."""
        keys, contents = (messages.column(name).cast(BYTES) for name in ("key", "value"))
        tombstones = valid(keys) & (to_numpy(pc.fill_null(pc.binary_length(contents), 0)) == 0)
        strange, heads = framed(keys, contents, self.framing, ~tombstones)
        offsets = messages.column("offset") if "offset" in messages.schema.names else None
        found = _Found(strange if self.asked is None else [], offsets)
        for key, value, at, missing in self.groups(*heads):
            if missing:
                found.unknown.append((missing, at))
                continue
            kind = self._kind(key, value)
            if isinstance(kind, _Kind):
                found.read(kind, at, contents, self, values=values)
            else:
                found.rejected.append(Rejected.of(at, *kind))
        return found.decoded()

    def describe(self, key: bytes | None, value: bytes | None) -> Description | None:
        """See `Decoder.describe`."""
        head = (value or b"")[: self.framing.length]
        layout = self._layout(head) if head in self.schemas else None
        payload = read_message(layout, (value or b"")[len(head) :]) if isinstance(layout, Layout) else None
        if payload is None:
            return None
        return describe_ids(key, value, describe_payload(payload))

    def said(self, value: bytes) -> Said | Problem | None:
        """Return what one message says, of a schema that is known. In: a value."""
        layout = self._layout(value[: self.framing.length])
        if isinstance(layout, tuple):
            return layout
        return _said(layout, value[self.framing.length :], not_a_record(value, self.framing))

    def _layout(self, head: bytes) -> Layout | Problem:
        text = self._text(head)
        layout = layout_of(text) if isinstance(text, str) else text
        return self._foreign(head, layout) if isinstance(layout, str) else layout

    def _text(self, head: bytes) -> str | Problem:
        registered = self.schemas[head]
        if registered is None:
            return Reason.UNKNOWN_SCHEMA_ID, f"the registry knows no schema id {self.framing.schema_id(head)}"
        return registered.text

    def _foreign(self, head: bytes, why: str) -> Problem:
        return Reason.FOREIGN_SCHEMA, f"schema id {self.framing.schema_id(head)} is not one of Debezium's: {why}"

    def _kind(self, key: bytes, value: bytes) -> _Kind | Problem:
        layout = self._layout(value)
        if isinstance(layout, tuple):
            return layout
        keys: tuple[str, ...] = ()
        if key and layout.envelope:
            text = self._text(key)
            if isinstance(text, tuple):
                return text
            names = key_names(text)
            if isinstance(names, str):
                return self._foreign(key, names)
            keys = names
            if not {*keys} <= {f.column.name for f in layout.columns}:
                return Reason.FOREIGN_SCHEMA, "the key's columns are not among the row's"
        registered = self.schemas[value]
        return _Kind(key, value, keys, layout, registered.version if registered else 0)


class _Found:
    """The content of a batch as far as it is read. In: the `offsets` of its messages, where these are known."""

    def __init__(self, rejected: list[Rejected], offsets: pa.Array | None) -> None:
        self.rejected, self.offsets = rejected, offsets
        self.rows: list[Rows] = []
        self.control: list[int] = []
        self.marks: list[tuple[int, int]] = []
        self.unknown: list[tuple[bytes, np.ndarray]] = []

    def decoded(self) -> Decoded:
        """Return all of it."""
        return Decoded.one_by_one(self.rows, self.rejected, self.control, self.marks, self.unknown)

    def read(
        self, kind: _Kind, at: np.ndarray, contents: pa.Array, decoder: DebeziumAvroDecoder, *, values: bool
    ) -> None:
        """Read the messages at some places, which are of one kind."""
        if kind.layout.says_nothing:
            return
        framing = decoder.framing
        no_record = not_a_record(kind.value, framing)
        if kind.layout.envelope is None:
            for place, value in zip(at.tolist(), contents.take(pa.array(at)).to_pylist(), strict=True):
                self._say(place, _said(kind.layout, value[framing.length :], no_record))
            return
        data, ends = content_of(contents)
        reader = Reader(data, ends[at] + framing.length, ends[at + 1])
        envelopes = read_envelopes(kind.layout.envelope, reader)
        if envelopes.broken.any():
            self.rejected.append(Rejected.of(at[envelopes.broken], *no_record))
        rows = _are_rows(envelopes, kind.layout)
        for place in np.flatnonzero(~(rows | envelopes.broken)).tolist():
            self._say(int(at[place]), said_of(_payload(envelopes, place, kind.layout), None))
        names = (envelopes.database.cast(BYTES), envelopes.table.cast(BYTES))
        for database, table, places in groups(*names, np.flatnonzero(rows)):
            named = (database.decode(), table.decode())
            known, commit_ts = decoder.known.of(named), without_zero(envelopes.commit_ts.take(pa.array(places)))
            offsets = None if self.offsets is None else self.offsets.take(pa.array(at[places]))
            begun = decoder.known.begun(named, commit_ts, offsets)
            found = {number: fitting(known, number, kind.layout) for number in np.unique(begun).tolist()}
            for told, fields in {told.mark: (told, fields) for told, fields in found.values()}.values():
                mine = np.isin(begun, [number for number, (one, _) in found.items() if one.mark == told.mark])
                reading = kind.reading(*named, pc.min(commit_ts.filter(pa.array(mine))).as_py(), told, fields)
                self._read(reading, at, places[mine], envelopes, values=values)

    def _read(
        self, reading: _Reading | Problem, at: np.ndarray, places: np.ndarray, envelopes: Envelopes, *, values: bool
    ) -> None:
        """Read rows of one table version."""
        if not isinstance(reading, _Reading):
            self.rejected.append(Rejected.of(at[places], *reading))
            return
        op, commit_ts = (column.take(pa.array(places)) for column in (envelopes.op, envelopes.commit_ts))
        found = _rows(reading.version, at[places], op, commit_ts)
        self.rows.append(_with_values(found, reading, envelopes, places) if values else found)

    def _say(self, place: int, said: Said | Problem | None) -> None:
        if isinstance(said, Said) and said.op is None:
            self.control.append(place)
        elif isinstance(said, Said) and said.commit_ts is not None:
            self.marks.append((place, said.commit_ts))
        elif isinstance(said, tuple) and not isinstance(said, Said):
            self.rejected.append(Rejected.of(np.array([place]), *said))


def not_a_record(head: bytes, framing: Framing) -> Problem:
    """Return what is wrong with a message that its schema does not describe."""
    return Reason.UNDECODABLE, f"not a record of schema id {framing.schema_id(head[: framing.length])}"


def _said(layout: Layout, record: bytes, no_record: Problem) -> Said | Problem | None:
    payload = read_message(layout, record)
    return no_record if payload is None else said_of(payload, None)


def _payload(envelopes: Envelopes, place: int, layout: Layout) -> dict[str, Any]:
    """Return what a message says beside its rows, as JSON has it, and which of these it has."""
    told = {
        "db": envelopes.database,
        "table": envelopes.table,
        "connector": envelopes.connector,
        "commit_ts": envelopes.commit_ts,
    }
    source = {name: column[place].as_py() for name, column in told.items()}
    if not layout.tells_commit_ts:
        del source["connector"]  # for which a TiCDC of that form would be one that lost its commit-ts
    sides: dict[str, Any] = {side: {} for side, part in envelopes.sides.items() if place in part.rows}
    return {"op": envelopes.op[place].as_py(), "source": source, **sides}


def _are_rows(envelopes: Envelopes, layout: Layout) -> np.ndarray:
    """Return which messages are rows without anything wrong beside their values, as `said_of` judges them."""
    known = np.asarray(pc.is_in(envelopes.op, pa.array(sorted(OPS), envelopes.op.type)))
    commit_ts, timed = to_numpy(envelopes.commit_ts), valid(envelopes.commit_ts)
    fine = np.where(timed, (commit_ts >= 0) & (commit_ts < latest_tso()), True)
    if layout.tells_commit_ts:
        fine &= timed | ~np.asarray(pc.fill_null(pc.equal(envelopes.connector, CONNECTOR), False))
    rows: np.ndarray = known & fine & valid(envelopes.database) & valid(envelopes.table) & ~envelopes.broken
    return rows


def _rows(version: TableVersion, at: np.ndarray, op: pa.Array, commit_ts: pa.Array) -> Rows:
    """Return rows of which only the place is known."""
    ops = pc.if_else(pc.equal(op, SNAPSHOT), pa.scalar(_CREATE, op.type), op).cast(TAG)
    return Rows.of_places(version, at, ops, commit_ts)


def _with_values(rows: Rows, reading: _Reading, envelopes: Envelopes, places: np.ndarray) -> Rows:
    deletes, creates = (np.asarray(pc.equal(rows.op, op)) for op in (_DELETE, _CREATE))
    bad: list[tuple[str, np.ndarray]] = []
    sides, there = {}, {}
    for name, hidden in (("before", creates), ("after", deletes)):
        part = envelopes.sides.get(name)
        if part is None:
            sides[name], there[name] = nulls(len(places), row_type(rows.version.schema)), np.zeros(len(places), bool)
            continue
        shown, columns = _shown(part, places, len(envelopes.broken))
        there[name] = np.zeros(len(places), bool)
        there[name][shown] = True
        images = []
        for field, at in zip(reading.fields, reading.places, strict=True):
            raw = columns[at]
            value = column_of(field, raw)
            lost = refused(raw, value)
            if lost is not None:
                bad.append((field.column.name, np.isin(np.arange(len(places)), shown[lost])))
            images.append(spread(value, shown, len(places)))
        mask = pa.array(~there[name] | hidden)
        sides[name] = pa.StructArray.from_arrays(images, fields=[*row_type(rows.version.schema)], mask=mask)
    absent = ~np.where(deletes, there["before"], there["after"])
    reason, detail = with_names(np.zeros(len(places), bool), "", bad, absent)
    return replace(rows, old=sides["before"], data=sides["after"], reason=reason, detail=detail)


def _shown(part: Part, places: np.ndarray, count: int) -> tuple[np.ndarray, Sequence[pa.Array]]:
    """Return which of the messages at `places` show a row, and the raw values of these. In: how many there are."""
    columns = [*part.fields.values()]
    if len(places) == count:
        return part.rows, columns
    at = np.full(count, -1)
    at[part.rows] = np.arange(len(part.rows))
    found = at[places]
    chosen = pa.array(found[found >= 0])
    return np.flatnonzero(found >= 0), [raw.take(chosen) for raw in columns]
