"""The content of a batch of messages, on Arrow columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Bootstrap, Ddl, Op, Reason, SchemaHistory, TableSchema
from tidecast.protocols._description import Description
from tidecast.values import from_spark, row_type

CHECKSUM = pa.struct({"version": pa.int32(), "corrupted": pa.bool_(), "current": pa.int64(), "previous": pa.int64()})
"""A row's checksum as its source carried it: TiCDC's four members, `current` of the new row, `previous` of the old.

A text that is no number counts as -1, which no row has."""

TAG = pa.string()
"""Short texts beside a row's values."""

_PLAIN = re.compile(r"[\w .$-]+", re.ASCII)
"""Names that JSON shows as they are, or escapes with a `u`."""

_CHANGES = {
    "op": TAG,
    "commit_ts": pa.int64(),
    "table_id": pa.int64(),
    "checksum": CHECKSUM,
    "reason": TAG,
    "detail": TAG,
}


@dataclass(frozen=True)
class TableVersion:
    """A table version as a source shows it; see `tidecast.model.TableChanges` for its members.

    `name` tells it from all others of the source. Two batches of one source give one version the same name.
    `shows_before` tells that an update may show the row before it. `checksums` tells that rows may carry one where only
    their schema tells it; a decoder whose rows tell it themselves does so without `values`, too. `key_begins` and
    `value_begins` are what keys and values of its rows surely begin with, empty for those that are null or empty; None
    where nothing is sure. `value_holds` are bytes that values of its rows surely hold, each of them or else a backslash
    and `u`.
    """

    name: str
    schema: TableSchema
    keyspace: str | None = None
    shows_before: bool = True
    of_key: bool = False
    checksums: bool = False
    key_begins: bytes | None = None
    value_begins: bytes | None = None
    value_holds: tuple[bytes, ...] = ()

    @classmethod
    def in_json(cls, name: str, schema: TableSchema, *holds: bytes) -> TableVersion:
        """Return a version whose values name their table in JSON, and hold these bytes."""
        quoted = (f'"{text}"'.encode() for text in (schema.database, schema.table) if _PLAIN.fullmatch(text))
        return cls(name, schema, value_holds=(*quoted, *holds))


def without_zero(commit_ts: pa.Array) -> pa.Array:
    """Return the commit-ts of rows, null for 0: it is no moment, and stands where a message needs a number."""
    return pc.if_else(pc.equal(commit_ts, 0), pa.scalar(None, pa.int64()), commit_ts)


@dataclass(frozen=True)
class Rows:
    """The row changes of one table version in a batch of messages, each column with a value per row.

    `at` is where a row's message stands in the batch, ascending. `op` is `c`, `u` or `d`. `commit_ts` and `table_id`
    (int64) are null where the message does not tell. `old` and `data` are structs (see `tidecast.values.row_type`):
    the row before and after, null where there is none. `checksum` is a struct (see `CHECKSUM`), null where the row
    carried none. `reason` and `detail` say why a row cannot be read, both null for a good row; what a bad row holds
    means nothing.
    """

    version: TableVersion
    at: np.ndarray
    op: pa.Array
    commit_ts: pa.Array
    table_id: pa.Array
    old: pa.StructArray
    data: pa.StructArray
    checksum: pa.StructArray
    reason: pa.Array
    detail: pa.Array

    @classmethod
    def of_changes(cls, schema: TableSchema, changes: pa.RecordBatch) -> Rows:
        """Return the rows of a batch that has columns of `tidecast.model.TableChanges.frame`; others are null."""
        names = {*changes.schema.names}
        columns = {
            name: changes.column(name) if name in names else pa.nulls(changes.num_rows, kind)
            for name, kind in _CHANGES.items()
        }
        old, data = (from_spark(changes.column(name), row_type(schema)) for name in ("old", "data"))
        return cls(TableVersion("", schema), np.arange(changes.num_rows), old=old, data=data, **columns)

    @classmethod
    def of_places(
        cls,
        version: TableVersion,
        at: np.ndarray,
        op: pa.Array,
        commit_ts: pa.Array | None = None,
        *,
        table_id: pa.Array | None = None,
        checksum: pa.StructArray | None = None,
    ) -> Rows:
        """Return rows of which no more is known; everything else is null."""
        count = len(at)
        row, text, number = (pa.nulls(count, kind) for kind in (row_type(version.schema), TAG, pa.int64()))
        return cls(
            version,
            at,
            op,
            number if commit_ts is None else without_zero(commit_ts),
            number if table_id is None else table_id,
            row,
            row,
            pa.nulls(count, CHECKSUM) if checksum is None else checksum,
            text,
            text,
        )

    def take(self, kept: np.ndarray) -> Rows:
        """Return the rows that are kept. In: a boolean per row."""
        return self if kept.all() else self.at_places(np.flatnonzero(kept))

    def at_places(self, places: np.ndarray) -> Rows:
        """Return the rows at some places among these, each as often as it is named."""
        chosen = pa.array(places)
        columns = {f.name: getattr(self, f.name).take(chosen) for f in fields(self) if f.name not in ("version", "at")}
        return replace(self, at=self.at[places], **columns)

    @property
    def image(self) -> pa.StructArray:
        """The row after each change, of a delete the row before."""
        if not self.old.null_count < len(self.old):
            return self.data
        return pc.if_else(pc.equal(self.op, Op.DELETE.value), self.old, self.data)


@dataclass(frozen=True)
class Rejected:
    """Messages of a batch that belong to no table version: where they stand, the reason and the detail of each."""

    at: np.ndarray
    reason: pa.Array
    detail: pa.Array

    @classmethod
    def of(cls, at: np.ndarray, reason: Reason, detail: str | pa.Array | None) -> Rejected:
        """Return messages that are rejected for one reason, with one detail or one each."""
        details = detail if isinstance(detail, pa.Array) else pa.array([detail] * len(at), TAG)
        return cls(at, pa.array([str(reason)] * len(at), TAG), details)

    @classmethod
    def each(cls, wrong: Collection[tuple[int, Reason, str | None]]) -> list[Rejected]:
        """Return messages with the place, the reason and the detail of each; nothing where there are none."""
        if not wrong:
            return []
        places, reasons, details = zip(*sorted(wrong, key=itemgetter(0)), strict=True)
        return [cls(np.array(places), pa.array(map(str, reasons), TAG), pa.array(details, TAG))]


def with_names(
    broken: np.ndarray, detail: str, bad: Sequence[tuple[str, np.ndarray]], absent: np.ndarray | None = None
) -> tuple[pa.Array, pa.Array]:
    """Return reason and detail of each row: undecodable where it is `broken`, else the names of its `bad` values.

    `absent` are those whose message does not show them, which goes before what else it shows.
    """
    gone = np.zeros(len(broken), bool) if absent is None else absent
    if not bad and not broken.any() and not gone.any():
        nothing = pa.nulls(len(broken), TAG)
        return nothing, nothing
    names: list[list[str]] = [[] for _ in broken]
    for name, wrong in bad:
        for row in np.flatnonzero(wrong):
            names[row].append(name)
    causes = [
        (str(Reason.UNDECODABLE), detail)
        if is_broken
        else (str(Reason.BAD_MESSAGE), "the row is missing")
        if is_gone
        else (str(Reason.BAD_VALUE), f"not of its column's type: {', '.join(wrong)}")
        if wrong
        else (None, None)
        for is_broken, is_gone, wrong in zip(broken, gone, names, strict=True)
    ]
    return pa.array([reason for reason, _ in causes], TAG), pa.array([text for _, text in causes], TAG)


@dataclass(frozen=True)
class Decoded:
    """Everything that a batch of messages says. Each message is in one of these, and in that once.

    `control` are the places of schema changes and bootstraps, which the driver reads by itself, as they are few.
    `watermarks` are places and commit-ts. `unknown` are the places of rows by the name of what they need of schemas and
    the decoder does not have; see `Reader.learn`.
    """

    rows: Sequence[Rows] = ()
    rejected: Sequence[Rejected] = ()
    control: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    watermarks: tuple[np.ndarray, np.ndarray] = field(
        default_factory=lambda: (np.zeros(0, np.int64), np.zeros(0, np.int64))
    )
    unknown: Sequence[tuple[bytes, np.ndarray]] = ()

    @classmethod
    def one_by_one(
        cls,
        rows: Sequence[Rows],
        rejected: Sequence[Rejected],
        control: Iterable[int],
        watermarks: Iterable[tuple[int, int]],
        unknown: Sequence[tuple[bytes, np.ndarray]] = (),
    ) -> Decoded:
        """Return what messages say whose control messages and watermarks were found one by one, in any order."""
        places, times = np.ascontiguousarray(np.array(sorted(watermarks), np.int64).reshape(-1, 2).T)
        return cls(rows, rejected, np.array(sorted(control), np.int64), (places, times), unknown)


class Decoder(Protocol):
    """Reads batches of messages, with the schemas that it was given. It can be pickled and sent to Spark's tasks."""

    def decode(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. In: at least the columns `key` and `value`, binary.

        Without `values` only what tells the place of a row among others need be read: `old`, `data`, `checksum`,
        `reason` and `detail` may be null, and `commit_ts` where `Reader.position` is not it. A message is in the same
        part either way.
        """

    def of(self, version: TableVersion) -> Decoder:
        """Return a decoder of the rows of one table version, with no more schemas than these take.

        A task for each of thousands of tables would else bring the schemas of all. Its results for other messages mean
        nothing.
        """
        return self

    def describe(self, key: bytes | None, value: bytes | None) -> Description | None:
        """Return the description of a message by what the decoder knows of schemas; None where these tell no more."""
        return None

    def only(self, names: frozenset[bytes]) -> Decoder:
        """Return a decoder that passes over all messages but the rows which were unknown by one of these names.

        The decoder itself where no row ever is.
        """
        return self


@dataclass(frozen=True)
class Controls:
    """The content of control messages, in their order, each with its place in the batch; and those that cannot be read.

    A bootstrap has the places of all messages that are this one, and no position yet.
    `times` are the commit-ts of schema changes, one for each message, with its place. They are there where bootstraps
    need them for their positions.
    """

    ddl: Sequence[tuple[int, Ddl]] = ()
    bootstraps: Sequence[tuple[Sequence[int], Bootstrap]] = ()
    rejected: Sequence[Rejected] = ()
    times: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Marks:
    """The marks by which control messages are found without reading them: such a value begins with, or holds, one.

    A row may be among those that a mark finds; no control message is missed.
    """

    begins: Sequence[bytes] = ()
    holds: Sequence[bytes] = ()


class Reader(Protocol):
    """The driver's part of reading a source: it knows schemas, and makes the decoder that tasks are given.

    `head` is what keys and values of rows begin with that tell their version in so many bytes; None for none.
    `keyless` is what values begin with that tell all of their row but which columns are its key; None for none.
    `position` is by what rows of several partitions have one order, if all have it: `commit_ts`, or None. `marks` tell
    the messages that must be read before any row; None where rows need none of them. `history` are the schemas that the
    source has shown, None where these are kept elsewhere.
    """

    head: tuple[bytes, int] | None = None
    keyless: bytes | None = None
    position: str | None = "commit_ts"
    marks: Marks | None = None
    history: SchemaHistory | None = None

    @property
    def versions_by_time(self) -> bool:
        """Tell whether table versions are numbered by commit-ts, so that a schema that returns is a new one."""
        return True

    @property
    def decoder(self) -> Decoder:
        """The decoder with all that is known of schemas."""

    def learn(self, names: Sequence[bytes]) -> bool:
        """Look for what unknown rows need; tell whether the decoder can read them now, or say why it cannot."""
        return False

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema changes and bootstraps, and take note of their schemas."""
