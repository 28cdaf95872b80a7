"""A replica of a growing topic, with a checkpoint, whose runs follow each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from growing_topic import GrowingTopic, Said
from pyspark.sql import SparkSession

import tidecast


class Replica:
    """A topic of two partitions, and its tables, with a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.spark, self.folder, self.to = spark, folder, str(folder / "tables")
        self.topic, self.options = GrowingTopic(folder / "topic"), {"ddl": "evolve", **options}

    def run(self, *batches: list[Said], **options: Any) -> tidecast.Replicated:
        """Add messages to each partition, and apply what is new."""
        if batches:
            self.topic.deliver((partition, one) for partition, batch in enumerate(batches) for one in batch)
        checkpoint = str(self.folder / "checkpoint")
        options = {"checkpoint": checkpoint, "to": self.to, **self.options, **options}
        return tidecast.replicate(self.topic.uri, spark=self.spark, **options)

    def rows(self, name: str, to: str = "") -> list[tuple[Any, ...]]:
        """Return a table's rows in order."""
        return sorted(map(tuple, self.spark.read.format("delta").load(f"{to or self.to}/{name}").collect()))

    def proven(self) -> dict[str, str]:
        """Return what `prove` says of each table."""
        return {one.table: str(one.verdict) for one in tidecast.prove(self.to, spark=self.spark).tables}
