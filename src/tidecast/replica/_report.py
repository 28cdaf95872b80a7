"""Reports of a replication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class TableReport:
    """The report on one table's row changes.

    `where` is the table as Spark names it. `rows` counts the row changes that came in, `checksums` the verdicts on them
    (see `tidecast.checksum.Verdict`), `refused` those that went to the dead letters because the table cannot take them
    or they do not fit their checksums. Of the rest only the newest of each key counts: `upserted`, `deleted`, or
    `unchanged` where the table was so already; rows of a table without a key are `upserted` where they were appended,
    `unchanged` where an earlier run had appended them or they are duplicates. In a table of versions every change of a
    key counts, once: `unchanged` is one that the table shows already. `unrepresentable` counts, by column,
    values that the column's type cannot hold, such as zero dates: they are null in the table. `first_commit_ts` and
    `last_commit_ts` are the lowest and the highest commit-ts of what can be applied, None where none has one.

    `row_count`, `row_hash` and `column_hash` are what the table has after the batch, by what all batches of its
    checkpoint did: its rows, the sum of a hash of each, and a hash of its columns' names and types. They are None where
    that is not known, as the table was there before the checkpoint.
    """

    database: str
    table: str
    where: str
    rows: int
    upserted: int = 0
    deleted: int = 0
    unchanged: int = 0
    refused: int = 0
    checksums: Mapping[str, int] = field(default_factory=dict)
    unrepresentable: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    first_commit_ts: int | None = None
    last_commit_ts: int | None = None
    row_count: int | None = None
    row_hash: int | None = None
    column_hash: int | None = None

    @property
    def name(self) -> str:
        """`database.table`, for people."""
        return f"{self.database}.{self.table}"

    def then(self, later: TableReport) -> TableReport:
        """Return what this batch and a later one did to the table; the later one's warnings."""
        return replace(
            later,
            **{name: getattr(self, name) + getattr(later, name) for name in COUNTS},
            checksums=_sum(self.checksums, later.checksums),
            unrepresentable=_sum(self.unrepresentable, later.unrepresentable),
            first_commit_ts=_least(self.first_commit_ts, later.first_commit_ts),
            last_commit_ts=_greatest(self.last_commit_ts, later.last_commit_ts),
        )


@dataclass(frozen=True)
class TablePlan:
    """The actions of a batch on one table, in words and in their order."""

    database: str
    table: str
    where: str
    actions: tuple[str, ...]

    @property
    def name(self) -> str:
        """`database.table`, for people."""
        return f"{self.database}.{self.table}"


@dataclass(frozen=True)
class Replicated:
    """The report on a batch: each table's, dead letters by reason and where they lie, and warnings.

    `warnings` are those that concern no single table's rows: schema changes that were not carried out. `plans` are
    what would be done to each table, after a dry run, which has no `tables`, and `dead_letters` that cannot be read.
    """

    tables: tuple[TableReport, ...]
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    dead_letters_in: Path | str | None = None
    warnings: tuple[str, ...] = ()
    plans: tuple[TablePlan, ...] = ()

    def then(self, later: Replicated) -> Replicated:
        """Return the report on this batch and a later one together, with the newest warnings."""
        tables = {table.name: table for table in self.tables}
        for table in later.tables:
            tables[table.name] = tables[table.name].then(table) if table.name in tables else table
        return Replicated(
            tuple(tables.values()),
            _sum(self.dead_letters, later.dead_letters),
            later.dead_letters_in or self.dead_letters_in,
            later.warnings or self.warnings,
        )


@dataclass(frozen=True)
class Retried:
    """The result of a retry of dead letters.

    `letters` is how many were tried, `applied` how many are none any more. `dead_letters` counts the others by what is
    wrong with them now, and `tables` are reports on all messages of the tables that dead letters belong to.
    """

    letters: int = 0
    applied: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableReport, ...] = ()
    warnings: tuple[str, ...] = ()


COUNTS = ("rows", "upserted", "deleted", "unchanged", "refused")
PROOF = ("row_count", "row_hash", "column_hash")


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _least(*numbers: int | None) -> int | None:
    return min((n for n in numbers if n is not None), default=None)


def _greatest(*numbers: int | None) -> int | None:
    return max((n for n in numbers if n is not None), default=None)
