"""Which events of a batch are a changefeed's: those after its start-ts and up to its target-ts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from tidecast.model import Events, Op, TableChanges
from tidecast.spark import union

_LAST = (1 << 63) - 1


def filter_commit_ts(events: Events, start_ts: int, target_ts: int) -> tuple[Events, dict[str, int]]:
    """Return the events after one commit-ts and up to another, 0 for no end, and each partition's highest commit-ts.

    Rows without a commit-ts, which plain Avro has, all pass. The rows are read once for that.
    """
    end = min(target_ts or _LAST, _LAST)

    def within(ts: Column) -> Column:
        return F.coalesce((ts > start_ts) & (ts <= end), F.lit(True))

    counts = _counts(events, within)
    highest: dict[str, int] = {}
    for row in counts:
        highest[row["place"]] = max(highest.get(row["place"], 0), row["highest"] or 0)
    tables = []
    for number, table in enumerate(events.tables):
        mine = [row for row in counts if row["table"] == number and row["rows"]]
        if mine:
            tables.append(_cut(table, within, mine, positions=events.position is not None))
    watermarks = events.watermarks
    selected = replace(
        events,
        tables=tuple(tables),
        ddl=tuple(d for d in events.ddl if start_ts < d.commit_ts <= end),
        watermarks=watermarks.where(within(F.col("commit_ts"))) if watermarks is not None else None,
    )
    return selected, highest


def _counts(events: Events, within: Callable[[Column], Column]) -> list[Row]:
    """Count the rows of each table and partition, all and those that are within the bounds."""
    if not events.tables:
        return []
    place = F.lit("") if events.ordered else F.concat_ws("/", "topic", "partition")
    position = F.col(events.position) if events.position else F.lit(0).cast("bigint")
    passes = within(F.col("commit_ts"))
    rows = [
        table.frame.select(
            F.lit(number).alias("table"),
            place.alias("place"),
            "commit_ts",
            (F.col("op") != Op.DELETE).alias("upsert"),
            position.alias("position"),
        )
        for number, table in enumerate(events.tables)
    ]
    counted = (
        union(rows)
        .groupBy("table", "place")
        .agg(
            F.max("commit_ts").alias("highest"),
            F.count_if(passes).alias("rows"),
            F.min(F.when(passes, F.col("position"))).alias("rows_from"),
            F.min(F.when(passes & F.col("upsert"), F.col("position"))).alias("upserts_from"),
        )
    )
    return counted.collect()


def _cut(
    table: TableChanges, within: Callable[[Column], Column], counts: Sequence[Row], *, positions: bool
) -> TableChanges:
    cut = replace(table, frame=table.frame.where(within(F.col("commit_ts"))), rows=sum(row["rows"] for row in counts))
    if not positions:
        return cut

    def first(name: str) -> int | None:
        return min((row[name] for row in counts if row[name] is not None), default=None)

    return replace(cut, rows_from=first("rows_from"), upserts_from=first("upserts_from"))
