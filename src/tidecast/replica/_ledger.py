"""The ledger: a table with a row for each batch, of what it brought and which version of each table it made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidecast.replica._report import Replicated, TableReport
from tidecast.replica._target import Target, parse_target

_COUNTS = ("rows", "upserted", "deleted", "unchanged", "refused")
_NUMBERS = T.MapType(T.StringType(), T.LongType())
_TABLE = T.StructType(
    [
        T.StructField("database", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("version", T.LongType()),
        *(T.StructField(name, T.LongType()) for name in (*_COUNTS, "first_commit_ts", "last_commit_ts")),
        T.StructField("checksums", _NUMBERS),
        T.StructField("unrepresentable", _NUMBERS),
    ]
)
_COLUMNS = T.StructType(
    [
        T.StructField("source", T.StringType()),
        T.StructField("batch", T.LongType()),
        T.StructField("applied_at", T.TimestampType()),
        T.StructField("offsets", _NUMBERS),
        T.StructField("resolved_ts", T.LongType()),
        T.StructField("dead_letters", _NUMBERS),
        T.StructField("tables", T.ArrayType(_TABLE)),
    ]
)


@dataclass(frozen=True)
class AppliedBatch:
    """A batch of a source: its number in a checkpoint, the ends of what it read, and the resolved-ts it came to.

    `offsets` has those ends that it moved, by `topic/partition` or file.
    """

    source: str
    number: int
    offsets: Mapping[str, int]
    resolved_ts: int | None


def write_ledger(spark: SparkSession, to: str, batch: AppliedBatch, applied: Replicated) -> None:
    """Add the row of a batch that has been applied to the tables in `to`, and is not committed yet.

    A batch that is applied once more, after a crash, has a row for each time. The table `_tidecast/batches` beside the
    others has the columns `source`, `batch`, `applied_at`, `offsets`, `resolved_ts`, `dead_letters` (a number for each
    reason) and `tables`: for each that had changes `database`, `table`, `version` (the table's newest one afterwards),
    the counts of `TableReport`, the lowest and the highest commit-ts, `checksums` and `unrepresentable`.
    """
    target = parse_target(to)
    tables = [_row(spark, target, table) for table in applied.tables]
    now = dt.datetime.now(dt.UTC)
    row = (batch.source, batch.number, now, dict(batch.offsets), batch.resolved_ts, dict(applied.dead_letters), tables)
    frame = spark.createDataFrame([row], _COLUMNS).coalesce(1)
    place = target.ledger(spark)
    if place.exists():
        place.append(frame, f"batch {batch.number}")
    else:
        place.create(frame, (), {})


def _row(spark: SparkSession, target: Target, table: TableReport) -> tuple[object, ...]:
    refused = table.rows and table.rows == table.refused
    version = None if refused else target.table(spark, table.database, table.table, make_database=False).version()
    counts = (getattr(table, name) for name in _COUNTS)
    times = (table.first_commit_ts, table.last_commit_ts)
    numbers = (dict(table.checksums), dict(table.unrepresentable))
    return (table.database, table.table, version, *counts, *times, *numbers)
