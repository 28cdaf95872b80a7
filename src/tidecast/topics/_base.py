"""What every kind of topic has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Records:
    """Messages as they lie in topics: the columns of `tidecast.model.RECORD`.

    `ordered` says that `offset` numbers the messages of all partitions in one sequence.
    """

    frame: DataFrame
    ordered: bool = False


@dataclass(frozen=True)
class TopicInfo:
    """A topic that can be written to, and how many partitions it has."""

    name: str
    partitions: int


class Topics(Protocol):
    """A place with topics: Kafka, or files."""

    @property
    def where(self) -> str:
        """What an error calls this place, without its secrets."""

    def read(self, spark: SparkSession) -> Records:
        """Return every record that lies here now, up to the present end."""

    def ensure(self, topic: str) -> TopicInfo:
        """Make a topic ready to be written to, and return its partition count."""

    def write(self, frame: DataFrame) -> None:
        """Append `topic`, `partition`, `key`, `value` in the order of `sequence` within a topic's partition."""
