"""Messages but for their rows, and the sort of each. Source: Simple protocol, messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidecast.model import Reason, TableSchema, latest_tso
from tidecast.protocols._decoded import TAG, Rejected
from tidecast.protocols.simple._message import BOOTSTRAP, DDL_TYPES, ROW_OPS, WATERMARK
from tidecast.values import to_numpy, valid

KINDS = {kind: number for number, kind in enumerate((*ROW_OPS, *DDL_TYPES, BOOTSTRAP, WATERMARK))}
"""The types of messages by the numbers that `Heads.kind` has; those of rows come first."""
ROW_KINDS = len(ROW_OPS)
NO_KIND = -1
"""A type that Simple does not have."""

SIDES = {"old": ("UPDATE", "DELETE"), "data": ("INSERT", "UPDATE")}
"""The types of messages that have each of the two rows; where another type shows one, it is not read."""


@dataclass(frozen=True)
class Heads:
    """The members of messages in one encoding beside rows and schemas, a value per message.

    `sound` tells which messages can be read, `typed` which have a type and a version, `kind` their type's number.
    `commit_ts`, `table_id` and `schema_version` are int64; they, `database` and `table` are null where a message does
    not say them. `reduced` marks rows that are not whole, `silent` schema changes without SQL.
    """

    sound: np.ndarray
    typed: np.ndarray
    kind: np.ndarray
    commit_ts: pa.Array
    table_id: pa.Array
    schema_version: pa.Array
    database: pa.Array
    table: pa.Array
    reduced: np.ndarray
    silent: np.ndarray


@dataclass(frozen=True)
class Cells:
    """A column of rows: its values, which rows have one that is not of the column's type, and which name the column.

    `wrong` is None where no value is wrong, `named` where every row names the column.
    """

    values: pa.Array
    wrong: np.ndarray | None
    named: np.ndarray | None


@dataclass(frozen=True)
class Side:
    """The rows before or after changes: which messages have one, and a column for each of the table's."""

    there: np.ndarray
    columns: list[Cells]


class Messages(Protocol):
    """Messages of one encoding: their heads, and from these on their rows.

    `unreadable` is the reason of a message that is none. `checksum` is a struct (see `CHECKSUM`) per message.
    """

    unreadable: Reason
    heads: Heads
    checksum: pa.StructArray

    def sides(self, chosen: np.ndarray, schema: TableSchema, zone: str) -> tuple[dict[str, Side], np.ndarray]:
        """Return the sides of some rows by name, as far as any of them has one, and which rows cannot be read.

        In: the rows' numbers among these messages, ascending. `zone` is that of TIMESTAMP values which name none.
        """


@dataclass(frozen=True)
class Sorted:
    """The sorts of messages: rows, schema changes and bootstraps, watermarks; and those that are rejected."""

    rows: np.ndarray
    control: np.ndarray
    watermarks: np.ndarray
    rejected: list[Rejected]


def sort_out(heads: Heads, unreadable: Reason) -> Sorted:
    """Return what messages are. Out: their numbers, ascending."""
    left = np.ones(len(heads.kind), bool)
    rejected: list[Rejected] = []

    def reject(wrong: np.ndarray, reason: Reason, detail: str) -> None:
        found = np.flatnonzero(left & wrong)
        if found.size:
            left[found] = False
            rejected.append(Rejected.of(found, reason, pa.array([detail.format(times[n]) for n in found], TAG)))

    times = to_numpy(heads.commit_ts)
    row = (heads.kind >= 0) & (heads.kind < ROW_KINDS)
    bootstrap, watermark = heads.kind == KINDS[BOOTSTRAP], heads.kind == KINDS[WATERMARK]
    change = (heads.kind >= ROW_KINDS) & ~bootstrap & ~watermark
    known = valid(heads.database) & valid(heads.table) & valid(heads.schema_version)
    reject(~heads.sound, unreadable, "no message of Simple's form")
    reject(~heads.typed, Reason.BAD_MESSAGE, "no type, or no version")
    reject(~bootstrap & ~valid(heads.commit_ts), Reason.BAD_MESSAGE, "no commitTs")
    reject(~bootstrap & ((times < 0) | (times >= latest_tso())), Reason.BAD_VALUE, "commitTs {} is no time")
    reject(heads.kind == NO_KIND, Reason.BAD_MESSAGE, "unknown type")
    reject(row & ~known, Reason.BAD_MESSAGE, "a row without its database, table or schemaVersion")
    reject(change & heads.silent, Reason.BAD_MESSAGE, "a schema change without sql")
    reject(row & heads.reduced, Reason.INCOMPLETE, "only the handle key, or the place where the whole message lies")
    return Sorted(
        np.flatnonzero(left & row),
        np.flatnonzero(left & (change | bootstrap)),
        np.flatnonzero(left & watermark),
        rejected,
    )
