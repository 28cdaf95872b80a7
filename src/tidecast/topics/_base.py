"""What every kind of topic has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

Mark = Mapping[str, int]
"""A position in a place's topics, as plain data: by `topic/partition` the next offset, or by file its size."""


@dataclass(frozen=True)
class Records:
    """Messages as they lie in topics: the columns of `tidecast.model.RECORD`.

    `ordered` says that `offset` numbers the messages of all partitions in one sequence.
    """

    frame: DataFrame
    ordered: bool = False


@dataclass(frozen=True)
class TopicInfo:
    """A topic that can be written to, how many partitions it has, and the largest message it takes, if any is."""

    name: str
    partitions: int
    max_message_bytes: int | None = None


class Topics(Protocol):
    """A place with topics: Kafka, or files."""

    @property
    def where(self) -> str:
        """What an error calls this place, without its secrets."""

    def mark(self, after: Mark | None = None, limit: int | None = None) -> Mark:
        """Return the present end, or one nearer to `after`: at most `limit` messages of a partition beyond it.

        Equal to `after` where nothing is new. Costs no read of messages.
        """

    def read(self, spark: SparkSession, after: Mark | None = None, until: Mark | None = None) -> Records:
        """Return the records from `after`, by default the start, to `until`, by default the present end."""

    def look(self, topic: str) -> TopicInfo | None:
        """Return what is known of a topic, None where there is none. Makes nothing."""

    def ensure(self, topic: str) -> TopicInfo:
        """Make a topic ready to be written to, and return its partition count."""

    def write(self, frame: DataFrame) -> None:
        """Append `topic`, `partition`, `key`, `value` in the order of `sequence` within a topic's partition."""
