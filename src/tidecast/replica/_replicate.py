"""A batch of events onto tables: read → settle → plan → apply → commit.

| stage | module | room |
|---|---|---|
| read: rows verified, under the names and columns that tables shall have | `settle/_prepare` | `settle` |
| settle: which table each message belongs to, by its name now | `_settling` | `plan`, `apply` for renames |
| plan: what the batch means for each table | `_planning` | `plan` |
| apply: plans carried out, several tables side by side | `_applying` | `apply` |
| commit: what is known now, in the journal; the caller writes the ledger | here | `state` |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._policy import TableMode
from tidecast._progress import Progress, no_progress
from tidecast.model import Events
from tidecast.replica._applying import Applier, Done, stop
from tidecast.replica._options import ApplyOptions
from tidecast.replica._planning import Planned, Planner, unmade_of
from tidecast.replica._report import Replicated, TablePlan, TableReport
from tidecast.replica._run import Run
from tidecast.replica._settling import Settled, parts_of, settle
from tidecast.replica.plan import Action, Plan, RenameTable, not_carried_out, renamed_before, stop_at_schema_changes
from tidecast.replica.settle import prepared
from tidecast.replica.state import State, journaled, write_journal
from tidecast.replica.tables import Contents, Name
from tidecast.spark import parallel_map
from tidecast.topics import write_dead_letters


def replicate(
    events: Events,
    options: ApplyOptions,
    *,
    state: State | None = None,
    progress: Progress = no_progress,
    dry_run: bool = False,
) -> Replicated:
    """Bring tables up to a batch of events; the same batch again, or a longer one of the same topic, is safe.

    Each table gets the newest row of each key; rows of tables without a key are appended. Messages that cannot be read
    or applied go to the dead letters. So do all messages of a table that the target cannot take, for its name, its
    columns or what lies there. The options are explained at `tidecast.replicate`.

    `state` is what the batches before of the same topic have applied: a change that is older than the one that a key
    was brought to changes nothing. Without it that holds within the batch alone. `progress` is told each table's name,
    and how many of how many tables are done.

    With `dry_run` nothing is done, and `Replicated.plans` says what would be.

    Raises ConfigError for a table with other contents; DecodeError for a message, CorruptedData for a mismatch and
    TableRefused for a schema change that stops the run. Source: Changefeeds, delivery; Avro protocol, row checksum;
    Other documents, Flink CDC's schema evolution.
    """
    _check_contents(options.contents, events)
    run = Run(events.rejected.sparkSession, options, state, progress, dry_run)
    settled = settle(run, events, prepared(events, options.policy.on_unrepresentable, options.settings))
    planner = Planner(run, settled)
    planned = [planner.allowed(one) for one in parallel_map(planner.plan, parts_of(run, settled.events).values())]
    plans = {one.part.name: one.plan for one in planned if one.plan is not None}
    stop_at_schema_changes(settled.new_ddl, plans, options.on_ddl, settled.renaming.refused)
    if dry_run:
        return _planned(run, settled, planned)
    stop(settled.events, list(plans.values()), options.policy)
    rejected = Counter(write_dead_letters(settled.events.rejected, options.dead_letters))
    to_do = [one for one in planned if one.plan is not None]
    done = {one.plan.name: one for one in Applier(run, planner).carry_out(to_do)}
    return _commit(run, settled, planned, {name: done[name] for name in plans}, rejected)


def _planned(run: Run, settled: Settled, planned: Sequence[Planned]) -> Replicated:
    """Return what a dry run tells."""
    actions: dict[Name, list[Action | RenameTable]] = {}
    for rename in settled.renaming.done:
        actions.setdefault(rename.new, []).append(RenameTable(rename.old, rename.new))
    plans = {one.part.name: one.plan for one in planned if one.plan is not None}
    for name, plan in plans.items():
        actions.setdefault(name, []).extend(plan.actions)
    told = (
        TablePlan(*name, run.table(name).shown, tuple(text for one in found for text in one.told()))
        for name, found in actions.items()
    )
    unread = {row["reason"]: row["count"] for row in settled.events.rejected.groupBy("reason").count().collect()}
    warnings = not_carried_out(settled.new_ddl, plans, run.options.on_ddl, settled.renaming.refused)
    return Replicated((), unread, None, (*warnings, *unmade_of(planned)), tuple(one for one in told if one.actions))


def _check_contents(contents: Contents, events: Events) -> None:
    if contents.is_history and not events.has_commit_ts:
        raise ConfigError(
            f"--mode {contents.mode} needs a commit-ts in every message, deletes included",
            hint=f"Avro's deletes have none: use Simple, or Debezium or Canal-JSON with TiDB's extension, or "
            f"--mode {TableMode.SOFT_DELETE}",
        )


def _commit(
    run: Run, settled: Settled, planned: Sequence[Planned], done: dict[Name, Done], dead_letters: Counter[str]
) -> Replicated:
    """Write the outcome of schema changes to the journal and return the batch's report."""
    renaming, plans = settled.renaming, {name: one.plan for name, one in done.items()}
    if settled.events.ddl:
        failed = {one.part.name: one.failure for one in planned if one.failure}
        failed |= {name: one.failure for name, one in done.items() if one.failure}
        # Under the names that tables had then, as a repetition tells them.
        told, journal = settled.ready.events.ddl, run.options.target.journal(run.spark)
        write_journal(run.spark, journal, told, plans, failed, run.options.on_ddl, renaming.refused, renaming.now_of)
    tables = tuple(one.report for one in done.values() if _is_told(one))
    if run.state:
        tables += _gone(run, [one.old for one in renaming.of_batch if one.old not in plans])
    for one in done.values():
        dead_letters.update(one.dead_letters)
    letters = run.options.dead_letters
    where = letters if isinstance(letters, Path) else str(letters)
    return Replicated(
        tables,
        dict(dead_letters),
        where if dead_letters else None,
        (*not_carried_out(settled.new_ddl, plans, run.options.on_ddl, renaming.refused), *unmade_of(planned)),
    )


def _is_told(done: Done) -> bool:
    """Tell whether there is anything to say of a table."""
    plan: Plan = done.plan
    return bool(plan.all_changes or plan.evolution.news or plan.makes or done.report.row_count is not None)


def _gone(run: Run, names: Sequence[Name]) -> tuple[TableReport, ...]:
    """Return reports for the ledger on tables that no longer exist, as they were renamed."""
    places = ((name, run.table(name)) for name in names)
    return tuple(
        TableReport(*name, place.shown, 0, row_count=0, row_hash=0) for name, place in places if not place.exists()
    )


def renamed_names(spark: SparkSession, options: ApplyOptions) -> list[tuple[Name, Name]]:
    """Return the old and the new name of each table that was renamed, as the target's journal tells."""
    told = journaled(options.target.journal(spark, make_database=False)).renames
    return [(one.old, one.new) for one in renamed_before(told, options.settings.routes)]
