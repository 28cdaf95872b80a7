"""What a batch of messages says, on Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidecast.model import Reason, TableSchema
from tidecast.protocols._codec import RoutedTable

CHECKSUM = pa.struct({"version": pa.int32(), "corrupted": pa.bool_(), "current": pa.int64(), "previous": pa.int64()})
"""A row's checksum as its source carried it: TiCDC's four members, `current` of the new row, `previous` of the old.

A text that is no number counts as -1, which no row has."""

TAG = pa.string()
"""Short texts beside a row's values."""


@dataclass(frozen=True)
class TableVersion:
    """A table version as a source shows it; see `tidecast.model.TableChanges` for its members.

    `name` tells it from all others of the source. Two batches of one source give one version the same name.
    """

    name: str
    schema: TableSchema
    keyspace: str | None = None
    shows_before: bool = True
    of_key: bool = False


@dataclass(frozen=True)
class Rows:
    """The row changes of one table version in a batch of messages, each column with a value per row.

    `at` is where a row's message stands in the batch, ascending. `op` is `c`, `u` or `d`. `commit_ts` and `table_id`
    (int64) are null where the protocol does not tell. `old` and `data` are structs (see `tidecast.values.row_type`):
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


def with_names(broken: np.ndarray, detail: str, bad: Sequence[tuple[str, np.ndarray]]) -> tuple[pa.Array, pa.Array]:
    """Return reason and detail of each row: undecodable where it is `broken`, else the names of its `bad` values."""
    if not bad and not broken.any():
        nothing = pa.nulls(len(broken), TAG)
        return nothing, nothing
    names: list[list[str]] = [[] for _ in broken]
    for name, wrong in bad:
        for row in np.flatnonzero(wrong):
            names[row].append(name)
    causes = [
        (str(Reason.UNDECODABLE), detail)
        if is_broken
        else (str(Reason.BAD_VALUE), f"not of its column's type: {', '.join(wrong)}")
        if wrong
        else (None, None)
        for is_broken, wrong in zip(broken, names, strict=True)
    ]
    return pa.array([reason for reason, _ in causes], TAG), pa.array([text for _, text in causes], TAG)


@dataclass(frozen=True)
class Decoded:
    """Everything that a batch of messages says. Each message is in one of these, and in that once.

    `control` are the places of schema changes and bootstraps, which the driver reads by itself, as they are few.
    `watermarks` are places and commit-ts. `unknown` are the places of rows by the name of the schema that they need and
    the decoder does not have.
    """

    rows: Sequence[Rows] = ()
    rejected: Sequence[Rejected] = ()
    control: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    watermarks: tuple[np.ndarray, np.ndarray] = field(
        default_factory=lambda: (np.zeros(0, np.int64), np.zeros(0, np.int64))
    )
    unknown: Sequence[tuple[bytes, np.ndarray]] = ()


class Decoder(Protocol):
    """Reads batches of messages, with the schemas that it was given. It can be pickled and sent to Spark's tasks."""

    def decode(self, messages: pa.RecordBatch) -> Decoded:
        """Return what messages say. In: at least the columns `key` and `value`, binary."""


class Encoder(Protocol):
    """Makes the messages of rows. It can be pickled and sent to Spark's tasks.

    Each method takes a table version on its way out, and its rows; `Rows.version` is not read, `Rows.old` and
    `Rows.data` hold all columns of `RoutedTable.schema`. Each returns a column with a value per row.
    """

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return why a row has no form in the protocol, as text; null for one that has."""

    def key(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return each row's key without its tail, large_binary; null where it has none."""

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return each row's value without its tail, large_binary; null where it has none."""

    def reduced(self, table: RoutedTable, rows: Rows, location: pa.Array | None) -> pa.Array:
        """Return each value with the handle key alone, and where the whole one lies."""
