"""Keep the events of a batch that lie within a range of commit-ts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import RECORD, Ddl, Events, Op, TableChanges
from tidecast.sources._passes import columns_of, in_one_pass, narrowed, then

_PLACE = ("topic", "partition", "commit_ts")
_LAST = (1 << 63) - 1


def filter_commit_ts(events: Events, start_ts: int, target_ts: int) -> tuple[Events, dict[str, int]]:
    """Return the events after one commit-ts and up to another, 0 for no end, and each partition's highest commit-ts.

    Rows and schema changes without a commit-ts, as plain Avro and Debezium's own connector have them, all pass. The
    rows are read once for that.
    """
    selected, counts = _within(events, start_ts, min(target_ts or _LAST, _LAST))
    highest: dict[str, int] = {}
    for row in counts:
        highest[row["place"]] = max(highest.get(row["place"], 0), row["highest"] or 0)
    return selected, highest


def split_at_commit_ts(events: Events, ts: int) -> tuple[Events, DataFrame | None, int, tuple[Ddl, ...]]:
    """Return the events up to a commit-ts, and the others: the messages of rows (columns of `RECORD`, None where
    there are none), their number, and schema changes.

    Rows without a commit-ts are among the first. The rows are read once for that.
    """
    selected, counts = _within(events, -1, ts)
    passed = Counter[int]()
    for row in counts:
        passed[row["table"]] += row["others"]
    waiting = [events.tables[number].within(ts + 1, _LAST, untimed=False) for number, rows in passed.items() if rows]
    later = [narrowed(table, *RECORD.fieldNames()) for table in waiting]
    messages = in_one_pass(later) if later else None
    return selected, messages, passed.total(), tuple(d for d in events.ddl if d.commit_ts > ts)


def _within(events: Events, start: int, end: int) -> tuple[Events, list[Row]]:
    """Return the events after one commit-ts and up to another, and the counts of `_counts`."""

    def within(ts: Column) -> Column:
        return F.coalesce((ts > start) & (ts <= end), F.lit(True))

    counts = _counts(events, within)
    tables = []
    for number, table in enumerate(events.tables):
        mine = [row for row in counts if row["table"] == number and row["rows"]]
        if mine:
            tables.append(_cut(table.within(start + 1, end, untimed=True), mine, positions=events.position is not None))
    watermarks = events.watermarks
    selected = replace(
        events,
        tables=tuple(tables),
        ddl=tuple(d for d in events.ddl if not d.commit_ts or start < d.commit_ts <= end),
        watermarks=watermarks.where(within(F.col("commit_ts"))) if watermarks is not None else None,
    )
    return selected, counts


def _counts(events: Events, within: Callable[[Column], Column]) -> list[Row]:
    """Count the rows of each table and partition, all and those that are within the bounds."""
    if not events.tables:
        return []
    place = F.lit("") if events.ordered else F.concat_ws("/", "topic", "partition")
    passes = within(F.col("commit_ts"))
    rows = in_one_pass([_numbered(table, number, events.position) for number, table in enumerate(events.tables)])
    counted = (
        rows.withColumn("place", place)
        .groupBy("table", "place")
        .agg(
            F.max("commit_ts").alias("highest"),
            F.count_if(passes).alias("rows"),
            F.count_if(~passes).alias("others"),
            F.min(F.when(passes, F.col("position"))).alias("rows_from"),
            F.min(F.when(passes & F.col("upsert"), F.col("position"))).alias("upserts_from"),
        )
    )
    return counted.collect()


def _numbered(table: TableChanges, number: int, position: str | None) -> TableChanges:
    """Return where and when a table's changes came: `table`, its number, and `upsert`, whether it is no delete."""
    given = columns_of(table)
    columns = [
        *(given[name] for name in _PLACE),
        T.StructField("table", T.IntegerType()),
        T.StructField("upsert", T.BooleanType()),
        T.StructField("position", T.LongType()),
    ]
    return then(table, partial(_with_number, number, position), T.StructType(columns))


def _with_number(number: int, position: str | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    count = rows.num_rows
    told = {
        "table": pa.repeat(pa.scalar(number, pa.int32()), count),
        "upsert": pc.not_equal(rows.column("op"), str(Op.DELETE)),
        "position": rows.column(position) if position else pa.repeat(pa.scalar(0, pa.int64()), count),
    }
    return pa.RecordBatch.from_pydict({**{name: rows.column(name) for name in _PLACE}, **told})


def _cut(table: TableChanges, counts: Sequence[Row], *, positions: bool) -> TableChanges:
    cut = replace(table, rows=sum(row["rows"] for row in counts))
    if not positions:
        return cut

    def first(name: str) -> int | None:
        return min((row[name] for row in counts if row[name] is not None), default=None)

    return replace(cut, rows_from=first("rows_from"), upserts_from=first("upserts_from"))
