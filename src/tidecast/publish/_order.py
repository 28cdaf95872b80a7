"""The stage that puts messages in order, and joins to them what took no part in that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast.model import Events, Op
from tidecast.protocols import Message
from tidecast.publish._rows import MOVED
from tidecast.spark import reused

SEQUENCE = "struct<at:bigint,late:boolean,offset:bigint,partition:int,moved:bigint>"


def row_sequence(events: Events, *, moved: bool, alone: bool) -> Column:
    """Return what orders the messages of one topic and partition: a struct (see `SEQUENCE`).

    Rows of several partitions of the source leave by their commit-ts, as schema changes and watermarks do: a partition
    need not have its tables, or what it repeats, in that order. A row without one stays behind the highest before it.
    At one commit-ts the inserts that end a partition's transaction come last. TiCDC puts the insert half of a split
    update there, whose delete may lie in another partition.

    With `moved` updates were split here, and there are inserts which leave with their transaction's end; where nothing
    tells that end, right behind their delete. With `alone` all rows are of one partition, and nothing leaves beside
    them: its offsets are their order.

    Reads the columns `op`, `plan`, `moved` and `source`, a struct of the record's place and its commit-ts.
    """
    return _row_sequence(ordered=events.ordered, moved=moved, alone=alone)


@reused()
def _row_sequence(*, ordered: bool, moved: bool, alone: bool) -> Column:
    offset, partition = F.col("source.offset"), F.col("source.partition")
    if not moved and (ordered or alone):
        return F.struct(offset, F.lit(True), F.lit(0), F.lit(0), F.lit(0)).cast(SEQUENCE)
    commit_ts, origin = F.col("source.commit_ts"), () if ordered else ("source.topic", "source.partition")
    transaction = Window.partitionBy(*origin, "plan", "source.commit_ts")
    end = F.when(F.col(MOVED) & commit_ts.isNotNull(), F.max(offset).over(transaction)).otherwise(offset)
    behind = F.when(F.col(MOVED), offset + 1).otherwise(0)
    if ordered:
        return F.struct(end, F.lit(True), F.lit(0), F.lit(0), behind).cast(SEQUENCE)
    so_far = Window.partitionBy(*origin).orderBy("source.offset").rowsBetween(Window.unboundedPreceding, 0)
    at = F.coalesce(commit_ts, F.max("source.commit_ts").over(so_far), F.lit(0))
    last_other = F.max(F.when(F.col("op") != Op.CREATE, offset)).over(transaction)
    closing = F.col(MOVED) | ((F.col("op") == Op.CREATE) & (offset > F.coalesce(last_other, F.lit(-1))))
    # Rows without one may follow an insert of their key: nothing then tells a transaction's end.
    closing &= ~F.max(commit_ts.isNull()).over(Window.partitionBy(*origin))
    return F.struct(at, closing, end, partition, behind).cast(SEQUENCE)


def joining(tails: Sequence[Message]) -> Callable[[DataFrame], DataFrame] | None:
    """Return what joins to keys and values the tail of their table version, None where no tail is there.

    `tails` are those of keys and values by the number of the version, which is in the column `plan`; it is null for a
    message that is no row's and has no tail.
    """
    if not any(part for tail in tails for part in tail):
        return None

    keys, values = ([tail[n] or b"" for tail in tails] for n in range(2))
    return lambda frame: frame.withColumns({"key": _joined("key", keys), "value": _joined("value", values)})


def _joined(name: str, tails: Sequence[bytes]) -> Column:
    known = F.array(*map(F.lit, tails))
    return F.concat(F.col(name), F.when(F.col("plan").isNull(), b"").otherwise(F.get(known, F.col("plan"))))
