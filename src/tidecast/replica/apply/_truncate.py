"""Truncations carried out on the table that is there: its older rows are removed, marked as deleted, or ended."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast.replica.plan import Plan, Truncate, Truncations, keeps_rows, tells_age
from tidecast.replica.state import AppliedKeys, Proof, RowSum, TableKeys, measured
from tidecast.replica.tables import COMMIT_TS, DELETED, VALID_FROM, VALID_TO, Contents, Shape
from tidecast.replica.targets import TargetTable
from tidecast.spark import sql_column, sql_name

_CHANGE = "_tidecast change"


def placed(
    found: Truncations,
    known: Truncations,
    place: TargetTable,
    there: Shape,
    contents: Contents,
    keys: TableKeys | None,
) -> Truncations:
    """Return the truncations `found` as far as they can be carried out, else those `known` before.

    `keys` are those that the batches before have applied, None where others may have written to the table, too. One
    that has newer rows already, which another partition brought, is truncated and not replaced.
    """
    if keeps_rows(contents):
        return found
    last = found.dropped if found.replaces else found.last
    if tells_age(contents):
        newer = found.replaces and not place.read().where(F.col(COMMIT_TS) >= F.lit(last)).isEmpty()
    elif keys is None:
        cause = "nothing tells which of its rows are older: replicate with one --checkpoint, or with --metadata"
        return replace(known, objection=f"{cause} {COMMIT_TS}")
    elif not keys.remembers_since(last):
        return replace(known, objection="it is so old that nothing tells any more which rows are older")
    else:
        newer = keys.newest >= last
        if newer and not there.key:
            cause = "newer rows were appended already, and nothing tells which these are: replicate with --metadata"
            return replace(known, objection=f"{cause} {COMMIT_TS}")
    if newer and found.replaces:
        return replace(found, dropped=known.dropped, due=found.at, replaces=False)
    return found


def truncate(plan: Plan, action: Truncate, applied: AppliedKeys | None, proof: Proof | None) -> None:
    """Carry out truncations.

    The table remembers it afterwards: a run that ends between the two does it once more, and finds nothing left.
    """
    for at in action.at:
        test, changes = _test(plan.contents, at), _changes(plan.contents, at)
        if not test and (newer := _newer(plan, at, applied)) is not None:
            _remove_others(plan, newer, proof)
            continue
        rows = plan.place.read()
        rows = rows.where(test.format(*map(sql_name, _COLUMNS))) if test else rows
        effect = RowSum()
        if proof:
            effect -= (gone := measured(rows))
            if changes:
                effect += measured(rows.withColumns({name: F.expr(value) for name, value in changes.items()}))
            if not gone.rows:
                continue
        with proof.writing(effect) if proof else nullcontext():
            plan.place.change_rows(test.format(*(sql_column(plan.place.stored(n)) for n in _COLUMNS)), changes)
    plan.place.remember(plan.truncated.notes)


_COLUMNS = (COMMIT_TS, DELETED, VALID_FROM, VALID_TO)


def _test(contents: Contents, at: int) -> str:
    """Return which rows a truncation concerns, by `_COLUMNS`; empty where these do not tell."""
    if contents.is_history:
        return f"{{2}} < {at}L AND ({{3}} IS NULL OR {{3}} > {at}L)"
    if not tells_age(contents):
        return ""
    older = f"({{0}} IS NULL OR {{0}} < {at}L)"
    return f"NOT {{1}} AND {older}" if DELETED in contents.columns else older


def _changes(contents: Contents, at: int) -> Mapping[str, str]:
    """Return the values that these rows get; none where they are removed."""
    if contents.is_history:
        return {VALID_TO: f"{at}L"}
    return {DELETED: "true", COMMIT_TS: f"{at}L"} if keeps_rows(contents) else {}


def _newer(plan: Plan, at: int, applied: AppliedKeys | None) -> DataFrame | None:
    """Return the keys, a column for each, that are known to have been brought to something newer; None for none."""
    if applied is None or not plan.merges or plan.present is None:
        return None
    key = plan.present_key
    keys = applied.of(*plan.name, key)
    return keys.since(plan.place.spark, at) if keys.newest >= at else None


def _remove_others(plan: Plan, newer: DataFrame, proof: Proof | None) -> None:
    """Remove the rows whose key is not among those."""
    names = plan.present_key.fieldNames()
    there = plan.place.read()
    same = reduce(and_, (there[sql_name(n)].eqNullSafe(newer["key"][n]) for n in names))
    older = there.join(newer, same, "left_anti")
    gone = measured(older) if proof else None
    if gone is not None and not gone.rows:
        return
    with proof.writing(RowSum() - gone) if proof and gone is not None else nullcontext():
        key = F.struct(*(F.col(sql_name(n)).alias(n) for n in names))
        found = (F.col(sql_name(plan.place.stored(n))).eqNullSafe(F.col(_CHANGE)[n]) for n in names)
        merge = older.select(key.alias(_CHANGE)).mergeInto(plan.place.name, reduce(and_, found))
        merge.whenMatched().delete().merge()
