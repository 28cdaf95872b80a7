"""Batches of Avro messages to rows on Arrow columns. Source: Avro protocol, wire format, consumers compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import InvalidSchema, Op, Reason, checked, latest_tso
from tidecast.protocols._avro_fields import branches, read_field
from tidecast.protocols._avro_reader import Reader
from tidecast.protocols._decoded import CHECKSUM, TAG, Decoded, Rejected, Rows, TableVersion, with_names, without_zero
from tidecast.protocols._registered import RegisteredDecoder, framed
from tidecast.protocols.avro._control import DDL, DELETE, TIMED_LENGTH, WATERMARK, schema_change, times_of
from tidecast.protocols.avro._read_columns import column_of
from tidecast.protocols.avro._read_schema import Field, WriterSchema, objection, read_schema
from tidecast.protocols.avro._schema import BEFORE, CHECKSUM_VERSION, COMMIT_TS, CORRUPTED, OP
from tidecast.protocols.avro._schema import CHECKSUM as CHECKSUM_FIELD
from tidecast.registry import Framing, RegisteredSchema
from tidecast.values import BYTES, content_of, null_where, nulls, refused, row_type, spread, text_of_bytes, valid

Problem = tuple[Reason, str]
"""Why messages cannot be read: a reason and a detail."""


@dataclass(frozen=True)
class AvroDecoder(RegisteredDecoder):
    """Reads Avro messages. `zone` is the time zone of TIMESTAMP text, that of TiCDC's server."""

    zone: str = "UTC"

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. A row's operation is the extension's, else `c`, to be taken as an upsert."""
        keys, contents = (messages.column(name).cast(BYTES) for name in ("key", "value"))
        control, watermark = _controls(keys, contents)
        contents, deleted = self._tombstones(keys, contents)
        rejected, heads = framed(keys, contents, self.framing, ~(control | watermark))
        rows: list[Rows] = []
        refused: list[Rejected] = []
        unknown: list[tuple[bytes, np.ndarray]] = []
        for key, value, at, missing in self.groups(*heads):
            if missing:
                unknown.append((missing, at))
                continue
            version = self.version(key, value)
            if not isinstance(version, TableVersion):
                refused.append(Rejected.of(at, *version))
            elif values or (version.shows_before and self._is_whole(contents, at)):
                rows.append(self.rows(version, value or key, at, contents if value else keys, deleted))
            else:
                rows.append(_places(version, at))
        if self.asked is not None:
            return Decoded(rows, refused, unknown=unknown)
        times, changes = np.flatnonzero(watermark), np.flatnonzero(control)
        told = [schema_change(value) is not None for value in contents.take(pa.array(changes)).to_pylist()]
        sound = np.array(told, bool)
        if not sound.all():
            refused.append(Rejected.of(changes[~sound], Reason.BAD_MESSAGE, "not a schema change"))
        return Decoded(
            rows,
            [*rejected, *refused],
            changes[sound],
            (times, times_of(contents, times)),
            unknown,
        )

    def _tombstones(self, keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Return values with null for deletes that have a commit-ts in place of a row, and these commit-ts, if any."""
        timed = valid(keys) & _timed(values, DELETE) & ~_true(pc.starts_with(values, self.framing.magic))
        if not timed.any():
            return values, None
        at = np.flatnonzero(timed)
        return null_where(values, timed), spread(pa.array(times_of(values, at)), at, len(values))

    def _is_whole(self, contents: pa.Array, at: np.ndarray) -> bool:
        """Tell whether values have more than their heads: a survey may ask by these alone."""
        lengths = pc.binary_length(contents.take(pa.array(at)))
        return bool(pc.max(lengths).as_py() > self.framing.length)

    def version(self, key: bytes, value: bytes) -> TableVersion | Problem:
        """Return the table version of messages whose key and value begin so, or why they cannot be read."""
        return _version(
            *((head, self.schemas[head] if head else None) for head in (key, value)),
            self.framing,
        )

    def rows(
        self, version: TableVersion, head: bytes, at: np.ndarray, messages: pa.Array, deleted: pa.Array | None = None
    ) -> Rows:
        """Return the rows of messages that begin with the id of a known schema, and where they stand.

        `deleted` are the commit-ts of deletes among all messages, where these tell it.
        """
        registered = self.schemas[head]
        assert registered is not None
        writer = read_schema(registered.text)
        assert writer is not None
        data, offsets = content_of(messages)
        reader = Reader(data, offsets[at] + self.framing.length, offsets[at + 1])
        raw, before = {}, None
        for field in writer.fields:
            if field.record:
                before = _Before.read(reader, field)
            else:
                raw[field.name] = (field, read_field(reader, field.type))
        broken = reader.bad | (reader.at != reader.end)
        carried = [(f, column, column_of(f, column, self.zone)) for f, column in raw.values() if f.column]
        bad = [(f.name, lost) for f, column, value in carried if (lost := refused(column, value)) is not None]
        beside = {name: column for name, (field, column) in raw.items() if not field.column}
        op = _operation(beside, version, len(at))
        commit_ts = beside.get(COMMIT_TS, nulls(len(at), pa.int64()))
        if version.of_key and deleted is not None:
            commit_ts = deleted.take(pa.array(at))
        bad += _wrong_extension(op, commit_ts)
        if before:
            commit_ts = _sound(commit_ts, broken)
        row = pa.StructArray.from_arrays([value for *_, value in carried], fields=[*row_type(version.schema)])
        nothing = nulls(len(at), row.type)
        old, data, checksum = nothing, row, _checksum(beside, len(at))
        if version.of_key:
            old, data = row, nothing
        elif before:
            wrong, shown = before.row(row.type, self.zone, len(at))
            bad += wrong
            deleted = pc.fill_null(pc.equal(op, Op.DELETE.value), False)
            old = pc.if_else(pc.and_(deleted, pc.is_null(shown)), row, shown)
            data = pc.if_else(deleted, nothing, row)
            checksum = _of_old_row(checksum, deleted)
        detail = f"not a record of schema id {self.framing.schema_id(head)}"
        return Rows(
            version,
            at,
            op,
            without_zero(commit_ts),
            nulls(len(at), pa.int64()),
            old,
            data,
            checksum,
            *with_names(broken, detail, bad),
        )


@dataclass(frozen=True)
class _Before:
    """The rows before changes: which messages have one, and their fields."""

    at: np.ndarray
    fields: tuple[tuple[Field, pa.Array], ...]

    @classmethod
    def read(cls, reader: Reader, field: Field) -> _Before:
        """Read the record of those messages that have it, and move the reader behind it."""
        _, null = branches(field.type)
        assert null is not None
        rows = reader.branch(null)
        at = np.arange(reader.count) if rows is None else rows
        inner = Reader(reader.data, reader.at[at], reader.end[at])
        fields = tuple((one, read_field(inner, one.type)) for one in field.record)
        reader.at[at] = inner.at
        reader.bad[at] |= inner.bad
        return cls(at, fields)

    def row(self, kind: pa.StructType, zone: str, count: int) -> tuple[list[tuple[str, np.ndarray]], pa.StructArray]:
        """Return the values that are not of their column's type, by name, and the rows of all messages."""
        bad, columns = [], []
        for field, raw in self.fields:
            value = column_of(field, raw, zone)
            if (lost := refused(raw, value)) is not None:
                wrong = np.zeros(count, bool)
                wrong[self.at] = lost
                bad.append((f"{BEFORE} {field.name}", wrong))
            columns.append(spread(value, self.at, count))
        absent = np.ones(count, bool)
        absent[self.at] = False
        return bad, pa.StructArray.from_arrays(columns, fields=[*kind], mask=pa.array(absent))


def _of_old_row(checksum: pa.StructArray, deleted: pa.Array) -> pa.StructArray:
    """Return checksums of which those of deletes are the old row's."""
    parts = {name: checksum.field(name) for name in ("version", "corrupted", "current", "previous")}
    number = parts["current"]
    parts["current"] = pc.if_else(deleted, parts["previous"], number)
    parts["previous"] = pc.if_else(deleted, number, parts["previous"])
    return pa.StructArray.from_arrays([*parts.values()], fields=[*CHECKSUM], mask=pa.array(~valid(checksum)))


def _sound(commit_ts: pa.Array, broken: np.ndarray) -> pa.Array:
    """Return commit-ts without those of damaged records, which get the last one: they are no place among others."""
    times = np.asarray(pc.fill_null(commit_ts, 0))
    wrong = broken | (times < 0) | (times >= latest_tso())
    if commit_ts.null_count or not wrong.any():
        return commit_ts
    return pa.array(np.where(wrong, times[~wrong].max(initial=0), times))


def _places(version: TableVersion, at: np.ndarray) -> Rows:
    """Return rows of which only the place and the sort are known."""
    op = pa.array([Op.DELETE.value if version.of_key else Op.CREATE.value] * len(at), TAG)
    return Rows.of_places(version, at, op)


def _controls(keys: pa.Array, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return which messages are schema changes, and which are watermarks."""
    without_key = ~valid(keys)
    if not without_key.any():
        return without_key, without_key
    change = without_key & _true(pc.starts_with(values, DDL))
    return change, without_key & _timed(values, WATERMARK)


def _timed(values: pa.Array, kind: bytes) -> np.ndarray:
    """Tell which values are a byte that tells their kind, and a commit-ts."""
    is_long = _true(pc.equal(pc.binary_length(values), TIMED_LENGTH))
    return is_long & _true(pc.starts_with(values, kind)) if is_long.any() else is_long


def _true(flags: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(flags, False))


_Known = tuple[bytes, RegisteredSchema | None]


@lru_cache(4096)
def _version(key: _Known, value: _Known, framing: Framing) -> TableVersion | Problem:
    (key_head, _), (value_head, _) = key, value
    found: list[WriterSchema | None] = []
    for head, registered in (key, value):
        read = _read(head, registered, framing) if head else None
        if isinstance(read, tuple):
            return read
        found.append(read)
    of_key, of_value = found
    keys = tuple(c.name for c in of_key.columns) if of_key else ()
    if of_value and not {*keys} <= {c.name for c in of_value.columns}:
        return Reason.FOREIGN_SCHEMA, "the key's columns are not among the value's"
    writer, registered = (of_value, value[1]) if of_value else (of_key, key[1])
    assert writer is not None
    assert registered is not None
    return TableVersion(
        f"{key_head.hex()}/{value_head.hex()}",
        writer.table_schema(registered.version, keys),
        writer.keyspace,
        shows_before=writer.shows_before and of_value is not None,
        of_key=not of_value,
        checksums=writer.checksums,
        key_begins=key_head,
        value_begins=value_head or None,  # a delete may have its commit-ts there
    )


def _read(head: bytes, registered: RegisteredSchema | None, framing: Framing) -> WriterSchema | Problem:
    schema_id = framing.schema_id(head)
    if registered is None:
        return Reason.UNKNOWN_SCHEMA_ID, f"the registry knows no schema id {schema_id}"
    writer = read_schema(registered.text)
    if writer is None:
        return Reason.FOREIGN_SCHEMA, f"schema id {schema_id} is not one of TiCDC's: {objection(registered.text)}"
    try:
        checked(writer.table_schema(registered.version, ()))
    except InvalidSchema as invalid:
        return Reason.FOREIGN_SCHEMA, str(invalid)
    return writer


def _operation(beside: Mapping[str, pa.Array], version: TableVersion, count: int) -> pa.Array:
    if version.of_key:
        return pa.array([Op.DELETE.value] * count, TAG)
    if OP in beside:
        return text_of_bytes(beside[OP]).cast(TAG)
    return pa.array([Op.CREATE.value] * count, TAG)


def _wrong_extension(op: pa.Array, commit_ts: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    known = _true(pc.is_in(op, pa.array([o.value for o in Op], TAG)))
    if not known.all():
        yield OP, ~known
    if commit_ts.null_count < len(commit_ts):
        times = np.asarray(pc.fill_null(commit_ts, 0))
        impossible = (times < 0) | (times >= latest_tso())
        if impossible.any():
            yield COMMIT_TS, impossible


def _checksum(beside: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return the row checksums that messages carry, null for an empty text."""
    if CHECKSUM_FIELD not in beside:
        return nulls(count, CHECKSUM)
    text = text_of_bytes(beside[CHECKSUM_FIELD])
    there = _true(pc.greater(pc.binary_length(text), 0))
    digits = _true(pc.match_substring_regex(text, r"^[0-9]{1,18}$"))
    current = pc.cast(pc.if_else(pa.array(digits), text, pa.scalar("-1", text.type)), pa.int64())
    zeros = pa.array(np.zeros(count, np.int64))
    return pa.StructArray.from_arrays(
        [
            pc.cast(beside.get(CHECKSUM_VERSION, zeros), pa.int32(), safe=False),
            beside.get(CORRUPTED, pa.array(np.zeros(count, bool))),
            current,
            zeros,
        ],
        fields=[*CHECKSUM],
        mask=pa.array(~there),
    )
