"""The note on a batch in the history of each table that it changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidecast.replica.state._ledger import AppliedBatch

_SETTINGS = ("spark.databricks.delta.commitInfo.userMetadata", "spark.sql.iceberg.snapshot-property.tidecast.batch")
"""Spark's merge takes no options, so that the session says it, to all tables of a batch."""

_lock = threading.Lock()
_batches: dict[int, int] = {}


@contextmanager
def noted_in_commits(spark: SparkSession, batch: AppliedBatch) -> Iterator[None]:
    """Let the commits of this block say which batch they belong to, as JSON.

    That is `batch`, its number in the `checkpoint`, `source`, the `offsets` that it goes to, and `resolved_ts`. Where
    the session says something else to its commits, or applies batches of two replicas at one time, they do not.
    """
    told = {
        "batch": batch.number,
        "source": batch.source,
        "checkpoint": batch.checkpoint,
        "offsets": dict(batch.offsets),
        "resolved_ts": batch.resolved_ts,
    }
    with _lock:
        own = all(spark.conf.get(name, None) is None for name in _SETTINGS)
        others = _batches.get(id(spark), 0)
        _batches[id(spark)] = others + 1
        for name in _SETTINGS:
            if others:
                spark.conf.unset(name)
            elif own:
                spark.conf.set(name, json.dumps(told))
    try:
        yield
    finally:
        with _lock:
            _batches[id(spark)] -= 1
            if own and not others:
                for name in _SETTINGS:
                    spark.conf.unset(name)
            if not _batches[id(spark)]:
                del _batches[id(spark)]
