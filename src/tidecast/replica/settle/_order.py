"""The newest change of each key, and rows that came more than once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window


def newest(
    changes: DataFrame,
    *,
    by: Sequence[str] = ("key",),
    has_commit_ts: bool,
    also: Sequence[Column] = (),
    with_last_row: bool = False,
) -> DataFrame:
    """Return the newest change of each key, and more aggregates over its changes.

    `by` are the columns that tell keys apart. In: these, `key` struct, `deleted` boolean, `after` (anything), `topic`,
    `partition`, `offset`, `commit_ts`. Out: the former, `deleted`, `after`; `first_place` and `last_place`, the first
    and the last of the places, structs of `topic` and `partition`, that the key's changes came from; and, for
    `AppliedKeys`:

    - `time` struct, by which changes of a key are compared: `commit_ts`, the highest that was read, and `later`
      boolean, whether it comes after another change of this commit-ts;
    - `timed` boolean: the newest change itself has that commit-ts;
    - `after_delete` boolean: it follows a delete that has none.

    `with_last_row` adds `last_row`, the newest `after` of those that are no deletes, null where there is none.

    `has_commit_ts`: every change has its commit-ts, which decides; at one commit-ts a delete comes before an insert or
    update. Else the partition's order does: a delete, which has no commit-ts, ends what came before it, and what
    follows is newer, unless its commit-ts is lower than one before the delete: then it is a repetition.
    Source: Changefeeds, delivery.
    """
    placed = _by_commit_ts(changes) if has_commit_ts else _by_offset(changes, by)
    place = F.struct("topic", "partition")
    last_row = F.max_by("after", F.when(F.col("counts") & ~F.col("deleted"), F.col("order")))
    grouped = placed.groupBy(*by).agg(
        *([last_row.alias("last_row")] if with_last_row else ()),
        F.max_by(F.struct("deleted", "after", "time", "timed", "after_delete"), "order").alias("newest"),
        F.min(place).alias("first_place"),
        F.max(place).alias("last_place"),
        *also,
    )
    return grouped.select("newest.*", *(name for name in grouped.columns if name != "newest"))


def _by_commit_ts(changes: DataFrame) -> DataFrame:
    time = F.struct("commit_ts", (~F.col("deleted")).alias("later"))
    return changes.withColumns(
        {
            "time": time,
            "timed": F.lit(True),
            "after_delete": F.lit(False),
            "counts": F.lit(True),
            "order": F.struct(time, "offset"),
        }
    )


def _by_offset(changes: DataFrame, by: Sequence[str]) -> DataFrame:
    so_far = Window.partitionBy(*by).orderBy("offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    deleted, commit_ts, highest = F.col("deleted"), F.col("commit_ts"), F.col("highest")
    placed = changes.withColumns(
        {"highest": F.max("commit_ts").over(so_far), "generation": F.count_if("deleted").over(so_far)}
    )
    # Nothing tells whether a delete is new or a repetition, so it counts. As a repetition may begin with it, what has
    # the commit-ts of the last row before it counts, too.
    rank = F.when(deleted, 1).when(commit_ts < highest, 0).otherwise(2)
    time = F.struct(highest.alias("commit_ts"), F.lit(False).alias("later"))
    return placed.select(
        *changes.columns,
        time.alias("time"),
        F.coalesce(commit_ts == highest, F.lit(False)).alias("timed"),
        (~deleted & (F.col("generation") > 0)).alias("after_delete"),
        (rank > 0).alias("counts"),
        F.struct("generation", rank, F.coalesce(commit_ts, highest), "offset").alias("order"),
    )


def without_repeats(rows: DataFrame) -> DataFrame:
    """Return rows of a table without a key, each once, although a topic repeats them.

    In: `row` struct, `topic`, `partition`, `offset`, `commit_ts`. TiCDC repeats what follows its checkpoint, at later
    offsets: a row of the same commit-ts and content. The earliest offset stays. Equal rows that one transaction
    inserted look the same, and count once: column `repeats` is how many went with the one that stays. Without
    commit-ts, only a message that is read twice is found; the rows of one message differ.
    """
    once = rows.dropDuplicates(["topic", "partition", "offset", "row"])
    same = Window.partitionBy("topic", "commit_ts", "row")
    first = F.row_number().over(same.orderBy("offset", "partition")) == 1
    repeats = F.when(F.col("commit_ts").isNotNull(), F.count("*").over(same) - 1)
    return once.withColumns({"first": first, "repeats": repeats}).where("first OR commit_ts IS NULL").drop("first")
