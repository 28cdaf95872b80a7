"""One table's changes as rows: of a table without a key, or of a log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidecast._errors import TableRefused
from tidecast.replica._report import TableReport
from tidecast.replica.apply._changes import changes_of
from tidecast.replica.apply._reports import of_several_topics, report_of, unrepresentable_by_column
from tidecast.replica.apply._rows import comes_late, count_unrepresentable, keep, sql_values_of, stored_columns, writing
from tidecast.replica.plan import Plan, ended
from tidecast.replica.settle import IDENTITY, Checked, count, counted_in, without_repeats
from tidecast.replica.state import (
    Again,
    Proof,
    RowSum,
    TableKeys,
    as_sent_again,
    at_places,
    row_hash,
    row_sum,
    with_row_key,
)
from tidecast.replica.tables import OP
from tidecast.spark import number_at
from tidecast.topics import sequence_name

_NOTE = '{"tidecast": '
_DOUBTFUL = (
    "the topic has the row again after a watermark that covers it, and nothing tells whether a batch appended that: "
    "compare tells whether the table lacks it"
)


def once_each(plan: Plan, changes: DataFrame) -> DataFrame:
    """Return the changes that are rows of a table without a key, or of a log, each once; see `without_repeats`."""
    log = plan.contents.is_log
    sent = IDENTITY[1:]  # of a row that is masked, the table does not show everything
    op = (F.col("after.metadata")[OP].alias("op"),) if log else ()
    same = F.struct("after.row", *op, *sent)
    appended = changes if log else ended(plan.truncated, plan.contents, changes, "commit_ts").where(~F.col("deleted"))
    appended = appended.where(~comes_late(plan, "commit_ts"))
    return without_repeats(appended.select("*", same.alias("row")))


def append(
    plan: Plan, set_aside: Callable[[Checked], None], keys: TableKeys | None, proof: Proof | None
) -> TableReport:
    """Append the rows that came after those which an earlier run appended; the table's history remembers them."""
    saved = plan.place.note(_NOTE) if plan.present else None
    before: dict[str, dict[str, int]] = json.loads(saved) if saved else {}
    if keys and keys.of.again:
        return _append_again(plan, set_aside, keys, keys.of.again, before, proof)
    applied, last, resolved = (before.get(name, {}) for name in ("tidecast", "messages", "resolved"))
    line = sequence_name()
    end = number_at(applied, line)
    with ExitStack() as kept:
        changes = keep(changes_of(plan), kept)
        checked = counted_in(changes) + count(plan.rows.set_aside)
        set_aside(checked)
        changes = changes.where("fits")
        if keys and plan.is_new:
            keys.forget()  # the table was dropped: what comes again is to be in it
        elif keys:
            keys.tidy(plan.place.spark)
        lines = _lines(changes.withColumns({"line": line, "known": end}))
        for row in lines:
            _check_follows(row, applied, last, waited=row["line"] in resolved)
        rows = once_each(plan, changes)
        rows = keep(with_row_key(rows) if keys else rows, kept)
        asked = rows.agg(*keys.of.asked()).first() if keys else None
        fresh = rows
        if keys and asked and (marked := keys.mark_repeated(rows, asked)):
            fresh = marked.where(~F.col("repeated"))
        # Offsets do not show which of the rows that waited for their resolved-ts were appended.
        waited = F.coalesce(F.col("commit_ts") > number_at(resolved, line), F.lit(False))
        fresh = keep(fresh.where((F.col("offset") > F.coalesce(end, F.lit(-1))) | waited), kept)
        counts = (F.count("*").alias("upserted"), F.sum("repeats").alias("repeats"))
        effect = row_sum("count(1)", row_hash(sql_values_of(plan))) if proof else []
        done = fresh.agg(*counts, *count_unrepresentable(len(plan.doubtful)), *effect).collect()[0]
        bound = keys.of.resolved if keys else None
        note = _note_after(before, lines, bound)
        if plan.present is None:
            # Delta leaves no note on the commit that makes a table.
            with proof.writing(RowSum(), creates=True) if proof else nullcontext():
                plan.place.create(fresh.select(stored_columns(plan)).limit(0), plan.key, plan.notes, appended=True)
        if done["upserted"]:
            with writing(proof, done):
                plan.place.append(fresh.select(stored_columns(plan)), note)
        if keys and asked:  # not before: a row that is known and was not appended would be lost
            keys.add(as_sent_again(rows), asked)
    warnings = of_several_topics(plan, sorted({row["topic"] for row in lines}))
    deletes, updates = (0 if plan.contents.is_log else sum(row[n] for row in lines) for n in ("deletes", "updates"))
    warnings += _of_no_key(deletes, updates)
    if keys is None or keys.of.batch <= 1:
        warnings += _of_gone(before.get("first", {}), lines)
    if done["repeats"]:
        warnings.append(
            f"{done['repeats']} rows equal another of their commit-ts and were taken for repeats of it: without a key "
            "nothing tells them apart"
        )
    upserted = done["upserted"]
    left = checked.applicable - deletes - upserted
    return report_of(plan, checked, upserted, 0, left, unrepresentable_by_column(plan, done.asDict()), warnings)


def _note_after(before: Mapping[str, Any], lines: Sequence[Row], bound: int | None) -> str:
    """Return what the table's history remembers after these lines were appended.

    `before` is what it remembered, and `bound` the resolved-ts above which rows wait.
    """
    applied, last, resolved, first = (before.get(name, {}) for name in ("tidecast", "messages", "resolved", "first"))
    ends = {row["line"]: row["end"] for row in lines}
    first = {row["line"]: row["start"] for row in lines if row["line"] not in applied} | first
    reached = {at: max(ends.get(at, -1), applied.get(at, -1)) for at in {**applied, **ends}}
    last = last | {row["line"]: row["last"] for row in lines if row["end"] == reached[row["line"]]}
    others = {at: ts for at, ts in resolved.items() if at not in ends}
    resolved = others if bound is None else {**others, **dict.fromkeys(ends, bound)}
    more = f', "resolved": {json.dumps(resolved)}' if resolved else ""
    more += f', "again": {json.dumps(before["again"])}' if "again" in before else ""
    more += f', "first": {json.dumps(first)}' if first else ""
    return f'{_NOTE}{json.dumps(reached)}, "messages": {json.dumps(last)}{more}}}'


def _of_gone(first: Mapping[str, int], lines: Sequence[Row]) -> Iterator[str]:
    """Warn, with the first batch of a checkpoint, that the topic does not have all that was appended to a table.

    `first` are the offsets of the table's first row of each partition.
    """
    starts = {row["line"]: row["start"] for row in lines}
    if gone := sorted(line for line, offset in first.items() if line not in starts or offset < starts[line]):
        yield (
            f"the table has rows of messages of {', '.join(gone)} that were not found, and no checkpoint remembers "
            "them: if they are sent again, the table gets them twice"
        )


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
    with ExitStack() as kept:
        changes = keep(changes_of(plan), kept)
        checked = counted_in(changes) + count(plan.rows.set_aside)
        set_aside(checked)
        changes = changes.where("fits")
        letters, key = with_row_key(again.letters(changes)), F.col("key").alias("other")
        of_letters = letters.select(key).where("other IS NOT NULL").distinct()
        others = with_row_key(at_places(changes, again.places, "left_anti"))
        twins = others.join(of_letters, F.col("key") == F.col("other"), "left_semi")
        shown = again.with_doubt(twins).groupBy(key).agg(F.bool_and("doubtful").alias("doubtful"))
        same, shown = F.col("key") == F.col("other"), keep(shown, kept)
        rows = keep(with_row_key(once_each(plan, again.letters(changes))).join(shown, same, "left_anti"), kept)
        doubtful = letters.join(shown.where("doubtful"), same, "left_semi")
        if not doubtful.isEmpty():
            again.keep([c.frame for c in plan.rows.accepted], doubtful, _DOUBTFUL)
        asked = rows.agg(*keys.of.asked()).collect()[0]
        fresh = again.without_appended(rows, noted)
        if plan.present and (marked := keys.mark_repeated(fresh, asked)):
            fresh = marked.where(~F.col("repeated"))
        fresh = keep(fresh, kept)
        effect = row_sum("count(1)", row_hash(sql_values_of(plan))) if proof else []
        counts = (F.count("*").alias("upserted"), *count_unrepresentable(len(plan.doubtful)))
        done = fresh.agg(*counts, *effect).collect()[0]
        if plan.present is None:
            with proof.writing(RowSum(), creates=True) if proof else nullcontext():
                plan.place.create(fresh.select(stored_columns(plan)).limit(0), plan.key, plan.notes, appended=True)
        if done["upserted"]:
            note = json.dumps({"tidecast": {}, **before, "again": again.begin(fresh, noted)})
            with writing(proof, done):
                plan.place.append(fresh.select(stored_columns(plan)), note)
        keys.add(as_sent_again(rows), asked)
        told = (F.count_if("deleted"), F.count_if("updated"))
        deletes, updates = (0, 0) if plan.contents.is_log else again.letters(changes).agg(*told).collect()[0]
    upserted, warnings = done["upserted"], [*_of_no_key(deletes, updates)]
    lost = unrepresentable_by_column(plan, done.asDict())
    return report_of(plan, checked, upserted, 0, checked.applicable - upserted, lost, warnings)


def _of_no_key(deletes: int, updates: int) -> Iterator[str]:
    if deletes:
        yield f"{deletes} deletes were not applied: the table has no key"
    if updates:
        yield (
            f"{updates} updates were appended as further rows: the table has no key (if the source's has one, name it "
            "in [[tables]] of --config, and begin with a new table)"
        )


def _lines(changes: DataFrame) -> list[Row]:
    """Return the first and last offset of each partition, and the messages that identify it.

    In: the changes of a table, with `line`, the partition, and `known`, the offset up to which it was appended, null
    for a new one. Out: `topic`, `line`, `start`, `end`, `deletes`, `updates`, `last` and `found` (the messages at `end`
    and at `known`), `twice` (an offset that several messages have).
    """
    message = F.col("message")
    placed = changes.groupBy("topic", "line", "known", "offset").agg(
        F.count_if("deleted").alias("deletes"),
        F.count_if("updated").alias("updates"),
        F.min(message).alias("message"),
        F.when(F.min(message) != F.max(message), F.col("offset")).alias("twice"),
    )
    read = placed.groupBy("topic", "line").agg(
        F.min("offset").alias("start"),
        F.max("offset").alias("end"),
        F.sum("deletes").alias("deletes"),
        F.sum("updates").alias("updates"),
        F.max_by("message", "offset").alias("last"),
        F.max(F.when(F.col("offset") == F.col("known"), message)).alias("found"),
        F.min("twice").alias("twice"),
    )
    return read.collect()


def _check_follows(line: Row, applied: Mapping[str, int], last: Mapping[str, int], *, waited: bool) -> None:
    """Raise TableRefused unless offsets tell which rows of a partition were appended before.

    A topic that was re-created, or another one of the same name, has other messages at the known offsets. If rows
    `waited` for their resolved-ts, the commit-ts decides instead.
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
