"""The newest change of each key, and rows that came more than once."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window


def newest(changes: DataFrame, *, has_commit_ts: bool, also: Sequence[Column] = ()) -> DataFrame:
    """Return the newest change of each key, and what else each key's changes shall be asked for, as aggregates.

    In: `key` struct, `deleted` boolean, `after` (anything), `topic`, `partition`, `offset`, `commit_ts`. Out: `key`,
    `deleted`, `after`, and the first and the last of the places, structs of `topic` and `partition`, that the key's
    changes came from: `first_place`, `last_place`.

    `has_commit_ts`: every change has its commit-ts, which decides; at one commit-ts a delete comes before an insert or
    update. Else the partition's order does: a delete, which has no commit-ts, ends what came before it, and between two
    deletes the commit-ts decides where there is one, so that a replay that ends halfway sets nothing back.
    Source: Changefeeds, delivery.
    """
    if has_commit_ts:
        order = F.struct("commit_ts", ~F.col("deleted"), "offset")
        aged = changes
    else:
        so_far = Window.partitionBy("key").orderBy("offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
        aged = changes.withColumn("generation", F.count_if("deleted").over(so_far))
        order = F.struct("generation", "commit_ts", "offset")
    place = F.struct("topic", "partition")
    grouped = aged.groupBy("key").agg(
        F.max_by(F.struct("deleted", "after"), order).alias("newest"),
        F.min(place).alias("first_place"),
        F.max(place).alias("last_place"),
        *also,
    )
    return grouped.select("newest.deleted", "newest.after", *(name for name in grouped.columns if name != "newest"))


def without_repeats(rows: DataFrame) -> DataFrame:
    """Return rows of a table without a key, each once, although a topic repeats them.

    In: `row` struct, `topic`, `partition`, `offset`, `commit_ts`. TiCDC repeats what follows its checkpoint, at later
    offsets: a row of the same commit-ts and content. The earliest offset stays. Equal rows that one transaction
    inserted look the same, and count once: column `repeats` is how many went with the one that stays. Without
    commit-ts only a message read twice can be told.
    """
    once = rows.dropDuplicates(["topic", "partition", "offset"])
    same = Window.partitionBy("topic", "commit_ts", "row")
    first = F.row_number().over(same.orderBy("offset", "partition")) == 1
    repeats = F.when(F.col("commit_ts").isNotNull(), F.count("*").over(same) - 1)
    return once.withColumns({"first": first, "repeats": repeats}).where("first OR commit_ts IS NULL").drop("first")
