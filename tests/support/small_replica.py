"""A topic of Simple in a folder, and the tables that it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from growing_topic import GrowingTopic
from pyspark.sql import SparkSession

import tidecast
from tidecast.storage import storage_path


class SmallReplica:
    """A topic that grows, and the tables beside it; `options` are those of each run."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self._spark, self.to, self._options = spark, folder / "tables", options
        self.topic = GrowingTopic(storage_path(str(folder / "topic"), ""))

    def run(self, **options: Any) -> tidecast.Replicated:
        """Apply the topic."""
        return tidecast.replicate(self.topic.uri, str(self.to), spark=self._spark, **{**self._options, **options})

    def rows(self, *columns: str, table: str = "d/t") -> list[tuple[Any, ...]]:
        """Return a table's rows, or what expressions make of them."""
        there = self._spark.read.format("delta").load(str(self.to / table))
        return sorted((tuple(found) for found in there.selectExpr(*columns or ("*",)).collect()), key=str)

    def version(self) -> int:
        """Return how many versions the table `d.t` has."""
        return len(list((self.to / "d" / "t" / "_delta_log").glob("*.json")))
