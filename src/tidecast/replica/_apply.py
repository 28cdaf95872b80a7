"""One table's changes onto the table: by key, or appended where there is none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._counted import counted
from tidecast._errors import TableRefused
from tidecast.checksum import Verdict
from tidecast.model import Kind
from tidecast.replica._again import Again, at_places
from tidecast.replica._again_keys import of_letters
from tidecast.replica._alter import alters_rows, evolve, names_afterwards, no_rows
from tidecast.replica._applied_keys import SAME_ROW, AppliedKeys, TableKeys, as_sent_again, with_row_key
from tidecast.replica._changes import IDENTITY, table_changes
from tidecast.replica._check import Checked, count, misfits, sums_of_tallies, tallies
from tidecast.replica._columns import source_type, table_type
from tidecast.replica._evolve import Evolution, Shape
from tidecast.replica._history import DELETE, INSERT, UPDATE, laid_out, moments, open_since
from tidecast.replica._lookup import BatchKeys
from tidecast.replica._mode import COMMIT_TS, DELETED, OP
from tidecast.replica._order import newest, without_repeats
from tidecast.replica._plan import SOURCES, Plan
from tidecast.replica._proof import Proof, Proofs, RowSum, row_hash, row_sum
from tidecast.replica._report import TableReport
from tidecast.replica._truncate import truncate
from tidecast.replica._truncated import ended, is_late
from tidecast.spark import number_at, sql_column, sql_name, union

_NOTE = '{"tidecast": '
_DOUBTFUL = (
    "the topic has the row again after a watermark that covers it, and nothing tells whether a batch appended that: "
    "compare tells whether the table lacks it"
)
_CHANGE = "_tidecast change"
_HASHES = ("hash after", "hash before", "hash marked", "hash marked untimed")
"""Of a row that a change puts into the table, of the one there, and of that one marked as deleted."""

_VERSIONS = {_HASHES[0]: "after", _HASHES[1]: "there"}


def apply(
    plan: Plan,
    set_aside: Callable[[Checked], None],
    *,
    has_commit_ts: bool,
    ordered: bool,
    applied: AppliedKeys | None = None,
    proofs: Proofs | None = None,
) -> TableReport:
    """Bring one table up to its changes; return what was done. `has_commit_ts`, `ordered`: see `Events`.

    `set_aside` is told how many changes there are, before any is applied. Applying the same changes again changes
    nothing, not even the table's version. `applied` are the keys of the batches before: no older change sets one back.
    `proofs` are what the tables' rows come to.
    """
    if applied and applied.again and plan.merges and plan.accepted:
        plan = of_letters(plan, applied.again)
    if plan.truncated.replaces and plan.place.exists():
        if applied:
            applied.forget(plan.database, plan.table)
        plan.place.drop()
    if not proofs:
        truncate(plan, applied, None)
        _evolve(plan, applied)
        return _apply(plan, set_aside, applied, None, has_commit_ts=has_commit_ts, ordered=ordered)
    proof = proofs.of(plan)
    truncate(plan, applied, proof)
    with proof.reshaping(alters_rows=alters_rows(plan), called=names_afterwards(plan)):
        _evolve(plan, applied)
    return proof.told(_apply(plan, set_aside, applied, proof, has_commit_ts=has_commit_ts, ordered=ordered))


def _evolve(plan: Plan, applied: AppliedKeys | None) -> None:
    """Give a table its columns, and its key: of the one that it had nothing is remembered."""
    evolve(plan)
    if plan.rekeyed and applied:
        applied.forget(plan.database, plan.table)


def _apply(
    plan: Plan,
    set_aside: Callable[[Checked], None],
    applied: AppliedKeys | None,
    proof: Proof | None,
    *,
    has_commit_ts: bool,
    ordered: bool,
) -> TableReport:
    if plan.makes:
        with proof.writing(RowSum(), creates=True) if proof else nullcontext():
            plan.place.create(no_rows(plan), plan.key, plan.notes, appended=not plan.merges)
    if not (plan.accepted and plan.evolution.shape.columns):
        if applied:
            _remember_deletes(plan, applied, has_commit_ts=has_commit_ts)
        checked = count(plan.all_changes)
        set_aside(checked)
        return _report(plan, checked, unchanged=checked.applicable)
    key = _key_type(plan) if plan.merges else SAME_ROW
    keys = applied.of(plan.database, plan.table, key) if applied else None
    if plan.merges and plan.contents.is_history:
        return _keep_versions(plan, set_aside, _deletes(plan, key, applied), proof)
    if plan.merges:
        return _merge(plan, set_aside, keys, proof, has_commit_ts=has_commit_ts, ordered=ordered)
    return _append(plan, set_aside, keys, proof)


def _remember_deletes(plan: Plan, applied: AppliedKeys, *, has_commit_ts: bool) -> None:
    """Remember the deletes of a table of which no row has come: an older one may follow them."""
    changes = [change for change in plan.accepted if change.schema.handle_key]
    if not changes or plan.contents.is_log:
        return
    schema = changes[0].schema
    columns = {name: table_type(schema.column(name).data_type) for name in schema.handle_key}
    evolution = Evolution(Shape(columns, schema.handle_key))
    same = (change for change in changes if change.schema.handle_key == schema.handle_key)
    found = union([table_changes(change, evolution, (), plan.contents) for change in same])
    if plan.contents.is_history:
        keys = applied.deletes_of(plan.database, plan.table, evolution.shape.struct)
        time = {"time": F.struct(F.col("at").alias("commit_ts"), F.lit(False).alias("later")), "timed": F.lit(True)}
        deletes = moments(found).withColumns(time)
    else:
        keys = applied.of(plan.database, plan.table, evolution.shape.struct)
        deletes = newest(found, has_commit_ts=has_commit_ts)
    (asked,) = deletes.agg(*keys.asked()).collect()
    keys.add(deletes, asked)


def _merge(
    plan: Plan,
    set_aside: Callable[[Checked], None],
    keys: TableKeys | None,
    proof: Proof | None,
    *,
    has_commit_ts: bool,
    ordered: bool,
) -> TableReport:
    # Changes that cannot be applied have no key, so that they make one group, which is counted and left out.
    changes = _newest(plan, has_commit_ts=has_commit_ts, also=tallies())
    if keys:
        keys.tidy(plan.place.spark)
    with ExitStack() as kept:
        asked, hashed = _counts_of_changes(plan, keys), proof is not None
        counts = [*_counts_of_actions(plan), *(_effect(plan) if proof else ())]
        batch = BatchKeys()
        if plan.present is None:  # nothing to look up, so that one pass tells all, and one copy is kept
            actions, done = _counted(_with_action(plan, changes, hashed=hashed), [*asked, *counts], kept)
            come = done
        else:
            changes, come = _counted(changes, asked, kept)
            batch = BatchKeys.of(come, _key_type(plan))
            actions, done = _counted(_with_action(plan, changes, batch, hashed=hashed), counts, kept)
        if keys and (marked := keys.mark_repeated(actions, come)):
            actions, done = _counted(_without_repeated(marked), counts, kept)
        checked = Checked.of(come) + count(plan.set_aside)
        set_aside(checked)
        if keys:  # before they are applied: after a crash between, they must not be forgotten
            keys.add(actions, come)
        to_do = actions.where(F.col("action").isNotNull())
        if plan.present is None:
            with _writing(proof, done, creates=True):
                plan.place.create(to_do.select(_stored(plan)), plan.key, plan.notes)
        elif done["upserted"] or done["deleted"]:
            with _writing(proof, done):
                _execute(plan, to_do, done, batch)
    warnings = _of_several_topics(plan, come["topics"])
    if come["scattered"] and not (has_commit_ts or ordered):
        warnings.append(
            f"{come['scattered']} keys came in several partitions, and without a commit-ts in every message "
            "nothing tells their order: publish each key to one partition"
        )
    upserted, deleted = done["upserted"], done["deleted"]
    lost = _unrepresentable_by_column(plan, come.asDict())
    return _report(plan, checked, upserted, deleted, come["keys"] - upserted - deleted, lost, warnings)


def _key_type(plan: Plan) -> T.StructType:
    return T.StructType([T.StructField(name, plan.evolution.shape.columns[name]) for name in plan.key])


def _writing(proof: Proof | None, done: Row, *, creates: bool = False) -> AbstractContextManager[None]:
    """Return what knows that rows are being written which come to the aggregates of `row_sum`."""
    return proof.writing(RowSum.of(done), creates=creates) if proof else nullcontext()


def rows_made(plan: Plan, *, has_commit_ts: bool) -> DataFrame:
    """Return the rows of the table that a plan's changes make where there is none."""
    if plan.merges and plan.contents.is_history:
        versions = laid_out(plan, moments(plan.changes()), 0)
        return versions.where(F.col("action").isNotNull()).select(_stored(plan))
    if plan.merges:
        actions = _with_action(plan, _newest(plan, has_commit_ts=has_commit_ts), hashed=False)
        return actions.where(F.col("action").isNotNull()).select(_stored(plan))
    return _once(plan, plan.changes().where("fits")).select(_stored(plan))


def _newest(plan: Plan, *, has_commit_ts: bool, also: Sequence[Column] = ()) -> DataFrame:
    """Return the newest change of each key (see `newest`), as the table takes it."""
    keeps = DELETED in plan.contents.columns
    changes = newest(plan.changes(), has_commit_ts=has_commit_ts, also=also, with_last_row=keeps)
    return ended(plan, _with_deleted_rows(changes), "time.commit_ts") if keeps else changes


def _once(plan: Plan, changes: DataFrame) -> DataFrame:
    """Return the changes that are rows of a table without a key, or of a log, each once; see `without_repeats`."""
    log = plan.contents.is_log
    sent = IDENTITY[1:]  # of a row that is masked, the table does not show everything
    op = (F.col("after.metadata")[OP].alias("op"),) if log else ()
    same = F.struct("after.row", *op, *sent)
    appended = changes if log else ended(plan, changes, "commit_ts").where(~F.col("deleted"))
    appended = appended.where(~is_late(plan, "commit_ts"))
    return without_repeats(appended.select("*", same.alias("row")))


def _keep_versions(
    plan: Plan, set_aside: Callable[[Checked], None], deletes: TableKeys | None, proof: Proof | None
) -> TableReport:
    """Put the versions that changes made among those of the table; `deletes` are what came before it was there."""
    with ExitStack() as kept:
        changes = _kept(moments(plan.changes(), also=tallies()), kept)
        (done,) = changes.agg(
            F.min("at").alias("since"),
            F.count("at").alias("moments"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set(_topics())))).alias("topics"),
            *_count_unrepresentable(plan, F.col("after")),
            *sums_of_tallies(),
        ).collect()
        checked = Checked.of(done) + count(plan.set_aside)
        set_aside(checked)
        before = deletes.times(plan.place.spark) if deletes and plan.is_new else None
        versions = laid_out(plan, changes, done["since"] or 0, before)
        versions = _kept(versions.withColumns(_hashes_of_versions(plan)) if proof else versions, kept)
        (came,) = versions.agg(
            F.count_if(F.col("fresh") & ~F.col("deleted")).alias("upserted"),
            F.count_if(F.col("fresh") & F.col("deleted")).alias("deleted"),
            *_counts_by_action(),
            *(_effect(plan) if proof else ()),
        ).collect()
        to_do = versions.where(F.col("action").isNotNull())
        if plan.present is None:
            with _writing(proof, came, creates=True):
                plan.place.create(to_do.select(_stored(plan)), plan.key, plan.notes)
        elif any(came[action] for action in (INSERT, UPDATE, DELETE)):
            with _writing(proof, came):
                _execute(plan, to_do, came, BatchKeys(), [open_since(done["since"])])
    upserted, deleted = came["upserted"], came["deleted"]
    unchanged = done["moments"] - upserted - deleted
    lost, warnings = _unrepresentable_by_column(plan, done.asDict()), _of_several_topics(plan, done["topics"])
    return _report(plan, checked, upserted, deleted, unchanged, lost, warnings)


def _hashes_of_versions(plan: Plan) -> dict[str, Column]:
    """Return the first two of `_HASHES` for versions as `laid_out` gives them."""
    rows = {name: {n: sql_column(row, part, n) for part, n in _parts(plan)} for name, row in _VERSIONS.items()}
    return {name: F.expr(f"nvl2({_VERSIONS[name]}, {row_hash(values)}, NULL)") for name, values in rows.items()}


def _deletes(plan: Plan, key: T.StructType, applied: AppliedKeys | None) -> TableKeys | None:
    return applied.deletes_of(plan.database, plan.table, key) if applied else None


def _counted(frame: DataFrame, counts: Sequence[Column], kept: ExitStack) -> tuple[DataFrame, Row]:
    """Let Spark keep a frame, and return it and what it comes to."""
    frame = _kept(frame, kept)
    (done,) = frame.agg(*counts).collect()
    return frame, done


def _counts_of_changes(plan: Plan, keys: TableKeys | None) -> list[Column]:
    """Return the aggregates over changes of what came, whatever it does to the table."""
    return [
        *BatchKeys.asked(_key_type(plan)),
        F.count_if(_has_key() & (F.col("first_place") != F.col("last_place"))).alias("scattered"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_set(_topics())))).alias("topics"),
        *_count_unrepresentable(plan, F.col("after")),
        *sums_of_tallies(),
        *(keys.asked() if keys else ()),
    ]


def _counts_of_actions(plan: Plan) -> list[Column]:
    """Return the aggregates over actions of what they do to the table."""
    put, gone = F.col("action").isin(INSERT, UPDATE), F.col("action") == DELETE
    if DELETED in plan.contents.columns:
        marked = F.coalesce(F.col("after.metadata")[DELETED], F.lit(False))
        put, gone = put & ~marked, gone | (put & marked)
    return [
        F.count_if(put).alias("upserted"),
        F.count_if(gone).alias("deleted"),
        *_counts_by_action(),
    ]


def _counts_by_action() -> list[Column]:
    return [F.count_if(F.col("action") == action).alias(action) for action in (INSERT, UPDATE, DELETE)]


def _kept(frame: DataFrame, until: ExitStack) -> DataFrame:
    """Let Spark keep a frame until then."""
    until.callback(frame.persist().unpersist)
    return frame


def _hashes(plan: Plan) -> dict[str, Column]:
    """Return `_HASHES`, null where there is no such row. They read `after`, `there`, `timed` and `time`."""
    after = _sql_values(plan)
    there = {name: sql_column("there", name) for name in after}
    marks = {DELETED: "true", COMMIT_TS: "if(timed, time.commit_ts, NULL)"}
    untimed = {**marks, COMMIT_TS: "CAST(NULL AS BIGINT)"}
    rows = {_HASHES[0]: ("after", after)}
    if plan.present is not None:
        rows |= {_HASHES[1]: ("there", there)}
        if DELETED in plan.contents.columns:
            rows |= {_HASHES[2]: ("there", there | marks), _HASHES[3]: ("there", there | untimed)}
    return {name: F.expr(f"nvl2({row}, {row_hash(values)}, NULL)") for name, (row, values) in rows.items()}


def _effect(plan: Plan) -> list[Column]:
    """Return the aggregates over actions, with `_HASHES`, of what they make of the sum of the table's rows."""
    put = f"action IN ('{INSERT}', '{UPDATE}')"
    after, before, marked, untimed = map(sql_name, _HASHES)
    if plan.present is None:
        return row_sum(f"count_if({put})", f"if({put}, {after}, NULL)")
    lost = f"if(action IN ('{UPDATE}', '{DELETE}'), {before}, NULL)"
    if DELETED not in plan.contents.columns:
        more = f"count_if(action = '{INSERT}') - count_if(action = '{DELETE}')"
        return row_sum(more, f"if({put}, {after}, NULL)", lost)
    kept = f"CASE WHEN {put} THEN {after} WHEN action = '{DELETE}' THEN if(timed, {marked}, {untimed}) END"
    return row_sum(f"count_if(action = '{INSERT}')", kept, lost)


def _with_action(plan: Plan, changes: DataFrame, keys: BatchKeys | None = None, *, hashed: bool) -> DataFrame:
    """Add `action`, what each change does to the table, null for nothing, and `present`, whether the key is in it.

    `keys` are those of the changes. With `hashed` add `_HASHES`, as far as the table can have such rows.
    """
    hashes = _hashes(plan) if hashed else {}
    if plan.present is None or keys is None:
        action = F.when(_has_key() & ~F.col("deleted") & ~is_late(plan, "time.commit_ts"), F.lit(INSERT))
        return changes.withColumns({"action": action, "present": F.lit(False), **hashes})
    row_columns = (F.col(sql_name(name)) for name in (*plan.evolution.shape.columns, *plan.contents.columns))
    there_is = F.col("there").isNotNull()
    present = there_is & ~F.col("there")[DELETED] if DELETED in plan.contents.columns else there_is
    same = reduce(and_, (F.col("there")[n].eqNullSafe(value) for n, value in _values(plan, F.col("after")).items()))
    action = (
        F.when(F.col("deleted"), F.when(present, F.lit(DELETE)))
        .when(~there_is, F.lit(INSERT))
        .when(~same, F.lit(UPDATE))
    )
    action = F.when(_has_key() & ~is_late(plan, "time.commit_ts"), action)
    joined = keys.with_rows(changes, plan.place.read().select(*row_columns), "there", plan.key)
    named = (column.alias(name) for name, column in {"action": action, "present": present, **hashes}.items())
    return joined.select(*changes.columns, *named)


def _with_deleted_rows(changes: DataFrame) -> DataFrame:
    """Let a delete whose row came in the same batch put that row, marked as deleted, into the table."""
    row, marked = F.col("last_row"), F.col("deleted") & F.col("last_row").isNotNull()
    commit_ts = F.when(F.col("timed"), F.col("time.commit_ts"))
    row = row.withField(f"metadata.{DELETED}", F.lit(True)).withField(f"metadata.{COMMIT_TS}", commit_ts)
    after = F.when(marked, row).otherwise(F.col("after"))
    return changes.withColumns({"after": after, "deleted": F.col("deleted") & ~marked}).drop("last_row")


def _without_repeated(changes: DataFrame) -> DataFrame:
    """Let changes that are `repeated` do nothing, but for the delete before one."""
    left = F.when(F.col("after_delete") & F.col("present"), F.lit(DELETE))
    return changes.withColumns(
        {
            "action": F.when(F.col("repeated"), left).otherwise(F.col("action")),
            "timed": F.col("timed") & ~(F.col("repeated") & F.col("after_delete")),
        }
    )


def _values(plan: Plan, after: Column) -> dict[str, Column]:
    """Return the value of each of the table's columns in an `after` (see `table_changes`)."""
    return {name: after[part][name] for part, name in _parts(plan)}


def _sql_values(plan: Plan) -> dict[str, str]:
    """Return the same of the column `after`, as SQL."""
    return {name: sql_column("after", part, name) for part, name in _parts(plan)}


def _parts(plan: Plan) -> list[tuple[str, str]]:
    parts = {"row": plan.evolution.shape.columns, "metadata": plan.contents.columns}
    return [(part, name) for part, names in parts.items() for name in names]


def _stored(plan: Plan) -> list[Column]:
    return [value.alias(name) for name, value in _values(plan, F.col("after")).items()]


def _has_key() -> Column:
    return F.col("key").isNotNull()


def _topics() -> Column:
    return F.when(_has_key(), F.array("first_place.topic", "last_place.topic"))


def _of_several_topics(plan: Plan, topics: Sequence[str]) -> list[str]:
    """Return a warning where tables with different names may have come together under one: Avro has no a-b."""
    if len(topics) < 2 or len(plan.sources) > 1:
        return []
    name = f"{plan.database}.{plan.table}"
    return [
        f"messages of several topics are named {name}: {', '.join(topics)}; if these are different tables, their rows "
        "are mixed now: remove this one, and replicate each topic to a place of its own"
    ]


def _execute(plan: Plan, actions: DataFrame, done: Row, keys: BatchKeys, where: Sequence[Column] = ()) -> None:
    """Do what `action` says to the table, where the aggregates of `_counts_of_actions` came to `done`.

    `keys` are those of the actions; of the table's rows, only those are concerned that fulfil `where`.
    """
    # Spark's own merge, as Delta's needs a plugin in a Spark Connect server. The table has no alias in it: the changes
    # are one column, of a name that no table has.
    change, stored = F.col(_CHANGE), plan.place.stored
    if done[UPDATE] or done[DELETE]:
        plan.place.before_updates()

    def there(name: str) -> Column:
        return F.col(sql_name(stored(name)))

    mine = keys.same(plan.row_key, there, lambda name: change["key"][name])
    values = {sql_column(stored(n)): value for n, value in _values(plan, change["after"]).items()}
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


def _append(
    plan: Plan, set_aside: Callable[[Checked], None], keys: TableKeys | None, proof: Proof | None
) -> TableReport:
    """Append the rows that came after those which an earlier run appended; the table's history remembers them."""
    saved = plan.place.note(_NOTE) if plan.present else None
    before: dict[str, dict[str, int]] = json.loads(saved) if saved else {}
    if keys and keys.of.again:
        return _append_again(plan, set_aside, keys, keys.of.again, before, proof)
    applied, last, resolved = (before.get(name, {}) for name in ("tidecast", "messages", "resolved"))
    line = F.concat_ws("/", "topic", F.col("partition").cast("string"))
    end = number_at(applied, line)
    checked = count(plan.all_changes)
    set_aside(checked)
    changes = plan.changes().where("fits")
    if keys and plan.is_new:
        keys.forget()  # the table was dropped: what comes again is to be in it
    elif keys:
        keys.tidy(plan.place.spark)
    lines = _lines(changes.withColumns({"line": line, "known": end}))
    for row in lines:
        _check_follows(row, applied, last, waited=row["line"] in resolved)
    with ExitStack() as kept:
        rows = _once(plan, changes)
        rows = _kept(with_row_key(rows) if keys else rows, kept)
        asked = rows.agg(*keys.asked()).first() if keys else None
        fresh = rows
        if keys and asked and (marked := keys.mark_repeated(rows, asked)):
            fresh = marked.where(~F.col("repeated"))
        # Of what waited for its resolved-ts offsets do not tell what was appended.
        waited = F.coalesce(F.col("commit_ts") > number_at(resolved, line), F.lit(False))
        fresh = _kept(fresh.where((F.col("offset") > F.coalesce(end, F.lit(-1))) | waited), kept)
        counts = (F.count("*").alias("upserted"), F.sum("repeats").alias("repeats"))
        effect = row_sum("count(1)", row_hash(_sql_values(plan))) if proof else []
        done = fresh.agg(*counts, *_count_unrepresentable(plan, F.col("after")), *effect).collect()[0]
        ends = {row["line"]: row["end"] for row in lines}
        reached = {at: max(ends.get(at, -1), applied.get(at, -1)) for at in {**applied, **ends}}
        last |= {row["line"]: row["last"] for row in lines if row["end"] == reached[row["line"]]}
        bound = keys.of.resolved if keys else None
        others = {at: ts for at, ts in resolved.items() if at not in ends}
        resolved = others if bound is None else {**others, **dict.fromkeys(ends, bound)}
        more = f', "resolved": {json.dumps(resolved)}' if resolved else ""
        more += f', "again": {json.dumps(before["again"])}' if "again" in before else ""
        note = f'{_NOTE}{json.dumps(reached)}, "messages": {json.dumps(last)}{more}}}'
        if plan.present is None:
            # Delta leaves no note on the commit that makes a table.
            with proof.writing(RowSum(), creates=True) if proof else nullcontext():
                plan.place.create(fresh.select(_stored(plan)).limit(0), plan.key, plan.notes, appended=True)
        if done["upserted"]:
            with _writing(proof, done):
                plan.place.append(fresh.select(_stored(plan)), note)
        if keys and asked:  # not before: a row that is known and was not appended would be lost
            keys.add(as_sent_again(rows), asked)
    warnings = _of_several_topics(plan, sorted({row["topic"] for row in lines}))
    deletes = 0 if plan.contents.is_log else sum(row["deletes"] for row in lines)
    if deletes:
        warnings.append(_deletes_of_no_key(deletes))
    if done["repeats"]:
        warnings.append(
            f"{done['repeats']} rows equal another of their commit-ts and were taken for repeats of it: without a key "
            "nothing tells them apart"
        )
    upserted = done["upserted"]
    left = checked.applicable - deletes - upserted
    return _report(plan, checked, upserted, 0, left, _unrepresentable_by_column(plan, done.asDict()), warnings)


def _append_again(
    plan: Plan,
    set_aside: Callable[[Checked], None],
    keys: TableKeys,
    again: Again,
    before: dict[str, Any],
    proof: Proof | None,
) -> TableReport:
    """Append the rows of dead letters, of which offsets do not tell whether they are in the table.

    A row that other messages of the topic show, too, is, where a batch took them: these are no dead letters. Where that
    is not known, it stays a dead letter. `before` is the table's note.
    """
    noted = before.get("again")
    checked = count(plan.all_changes)
    set_aside(checked)
    with ExitStack() as kept:
        changes = _kept(plan.changes().where("fits"), kept)
        letters, key = with_row_key(again.letters(changes)), F.col("key").alias("other")
        of_letters = letters.select(key).where("other IS NOT NULL").distinct()
        others = with_row_key(at_places(changes, again.places, "left_anti"))
        twins = others.join(of_letters, F.col("key") == F.col("other"), "left_semi")
        shown = again.with_doubt(twins).groupBy(key).agg(F.bool_and("doubtful").alias("doubtful"))
        same, shown = F.col("key") == F.col("other"), _kept(shown, kept)
        rows = _kept(with_row_key(_once(plan, again.letters(changes))).join(shown, same, "left_anti"), kept)
        doubtful = letters.join(shown.where("doubtful"), same, "left_semi")
        if not doubtful.isEmpty():
            again.keep([c.frame for c in plan.accepted], doubtful, _DOUBTFUL)
        asked = rows.agg(*keys.asked()).collect()[0]
        fresh = again.without_appended(rows, noted)
        if plan.present and (marked := keys.mark_repeated(fresh, asked)):
            fresh = marked.where(~F.col("repeated"))
        fresh = _kept(fresh, kept)
        effect = row_sum("count(1)", row_hash(_sql_values(plan))) if proof else []
        done = fresh.agg(
            F.count("*").alias("upserted"), *_count_unrepresentable(plan, F.col("after")), *effect
        ).collect()[0]
        if plan.present is None:
            with proof.writing(RowSum(), creates=True) if proof else nullcontext():
                plan.place.create(fresh.select(_stored(plan)).limit(0), plan.key, plan.notes, appended=True)
        if done["upserted"]:
            note = json.dumps({"tidecast": {}, **before, "again": again.begin(fresh, noted)})
            with _writing(proof, done):
                plan.place.append(fresh.select(_stored(plan)), note)
        keys.add(as_sent_again(rows), asked)
        deletes = 0 if plan.contents.is_log else again.letters(changes).where("deleted").count()
    upserted, warnings = done["upserted"], [_deletes_of_no_key(deletes)] if deletes else []
    lost = _unrepresentable_by_column(plan, done.asDict())
    return _report(plan, checked, upserted, 0, checked.applicable - upserted, lost, warnings)


def _deletes_of_no_key(deletes: int) -> str:
    return f"{deletes} deletes were not applied: the table has no key"


def _lines(changes: DataFrame) -> list[Row]:
    """Return what came of each partition: its first and last offset, and by which messages it can be told.

    In: the changes of a table, with `line`, the partition, and `known`, the offset up to which it was appended, null
    for a new one. Out: `topic`, `line`, `start`, `end`, `deletes`, `last` and `found` (the messages at `end` and at
    `known`), `twice` (an offset that several messages have).
    """
    message = F.col("message")
    placed = changes.groupBy("topic", "line", "known", "offset").agg(
        F.count_if("deleted").alias("deletes"),
        F.min(message).alias("message"),
        F.when(F.min(message) != F.max(message), F.col("offset")).alias("twice"),
    )
    read = placed.groupBy("topic", "line").agg(
        F.min("offset").alias("start"),
        F.max("offset").alias("end"),
        F.sum("deletes").alias("deletes"),
        F.max_by("message", "offset").alias("last"),
        F.max(F.when(F.col("offset") == F.col("known"), message)).alias("found"),
        F.min("twice").alias("twice"),
    )
    return read.collect()


def _check_follows(line: Row, applied: Mapping[str, int], last: Mapping[str, int], *, waited: bool) -> None:
    """Raise TableRefused unless offsets tell which rows of a partition were appended before.

    A topic that was made anew, or another one of the same name, has other messages at the offsets that are known; where
    rows `waited` for their resolved-ts, the commit-ts tells instead.
    """
    name, end, found = line["line"], applied.get(line["line"], -1), line["found"]
    if line["twice"] is not None:
        raise TableRefused(
            f"several messages of {name} have offset {line['twice']}, and without a key nothing else tells them apart",
            hint="give each line its offset, or replicate each file to a place of its own",
        )
    if line["start"] <= end and not waited and (found is None or found != last.get(name, found)):
        raise TableRefused(
            f"{name} does not have the message at offset {end} up to which it was appended to this table: it was made "
            "anew, or is another topic of this name",
            hint="replicate it to another place",
        )


def _count_unrepresentable(plan: Plan, after: Column) -> list[Column]:
    """Return a count for each column that may have values which the table cannot hold: that of these values."""
    return [F.count_if(F.get(after["lost"], n)).alias(f"unrepresentable {n}") for n in range(len(plan.doubtful))]


def _unrepresentable_by_column(plan: Plan, done: dict[str, int]) -> dict[str, int]:
    counts = {name: done[f"unrepresentable {n}"] for n, name in enumerate(plan.doubtful)}
    return {name: count for name, count in counts.items() if count}


def _checksum_warnings(plan: Plan, checked: Checked) -> list[str]:
    warnings = []
    if wrong := checked.verdicts[Verdict.MISMATCH]:
        zoned = any(
            source_type(c.data_type).kind is Kind.TIMESTAMP
            for change in plan.all_changes
            for c in change.schema.columns
        )
        maybe = ": is --tz the sender's time zone, in which its TIMESTAMP values are?" if zoned else ""
        warnings.append(misfits(wrong) + maybe)
    if checked.corrupted:
        damaged = counted(checked.corrupted, "row was damaged before it was", "rows were damaged before they were")
        warnings.append(f"{damaged} sent")
    return warnings


def _report(
    plan: Plan,
    checked: Checked,
    upserted: int = 0,
    deleted: int = 0,
    unchanged: int = 0,
    unrepresentable: dict[str, int] | None = None,
    warnings: list[str] | None = None,
) -> TableReport:
    reported = [*_checksum_warnings(plan, checked), *(warnings or [])]
    if plan.unfinished:
        reported.append(f"{len(plan.unfinished)} files of a write that was not finished lie in the folder of the table")
    if len(plan.sources) > 1 and SOURCES in plan.notes:
        reported.append(f"{', '.join(plan.sources)} become one table: of rows with equal keys only the newest stays")
    reported += [f"refused: {cause}" for cause in dict.fromkeys(cause for _, _, cause in plan.refused)]
    reported += [
        f"column {name}: null in rows that are older than it, its default is no literal" for name in plan.unfilled()
    ]
    reported += [
        f"column {name}: its default in rows of those source tables, too, that lack it, or had none then"
        for name in plan.lent()
    ]
    reported += [f"column {name}: kept, and null in new rows, as the source has it no longer" for name in plan.kept()]
    reported += [
        f"column {name}: was gone from the source and has come again; rows that no message shows keep what they had"
        for name in plan.evolution.again
    ]
    reported += [f"column {name}: null, its values are computed when read and in no message" for name in plan.virtual()]
    return TableReport(
        plan.database,
        plan.table,
        str(plan.place.path or plan.place.name),
        checked.total,
        upserted,
        deleted,
        unchanged,
        checked.refused,
        checked.verdicts,
        unrepresentable or {},
        tuple(reported),
        *checked.commit_ts,
    )
