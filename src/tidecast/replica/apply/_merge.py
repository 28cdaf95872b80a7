"""One table's changes by key: the newest of each is brought into the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast.replica._report import TableReport
from tidecast.replica.apply._history import DELETE, INSERT, UPDATE
from tidecast.replica.apply._lookup import BatchKeys
from tidecast.replica.apply._newest import NewestChanges
from tidecast.replica.apply._reports import of_several_topics, report_of, unrepresentable_by_column
from tidecast.replica.apply._rows import (
    HASHES,
    comes_late,
    counted_once,
    has_key,
    key_type,
    sql_values_of,
    stored_columns,
    values_of,
    writing,
)
from tidecast.replica.plan import Plan
from tidecast.replica.settle import Checked, count
from tidecast.replica.state import (
    Counts,
    Proof,
    TableKeys,
    row_hash,
    row_sum,
)
from tidecast.replica.tables import COMMIT_TS, DELETED
from tidecast.spark import sql_column, sql_name

_CHANGE = "_tidecast change"
_SMALL = 1 << 20
"""So many bytes of a table's files are looked through in less time than Spark takes to plan and run a job."""


def merge(
    plan: Plan,
    newest: NewestChanges,
    set_aside: Callable[[Checked], None],
    keys: TableKeys | None,
    proof: Proof | None,
    *,
    timed: bool,
) -> TableReport:
    come, changes = newest.counts, newest.changes
    batch = BatchKeys() if plan.present is None else BatchKeys.of(come, key_type(plan))
    if keys:
        keys.tidy(plan.place.spark)
    with ExitStack() as kept:
        hashed, counts = proof is not None, [*_counts_of_actions(plan), *(effect(plan) if proof else ())]
        small = _is_small(plan)
        actions = with_action(plan, changes, BatchKeys() if small else batch, hashed=hashed)
        done: Counts
        if plan.present is not None:
            actions, done = counted_once(actions, counts, kept)
        elif hashed or plan.truncated.at or DELETED in plan.contents.columns:
            done = actions.agg(*counts).collect()[0]
        else:  # each key that is not deleted makes a row
            done = {"upserted": come["alive"], "deleted": 0}
        if keys and (marked := keys.mark_repeated(actions, come)):
            actions, done = counted_once(_without_repeated(marked), counts, kept)
        checked = Checked.of(come) + count(plan.rows.set_aside)
        set_aside(checked)
        if keys:  # before they are applied: after a crash between, they must not be forgotten
            keys.add(actions, come)
        to_do = actions.where(F.col("action").isNotNull())
        if plan.present is None:
            with writing(proof, done, creates=True):
                plan.place.create(to_do.select(stored_columns(plan)), plan.key, plan.notes)
        elif done["upserted"] or done["deleted"]:
            with writing(proof, done):
                if not small:  # a small table needs no preparation
                    prepare(plan, done)
                execute(plan, to_do, done, batch)
    warnings = of_several_topics(plan, come["topics"])
    if come["scattered"] and not timed:
        warnings.append(
            f"{come['scattered']} keys came in several partitions, and without a commit-ts in every message "
            "nothing tells their order: publish each key to one partition"
        )
    upserted, deleted = done["upserted"], done["deleted"]
    lost = unrepresentable_by_column(plan, come)
    return report_of(plan, checked, upserted, deleted, come["keys"] - upserted - deleted, lost, warnings)


def _is_small(plan: Plan) -> bool:
    """Tell whether a table's rows are so few that all of them are read as fast as some."""
    if plan.present is None:
        return True
    size = plan.place.size()
    return size is not None and size <= _SMALL


def _counts_of_actions(plan: Plan) -> list[Column]:
    """Return the aggregates over actions of what they do to the table."""
    put, gone = F.col("action").isin(INSERT, UPDATE), F.col("action") == DELETE
    if DELETED in plan.contents.columns:
        marked = F.coalesce(F.col("after.metadata")[DELETED], F.lit(False))
        put, gone = put & ~marked, gone | (put & marked)
    return [
        F.count_if(put).alias("upserted"),
        F.count_if(gone).alias("deleted"),
        *counts_by_action(),
    ]


def counts_by_action() -> list[Column]:
    return [F.count_if(F.col("action") == action).alias(action) for action in (INSERT, UPDATE, DELETE)]


def _hashes(plan: Plan) -> dict[str, Column]:
    """Return `HASHES`, null where there is no such row. They read `after`, `there`, `timed` and `time`."""
    after = sql_values_of(plan)
    there = {name: sql_column("there", name) for name in after}
    marks = {DELETED: "true", COMMIT_TS: "if(timed, time.commit_ts, NULL)"}
    untimed = {**marks, COMMIT_TS: "CAST(NULL AS BIGINT)"}
    rows = {HASHES[0]: ("after", after)}
    if plan.present is not None:
        rows |= {HASHES[1]: ("there", there)}
        if DELETED in plan.contents.columns:
            rows |= {HASHES[2]: ("there", there | marks), HASHES[3]: ("there", there | untimed)}
    return {name: F.expr(f"nvl2({row}, {row_hash(values)}, NULL)") for name, (row, values) in rows.items()}


def effect(plan: Plan) -> list[Column]:
    """Return the aggregates over actions, with `HASHES`, of what they make of the sum of the table's rows."""
    put = f"action IN ('{INSERT}', '{UPDATE}')"
    after, before, marked, untimed = map(sql_name, HASHES)
    if plan.present is None:
        return row_sum(f"count_if({put})", f"if({put}, {after}, NULL)")
    lost = f"if(action IN ('{UPDATE}', '{DELETE}'), {before}, NULL)"
    if DELETED not in plan.contents.columns:
        more = f"count_if(action = '{INSERT}') - count_if(action = '{DELETE}')"
        return row_sum(more, f"if({put}, {after}, NULL)", lost)
    kept = f"CASE WHEN {put} THEN {after} WHEN action = '{DELETE}' THEN if(timed, {marked}, {untimed}) END"
    return row_sum(f"count_if(action = '{INSERT}')", kept, lost)


def with_action(plan: Plan, changes: DataFrame, keys: BatchKeys | None = None, *, hashed: bool) -> DataFrame:
    """Add `action`, what each change does to the table, null for nothing, and `present`, whether the key is in it.

    `keys` are those of the changes. With `hashed` add `HASHES`, as far as the table can have such rows.
    """
    hashes = _hashes(plan) if hashed else {}
    if plan.present is None or keys is None:
        action = F.when(has_key() & ~F.col("deleted") & ~comes_late(plan, "time.commit_ts"), F.lit(INSERT))
        return changes.withColumns({"action": action, "present": F.lit(False), **hashes})
    row_columns = (F.col(sql_name(name)) for name in (*plan.evolution.shape.columns, *plan.contents.columns))
    there_is = F.col("there").isNotNull()
    present = there_is & ~F.col("there")[DELETED] if DELETED in plan.contents.columns else there_is
    goes = present
    if DELETED in plan.contents.columns and plan.truncated.at:
        # A truncation may have marked the row before this batch's delete of it, which is older.
        marked_at = F.col("there")[COMMIT_TS]
        goes |= marked_at.isin(*plan.truncated.at) & (F.col("time.commit_ts") < marked_at)
    same = reduce(and_, (F.col("there")[n].eqNullSafe(value) for n, value in values_of(plan, F.col("after")).items()))
    action = (
        F.when(F.col("deleted"), F.when(goes, F.lit(DELETE))).when(~there_is, F.lit(INSERT)).when(~same, F.lit(UPDATE))
    )
    action = F.when(has_key() & ~comes_late(plan, "time.commit_ts"), action)
    joined = keys.with_rows(changes, plan.place.read().select(*row_columns), "there", plan.key)
    named = (column.alias(name) for name, column in {"action": action, "present": present, **hashes}.items())
    return joined.select(*changes.columns, *named)


def _without_repeated(changes: DataFrame) -> DataFrame:
    """Let changes that are `repeated` do nothing, but for the delete before one."""
    left = F.when(F.col("after_delete") & F.col("present"), F.lit(DELETE))
    return changes.withColumns(
        {
            "action": F.when(F.col("repeated"), left).otherwise(F.col("action")),
            "timed": F.col("timed") & ~(F.col("repeated") & F.col("after_delete")),
        }
    )


def prepare(plan: Plan, done: Counts) -> None:
    """Make the table ready for the actions counted in `done`, in a commit of its own if need be."""
    if done[UPDATE] or done[DELETE]:
        plan.place.before_updates()


def execute(plan: Plan, actions: DataFrame, done: Counts, keys: BatchKeys, where: Sequence[Column] = ()) -> None:
    """Do what `action` says to the table, where the aggregates of `_counts_of_actions` came to `done`.

    `keys` are those of the actions; of the table's rows, only those are concerned that fulfil `where`.
    """
    # Spark's own merge, as Delta's needs a plugin in a Spark Connect server. The table has no alias in it: the changes
    # are one column, of a name that no table has.
    change, stored = F.col(_CHANGE), plan.place.stored

    def there(name: str) -> Column:
        return F.col(sql_name(stored(name)))

    mine = keys.same(plan.row_key, there, lambda name: change["key"][name])
    values = {sql_column(stored(n)): value for n, value in values_of(plan, change["after"]).items()}
    read = ("key", "after", "action", *(("time", "timed") if DELETED in plan.contents.columns else ()))
    changes = actions.select(F.struct(*read).alias(_CHANGE))
    merge = changes.mergeInto(plan.place.name, reduce(and_, (*where, *keys.among(there)), mine))
    # A clause that does nothing is dear: one for new rows has all of the table's rows sorted by key.
    if done[DELETE]:
        gone = merge.whenMatched(change["action"] == DELETE)
        if DELETED in plan.contents.columns:
            commit_ts = F.when(change["timed"], change["time"]["commit_ts"])
            merge = gone.update({sql_column(stored(DELETED)): F.lit(True), sql_column(stored(COMMIT_TS)): commit_ts})
        else:
            merge = gone.delete()
    if done[UPDATE]:
        merge = merge.whenMatched(change["action"] == UPDATE).update(values)
    if done[INSERT]:
        merge = merge.whenNotMatched(change["action"] == INSERT).insert(values)
    merge.merge()
