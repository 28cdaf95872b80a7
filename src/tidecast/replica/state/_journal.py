"""The schema journal: a table with a row for each schema change that a run has met, and its outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._policy import DdlKind, DdlPolicy
from tidecast.model import Ddl, ddl_action
from tidecast.replica.plan import (
    NEVER,
    Plan,
    Refused,
    Truncations,
    carries_out,
    ends,
    keeps_rows,
    kind_of,
    moves_rows,
    removes_rows,
    why_not_carried_out,
)
from tidecast.replica.tables import Contents, Name
from tidecast.replica.targets import TargetTable
from tidecast.spark import small_table

APPLIED, IGNORED, REFUSED = "applied", "ignored", "refused"

_TEXTS = ("database", "table", "type", "query", "outcome", "cause")
_SEQ = "seq"
"""Where a change stands among those of its commit-ts: a RENAME of several tables is one for each."""

_COLUMNS = {"commit_ts": pa.int64(), **dict.fromkeys(_TEXTS, pa.string()), _SEQ: pa.int64()}
_DROPS, _RENAMES = "drop table", "rename table"
_REMOVALS = ("truncate table", _DROPS)
_KEY = ["commit_ts", "database", "table", "query"]
_ENDING_NOTHING = ("create table", "add column", "drop column", "modify column", "create index", "drop index")


def write_journal(
    spark: SparkSession,
    place: TargetTable,
    changes: Iterable[Ddl],
    plans: Mapping[Name, Plan],
    failed: Mapping[Name, str],
    on_ddl: DdlPolicy,
    refused: Refused,
    called: Callable[[Ddl], Name | None],
) -> None:
    """Add the schema changes that are not in the journal yet. `plans` are those of the tables that were touched.

    `failed` has the cause where a table could not be written after all, `refused` that of a rename, by its commit-ts
    and SQL. `called` tells what the table of a change is called now, None where it is no longer there.
    """
    by_key = {(c.commit_ts, c.database, c.table, c.sql): c for c in changes}
    if not by_key:
        return
    known, seqs = defaultdict[tuple[object, ...], set[str]](set), dict[tuple[object, ...], int]()
    if place.exists():
        # A written row stays: a topic that is applied again may find its tables in another state.
        since = min(commit_ts for commit_ts, _, _, _ in by_key)
        for row in _told(place).where(f"commit_ts >= {since}").select(*_KEY, "outcome", _SEQ).collect():
            known[tuple(row)[: len(_KEY)]].add(row["outcome"])
            seqs[tuple(row)[: len(_KEY)]] = row[_SEQ] or 0
    rows = []
    for key, change in by_key.items():
        if key in known and not carries_out(change, on_ddl):
            continue
        outcome, cause = _outcome(change, plans, failed, on_ddl, refused, called)
        # A removal of rows is written even so: if the table is gone, nothing else remembers it.
        if key not in known or (outcome == APPLIED and APPLIED not in known[key]):
            event = ddl_action(change.sql).event or change.type.lower()
            seq = seqs.setdefault(key, sum(other[0] == change.commit_ts for other in seqs))
            rows.append((*key[:3], event, change.sql, outcome, cause, seq))
    if rows:
        place.add_rows(small_table(spark, rows, _COLUMNS).coalesce(1), "schema changes")


@dataclass(frozen=True)
class Journaled:
    """The journal's rows on tables that were truncated, dropped and renamed, each by its name at that time.

    `left` are the renames that were not carried out, `ends` statements after which a table of that name is not there
    (see `ends`), carried out or not.
    """

    removals: Sequence[tuple[int, str, Name]] = ()
    renames: Sequence[tuple[int, str, Name]] = ()
    left: Sequence[tuple[int, str, Name]] = ()
    ends: Sequence[Ddl] = ()

    def truncations(self, name: Name, now: Callable[[Name, int], Name | None], contents: Contents) -> Truncations:
        """Return those of a table; `now` tells what a table is called that had a name at a commit-ts."""
        kinds = {at: kind for at, kind, then in self.removals if now(then, at) == name}
        if contents.is_log or not kinds:
            return NEVER
        if keeps_rows(contents):
            return Truncations(tuple(sorted(kinds)))
        return Truncations((max(kinds),), max((ts for ts, kind in kinds.items() if kind == _DROPS), default=0))


def journaled(place: TargetTable) -> Journaled:
    """Return what was carried out on whole tables."""
    if not place.exists():
        return Journaled()
    told = _told(place).where(~F.col("type").isin(*_ENDING_NOTHING)).select(*_KEY, "type", "outcome", _SEQ)
    said = sorted(told.collect(), key=lambda r: (r["commit_ts"], r[_SEQ] or 0))
    changes = (Ddl(r["type"], r["query"], r["commit_ts"], named=(r["database"], r["table"])) for r in said)
    removed = [r for r in said if r["type"] in _REMOVALS and r["outcome"] == APPLIED]
    renamed = [
        (r["outcome"], (r["commit_ts"], r["query"], (r["database"], r["table"]))) for r in said if r["type"] == _RENAMES
    ]
    return Journaled(
        [(r["commit_ts"], r["type"], (r["database"], r["table"])) for r in removed],
        [told_of for outcome, told_of in renamed if outcome == APPLIED],
        [told_of for outcome, told_of in renamed if outcome != APPLIED],
        [change for change in changes if ends(change)],
    )


def _told(place: TargetTable) -> DataFrame:
    """Return the journal's rows; one that was begun before changes had a place in their statement lacks it."""
    rows = place.read()
    return rows if _SEQ in rows.columns else rows.withColumn(_SEQ, F.lit(None).cast("bigint"))


def _outcome(
    change: Ddl,
    plans: Mapping[Name, Plan],
    failed: Mapping[Name, str],
    on_ddl: DdlPolicy,
    refused: Refused,
    called: Callable[[Ddl], Name | None],
) -> tuple[str, str | None]:
    """Return the outcome of a schema change, and the cause if it was not simply applied."""
    name = called(change)
    if name is None:
        said = kind_of(change) is DdlKind.RENAME_TABLE
        cause = why_not_carried_out(change, (change.database, change.table), plans, on_ddl, refused) if said else None
        if cause:
            return REFUSED if carries_out(change, on_ddl) else IGNORED, cause
        return IGNORED, "its name means another table now"
    if moves_rows(change):
        if cause := why_not_carried_out(change, name, plans, on_ddl, refused):
            return REFUSED if carries_out(change, on_ddl) else IGNORED, cause
        if removes_rows(change) and name in plans and plans[name].contents.is_log:
            return IGNORED, "a log keeps what it has"
        failure = failed.get(name) if removes_rows(change) else None
        return (REFUSED, failure) if failure else (APPLIED, None)
    if change.schema is None:
        return IGNORED, "it shows no columns: those of the rows count"
    if name not in plans:
        return IGNORED, "no row of the table has come yet"
    if column := plans[name].contents.clash([c.name for c in change.schema.columns]):
        return REFUSED, f"column {column} has the name of a metadata column"
    evolution = plans[name].evolution
    if cause := failed.get(name) or evolution.clash or evolution.refused.get(change.schema):
        return REFUSED, cause
    if on_ddl.ignores_columns and change.type != "CREATE":
        return IGNORED, on_ddl.told(DdlKind.ADD_COLUMN)
    if left := [column.name for column in change.schema.columns if column.name in evolution.left_out]:
        return IGNORED, f"left out of rows: {', '.join(left)}"
    kept = [column for move in evolution.moves if move.version == change.schema.version for column in move.kept]
    return APPLIED, f"kept, and null in new rows: {', '.join(kept)}" if kept else None
