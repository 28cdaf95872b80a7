"""Read the newest batches and the last schema changes beside replicated tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidecast.replica.state import read_ledger
from tidecast.replica.targets import parse_target


@dataclass(frozen=True)
class AppliedSource:
    """How far a source was applied, by the newest checkpoint of it that the ledger knows.

    `offsets` are the ends of what was read, by `topic/partition` or file; `applied_at` is when that was.
    """

    source: str
    checkpoint: str
    batch: int
    applied_at: dt.datetime
    resolved_ts: int | None
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class SchemaChange:
    """A schema change and its outcome: `applied`, `ignored`, `refused` or, in a checkpoint, `waiting`."""

    commit_ts: int
    database: str
    table: str
    query: str
    outcome: str
    cause: str | None = None


def applied_sources(spark: SparkSession, to: str) -> list[AppliedSource]:
    """Return how far each source was applied to the tables in `to`. Raises ConfigError where there is no ledger."""
    target = parse_target(to)
    target.check(spark)
    batches = read_ledger(spark, target, to).withColumn("checkpoint", F.coalesce("checkpoint", F.lit("")))
    # A batch that was applied once more after a crash has two rows, of which the later one may have read more.
    newest = F.struct("batch", "applied_at")
    reached = F.struct("batch", F.unix_micros("applied_at").alias("micros"), "resolved_ts")
    last = batches.groupBy("source", "checkpoint").agg(F.max_by(reached, newest).alias("last"))
    ends = (
        batches.select("source", "checkpoint", "batch", "applied_at", F.explode("offsets"))
        .groupBy("source", "checkpoint", "key")
        .agg(F.max_by("value", newest).alias("end"))
        .collect()
    )
    found = {}
    for source, checkpoint, (batch, micros, resolved_ts) in last.orderBy("last.micros").collect():
        offsets = {e["key"]: e["end"] for e in ends if (e["source"], e["checkpoint"]) == (source, checkpoint)}
        at = dt.datetime.fromtimestamp(micros / 1_000_000, dt.UTC)
        found[source] = AppliedSource(source, checkpoint, batch, at, resolved_ts, offsets)
    return [found[source] for source in sorted(found)]


def last_schema_changes(spark: SparkSession, to: str, limit: int) -> list[SchemaChange]:
    """Return the newest schema changes in the journal beside the tables in `to`, the newest last."""
    journal = parse_target(to).journal(spark, make_database=False)
    if not journal.exists():
        return []
    columns = ("commit_ts", "database", "table", "query", "outcome", "cause")
    rows = journal.read().select(*columns).orderBy(F.desc("commit_ts"), "database", "table").limit(limit).collect()
    return [SchemaChange(*row) for row in reversed(rows)]
