"""A commit-ts for deletes that have none, from the rows around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast.model._events import Events, TableChanges
from tidecast.spark import number_at, reused, union

_PLACE = ("topic", "partition", "offset")


def with_commit_ts(events: Events, before: Mapping[str, int] | None = None) -> Events:
    """Return events whose deletes have a commit-ts, as far as other rows tell one.

    Avro's deletes have none, while readers of other protocols keep the row with the highest one of each key. TiCDC
    sends a key's changes in order. So a delete gets one above that of the row before it with the same key, and none
    below that of its table's row before it in its partition; where it is the first there, that of the row after it; and
    where it is alone, one above what `before` tells, the highest commit-ts of each partition (see `filter_commit_ts`)
    in earlier batches. A source without any commit-ts stays as it is. The rows are read once for that.
    """
    if not any(table.of_key for table in events.tables):
        return events
    place = F.lit("") if events.ordered else F.concat_ws("/", "topic", "partition")
    last = number_at(before or {}, place) + 1

    def timed(table: TableChanges) -> TableChanges:
        if not table.of_key:
            return table
        mine = [other.frame for other in events.tables if other.schema.name == table.schema.name]
        rows = union([frame.select(*_PLACE, "key", "commit_ts") for frame in mine], events.tasks)
        surrounded = rows.select("*", _told().alias("told")).where("commit_ts IS NULL")
        # A message may be there twice, and files name no partition.
        times = surrounded.groupBy(F.struct(*_PLACE).alias("place")).agg(F.max(F.coalesce("told", last)).alias("told"))
        joined = table.frame.join(times, F.struct(*_PLACE).eqNullSafe(F.col("place")), "left")
        found = F.coalesce("commit_ts", "told").alias("commit_ts")
        columns = [found if name == "commit_ts" else F.col(name) for name in table.frame.columns]
        return replace(table, source=joined.select(*columns))

    return replace(events, tables=tuple(map(timed, events.tables)))


@reused()
def _told() -> Column:
    """Return the bounds of a row's commit-ts by the rows around it."""
    commit_ts, partition = F.col("commit_ts"), Window.partitionBy("topic", "partition").orderBy("offset")
    before = (Window.unboundedPreceding, -1)
    same_key = F.last(commit_ts, True).over(
        Window.partitionBy("topic", "partition", "key").orderBy("offset").rowsBetween(*before)
    )
    any_key = F.last(commit_ts, True).over(partition.rowsBetween(*before))
    after = F.first(commit_ts, True).over(partition.rowsBetween(1, Window.unboundedFollowing))
    return F.coalesce(F.greatest(same_key + 1, any_key), after)
