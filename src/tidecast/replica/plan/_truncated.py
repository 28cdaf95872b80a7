"""When the source truncated or dropped a table, and how its late rows are treated.

The statement comes once per partition, again after a restart, and in the middle of a batch. Only its
commit-ts counts: older rows go and newer ones stay, wherever they were read. So a table remembers when it was
truncated; if it is gone, the schema journal does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast._policy import DdlKind
from tidecast.model import Ddl
from tidecast.replica.tables import COMMIT_TS, DELETED, VALID_FROM, VALID_TO, Contents

_KINDS = {"TRUNCATE": DdlKind.TRUNCATE_TABLE, "DROP": DdlKind.DROP_TABLE, "RENAME": DdlKind.RENAME_TABLE}
UNTIMED = "nothing tells which rows are older, as not every message has a commit-ts"
_TRUNCATED, _DROPPED = "tidecast.truncated", "tidecast.dropped"


@dataclass(frozen=True)
class Truncations:
    """The truncations of a table, as far as its rows depend on them.

    `at` are the commit-ts, in order; a table that keeps its removed rows needs all of them, any other the last.
    `dropped` is that of the last DROP TABLE after which it began anew, 0 for none: versions from before are another
    table's. `due` are those that the rows which are there do not show yet, `replaces` tells that the table, if it is
    there, goes as a whole. `objection` is why nothing is done although there is something to do.
    """

    at: tuple[int, ...] = ()
    dropped: int = 0
    due: tuple[int, ...] = ()
    replaces: bool = False
    objection: str | None = None

    @classmethod
    def from_notes(cls, notes: Mapping[str, str]) -> Truncations:
        """Return what a table remembers."""
        return cls(tuple(map(int, notes.get(_TRUNCATED, "").split())), int(notes.get(_DROPPED, "0")))

    @property
    def notes(self) -> dict[str, str]:
        """Return the notes of the table."""
        at = {_TRUNCATED: " ".join(map(str, self.at))} if self.at else {}
        return at | ({_DROPPED: str(self.dropped)} if self.dropped else {})

    @property
    def last(self) -> int:
        """The last of them, -1 for none."""
        return max(self.at, default=-1)


NEVER = Truncations()


def kind_of(change: Ddl) -> DdlKind | None:
    """Return the kind of a statement that truncates, drops or renames a table, None for any other."""
    statement = change.statement
    if statement is None or statement.subject != "TABLE":
        return None
    return DdlKind.RENAME_TABLE if statement.renamed else _KINDS.get(statement.verb)


def removes_rows(change: Ddl) -> bool:
    """Tell whether a statement truncates or drops a table."""
    return kind_of(change) in (DdlKind.TRUNCATE_TABLE, DdlKind.DROP_TABLE)


def truncations(changes: Iterable[Ddl], known: Truncations, contents: Contents, *, present: bool) -> Truncations:
    """Return those of a table after schema changes that are carried out; `known` are those of before.

    A dropped table that keeps deleted rows, or versions, stays, as if it was truncated; a log stays as it is.
    """
    if contents.is_log:
        return known
    keeps = keeps_rows(contents)
    kinds = {change.commit_ts: kind_of(change) for change in changes if removes_rows(change)}
    fresh = sorted(at for at in kinds if at not in known.at and (keeps or at > known.last))
    if not fresh:
        return known
    drops = [] if keeps else [at for at in fresh if kinds[at] is DdlKind.DROP_TABLE]
    at = sorted({*known.at, *fresh}) if keeps else fresh[-1:]
    due = fresh if keeps else fresh[-1:]
    return Truncations(
        tuple(at),
        drops[-1] if drops else known.dropped,
        tuple(due) if present and not drops else (),
        bool(drops),
    )


def keeps_rows(contents: Contents) -> bool:
    """Tell whether rows that are gone at the source stay in a table, marked so."""
    return DELETED in contents.columns or contents.is_history


def tells_age(contents: Contents) -> bool:
    """Tell whether a table's own columns tell which of its rows are older than a truncation."""
    return bool({COMMIT_TS, VALID_FROM} & set(contents.columns))


def is_late(truncated: Truncations, contents: Contents, commit_ts: str) -> Column:
    """Return whether a change, of a column's commit-ts, is from before the table was truncated, and leaves nothing."""
    if not truncated.at or keeps_rows(contents):
        return F.lit(False)
    return F.coalesce(F.col(commit_ts) < F.lit(truncated.last), F.lit(False))


def ended(truncated: Truncations, contents: Contents, changes: DataFrame, commit_ts: str) -> DataFrame:
    """Return changes with their `after` (see `table_changes`) as the truncations since their commit-ts leave it."""
    if not truncated.at or not keeps_rows(contents):
        return changes
    after, until = F.col("after"), next_truncation(truncated, F.col(commit_ts))
    if contents.is_history:
        return changes.withColumn("after", F.when(after.isNotNull(), after.withField(f"metadata.{VALID_TO}", until)))
    marked = after.withField(f"metadata.{DELETED}", F.lit(True)).withField(f"metadata.{COMMIT_TS}", until)
    lives = after.isNotNull() & ~after["metadata"][DELETED]
    return changes.withColumn("after", F.when(lives & until.isNotNull(), marked).otherwise(after))


def next_truncation(truncated: Truncations, commit_ts: Column) -> Column:
    """Return the commit-ts of the first truncation after another one, null where there is none later."""
    at = F.array(*map(F.lit, truncated.at)).cast("array<bigint>")
    return F.array_min(F.filter(at, lambda ts: ts > commit_ts))
