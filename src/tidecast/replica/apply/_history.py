"""A table of versions: each row of the source has a row for each state that it was in, with the times that bound it.

A version begins with an insert or update of its key and ends with the next change of it. A change may come
late, long after others. So the table's versions of the batch's keys are turned back into the changes that made them.
The batch's changes are put among these, and the versions are computed again. Versions that stay the same are not
written.

A delete that ends nothing, as what it deleted has not come yet, is kept as a version that holds at no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from tidecast.replica.plan import Plan, next_truncation
from tidecast.replica.tables import COMMIT_TS, VALID_FROM, VALID_TO, Shape
from tidecast.spark import sql_name, union

INSERT, UPDATE, DELETE = "i", "u", "d"


def moments(changes: DataFrame, by: Sequence[str] = ("key",), also: Sequence[Column] = ()) -> DataFrame:
    """Return the state of each key after each commit-ts, and more aggregates over its changes.

    `by` are the columns that tell keys apart. In: what `newest` reads. Out: these and `at` bigint, null for changes
    that cannot be applied, as is `key`; `deleted`, `after`; `first_place`, `last_place` as in `newest`. At one
    commit-ts a delete comes before an insert or update.
    """
    at, place = F.when(F.col("key").isNotNull(), F.col("commit_ts")), F.struct("topic", "partition")
    order = F.struct(~F.col("deleted"), "offset")
    return changes.groupBy(*by, at.alias("at")).agg(
        F.max_by("deleted", order).alias("deleted"),
        F.max_by("after", order).alias("after"),
        F.min(place).alias("first_place"),
        F.max(place).alias("last_place"),
        *also,
    )


def open_since(commit_ts: int) -> Column:
    """Return whether a version, or the moment after it, matters to changes from a commit-ts on."""
    ends = F.col(sql_name(VALID_TO))
    return ends.isNull() | (ends >= F.lit(commit_ts))


def laid_out(plan: Plan, changes: DataFrame, since: int, deletes: DataFrame | None = None) -> DataFrame:
    """Return the versions of the keys of some changes, and what is to be done to the table.

    `changes` are `moments`, the first of them at `since`; `deletes` are others that came before there was a table:
    `key`, `commit_ts`. Out: `key` struct of `Plan.row_key`, `after` struct as in `table_changes`, the row of the table,
    null for one that shall go; `there`, the one that is in it; `action`: `INSERT`, `UPDATE`, `DELETE` or null; `fresh`
    boolean: one of the changes was not in the table, and `deleted`, whether that is a delete.
    """
    # Spark Connect sends a plan as one message, which may be a hundred levels deep: each step counts.
    no_row = F.lit(None).cast(_row_type(plan))
    told = [_told(changes, F.col("at"), F.col("deleted"), after=_row(plan, F.col("after")), there=no_row, known=False)]
    if deletes is not None:
        told.append(_told(deletes, F.col("commit_ts"), F.lit(True), after=no_row, there=no_row, known=True))
    elif plan.present is not None:
        told.append(_told_by_table(plan, changes.select("key").distinct(), since))
    here, upsert = ~F.col("known"), ~F.col("deleted")
    merged = (
        union(told)
        .groupBy("key", "at")
        .agg(
            F.bool_and("deleted").alias("deleted"),
            F.coalesce(
                F.first(F.when(here & upsert, F.col("after")), ignorenulls=True),
                F.first(F.when(upsert, F.col("there")), ignorenulls=True),
            ).alias("row"),
            F.first("there", ignorenulls=True).alias("there"),
            F.bool_or(here).alias("mine"),
            F.bool_or("known").alias("known"),
            F.bool_or(F.col("known") & upsert).alias("known_upsert"),
        )
    )
    by_time = Window.partitionBy("key").orderBy("at")
    ends = F.coalesce(~F.lag("deleted").over(by_time), F.lit(False))
    until = F.lead("at").over(by_time)
    until = F.least(until, next_truncation(plan.truncated, F.col("at"))) if plan.truncated.at else until
    after = F.when(upsert, _version(until)).when(~ends, F.coalesce("there", _tombstone(plan)))
    return merged.withColumn("after", F.when(F.col("key").isNotNull(), after)).select(
        F.struct(*(F.col("key")[name].alias(name) for name in plan.key), F.col("at").alias(VALID_FROM)).alias("key"),
        "after",
        _action(plan).alias("action"),
        (F.col("mine") & F.col("key").isNotNull() & _is_news(plan)).alias("fresh"),
        "deleted",
        "there",
    )


def _told_by_table(plan: Plan, keys: DataFrame, since: int) -> DataFrame:
    """Return the changes that made the table's versions of some keys, as far as they matter to changes since then."""
    there = plan.place.read().where(open_since(since)).select(_row(plan).alias("there"))
    key, row = F.col("key"), F.col("there.row")
    same = reduce(and_, (row[name].eqNullSafe(key[name]) for name in plan.key))
    there = there.join(keys, same, "left_semi")
    begins, ends = (F.col("there.metadata")[name] for name in (VALID_FROM, VALID_TO))
    no_row = F.lit(None).cast(_row_type(plan))
    began = _struct(at=begins, deleted=begins.eqNullSafe(ends), there=F.col("there"))
    ended = _struct(at=ends, deleted=F.lit(True), there=no_row)
    ends_by_change = ends > begins
    if plan.truncated.at:  # which are no changes of the key: `laid_out` knows them
        ends_by_change &= ~ends.isin(*plan.truncated.at)
    moments_of_it = F.when(ends_by_change, F.array(began, ended)).otherwise(F.array(began))
    mine = _struct(**{name: row[name] for name in plan.key}).alias("key")
    told = there.select(mine, F.explode(moments_of_it).alias("moment"))
    moment = F.col("moment")
    return _told(told, moment["at"], moment["deleted"], after=no_row, there=moment["there"], known=True)


def _told(frame: DataFrame, at: Column, deleted: Column, *, after: Column, there: Column, known: bool) -> DataFrame:
    """Return changes of keys as `laid_out` unites them; `there` is the table's version that begins then."""
    told = {"at": at, "deleted": deleted, "after": after, "there": there, "known": F.lit(known)}
    return frame.select("key", *(column.alias(name) for name, column in told.items()))


def _struct(**columns: Column) -> Column:
    return F.struct(*(column.alias(name) for name, column in columns.items()))


def _row(plan: Plan, after: Column | None = None) -> Column:
    """Return an `after` (see `table_changes`), or a row of the table, in its two parts."""

    def part(name: str) -> Column:
        columns = ((n, F.col(sql_name(n)) if after is None else after[name][n]) for n in _parts(plan)[name])
        return F.struct(*(column.alias(n) for n, column in columns))

    row = _struct(**{name: part(name) for name in _parts(plan)})
    return row if after is None else F.when(after.isNotNull(), row)


def _row_type(plan: Plan) -> T.StructType:
    return T.StructType([T.StructField(name, Shape(columns).struct) for name, columns in _parts(plan).items()])


def _parts(plan: Plan) -> dict[str, Mapping[str, T.DataType]]:
    return {"row": plan.evolution.shape.columns, "metadata": plan.contents.columns}


def _version(until: Column) -> Column:
    row = F.col("row")
    return row.withField(f"metadata.{VALID_FROM}", F.col("at")).withField(f"metadata.{VALID_TO}", until)


def _tombstone(plan: Plan) -> Column:
    """Return what stands for a delete that ends nothing: the key, and that it holds at no time."""
    values = {name: F.col("key")[name] for name in plan.key}
    values |= dict.fromkeys((VALID_FROM, VALID_TO, COMMIT_TS), F.col("at"))
    return _struct(
        **{
            part: F.struct(*(values.get(n, F.lit(None)).cast(kind).alias(n) for n, kind in columns.items()))
            for part, columns in _parts(plan).items()
        }
    )


def _action(plan: Plan) -> Column:
    """Return what brings `there` to `after`."""
    there, after = F.col("there"), F.col("after")
    return (
        F.when(after.isNull(), F.when(there.isNotNull(), F.lit(DELETE)))
        .when(there.isNull(), F.lit(INSERT))
        .when(_differ(plan), F.lit(UPDATE))
    )


def _is_news(plan: Plan) -> Column:
    """Return whether the table did not show what happened then."""
    return F.when(F.col("deleted"), ~F.col("known")).otherwise(~F.col("known_upsert") | _differ(plan, but=VALID_TO))


def _differ(plan: Plan, but: str = "") -> Column:
    there, after = F.col("there"), F.col("after")
    ours = (~there["metadata"][n].eqNullSafe(after["metadata"][n]) for n in plan.contents.columns if n != but)
    return reduce(or_, ours, ~there["row"].eqNullSafe(after["row"]))
