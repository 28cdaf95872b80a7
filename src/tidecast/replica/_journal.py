"""The schema journal: a table with a row for each schema change that a run has met, and what was made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from tidecast._policy import OnDdl
from tidecast.model import Ddl, ddl_action
from tidecast.replica._ddl import Name, moves_rows
from tidecast.replica._plan import Plan
from tidecast.replica.targets import TargetTable
from tidecast.spark import small_table

APPLIED, IGNORED, REFUSED = "applied", "ignored", "refused"

_TEXTS = ("database", "table", "type", "query", "outcome", "cause")
_COLUMNS = {"commit_ts": pa.int64(), **dict.fromkeys(_TEXTS, pa.string())}
_KEY = ["commit_ts", "database", "table", "query"]


def write_journal(
    spark: SparkSession,
    place: TargetTable,
    changes: Iterable[Ddl],
    plans: Mapping[Name, Plan],
    failed: Mapping[Name, str],
    on_ddl: OnDdl,
) -> None:
    """Add the schema changes that are not in the journal yet. `plans` are those of the tables that were touched.

    `failed` has the cause where a table could not be written after all.
    """
    by_key = {(c.commit_ts, c.database, c.table, c.sql): c for c in changes}
    if not by_key:
        return
    there = place.exists()
    if there:
        # What a run has written once stays: a topic that is applied again may find its tables in another state.
        since = min(commit_ts for commit_ts, _, _, _ in by_key)
        known = {tuple(row) for row in place.read().where(f"commit_ts >= {since}").select(_KEY).collect()}
        by_key = {key: change for key, change in by_key.items() if key not in known}
        if not by_key:
            return
    rows = []
    for key, change in by_key.items():
        outcome, cause = _outcome(change, plans, failed, on_ddl)
        rows.append((*key[:3], ddl_action(change.sql).event or change.type.lower(), change.sql, outcome, cause))
    frame = small_table(spark, rows, _COLUMNS).coalesce(1)
    place.add_rows(frame, "schema changes")


def _outcome(
    change: Ddl, plans: Mapping[Name, Plan], failed: Mapping[Name, str], on_ddl: OnDdl
) -> tuple[str, str | None]:
    """Return what was made of a schema change, and why where it was not simply applied."""
    name = change.database, change.table
    if moves_rows(change):
        return IGNORED, "what moves or removes rows without a row change is not carried out"
    if change.schema is None:
        return IGNORED, "it shows no columns: those of the rows count"
    if name not in plans:
        return IGNORED, "no row of the table has come yet"
    if column := plans[name].contents.clash([c.name for c in change.schema.columns]):
        return REFUSED, f"column {column} has the name of a metadata column"
    evolution = plans[name].evolution
    if cause := failed.get(name) or evolution.clash or evolution.refused.get(change.schema):
        return REFUSED, cause
    if on_ddl is OnDdl.IGNORE and change.type != "CREATE":
        return IGNORED, f"--ddl is {on_ddl}"
    kept = [column for move in evolution.moves if move.version == change.schema.version for column in move.kept]
    return APPLIED, f"kept, and null in new rows: {', '.join(kept)}" if kept else None
