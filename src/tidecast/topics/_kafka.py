"""Topics in Kafka: looked at through confluent-kafka, read and written through Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast.model import RECORD
from tidecast.topics._base import Counts, Offsets, Records, Spans, TopicInfo
from tidecast.topics._kafka_cluster import KafkaCluster
from tidecast.topics._kafka_errors import kafka_errors
from tidecast.topics._kafka_offsets import (
    Bounds,
    between,
    check_follows,
    expired_since,
    for_spark,
    matching,
    partition_name,
    read_bounds,
    start_spec,
)
from tidecast.topics._kafka_options import KafkaOptions

_DEFAULT_PARTITIONS = 3
_FEW = 2_000
"""How many messages one task reads and works on."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KafkaTopics:
    """Topics in the Kafka cluster behind `servers` (`host:port`, comma-separated).

    `topic` is the default topic. To read, `pattern` (a regular expression on the whole name) may choose topics
    instead of it, and `start` says from where: `earliest`, `latest`, a TSO, or an ISO time (UTC where it names no
    zone). A time is compared with the messages' timestamps, so a TSO starts at or before the events that were
    committed then.
    """

    servers: str
    topic: str
    options: KafkaOptions = field(default_factory=KafkaOptions)
    pattern: str | None = None
    start: str = "earliest"
    waits: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        start_spec(self.start)  # refuses what is none

    @property
    def where(self) -> str:
        """Return the name of this place for errors."""
        return f"kafka://{self.servers}/{self.topic}"

    def list_topics(self, pattern: str | None = None) -> list[str]:
        """Return the names of all topics, or of those that match `pattern` wholly, sorted; Kafka's own are left out.

        Raises `Unreachable` where no broker answers, `ConfigError` where they do not let us in.
        """
        return matching(pattern or ".*", self._cluster().partitions(), self.where)

    def end_offsets(self, after: Offsets | None = None, limit: int | None = None) -> Offsets:
        """Return by `topic/partition` the offset at which a read from `after` ends; see `Topics.end_offsets`.

        A partition that `after` does not know begins at `start`, in place of `latest` at its first message. A topic
        that was deleted stays among the offsets, for a new one of its name to be noticed. Raises as `read`, and
        SourceChanged where a topic was re-created, ends before `after`, or lost messages that come after it.
        """
        cluster = self._cluster()
        bounds = self._bounds(cluster, after)
        ids = cluster.topic_ids(list(bounds))
        if after is not None:
            check_follows(cluster, after, bounds, ids, self.where)
            _warn_of_deleted(self.where, tuple(sorted(after.topics - bounds.keys())))
        ends = dict(after.ends) if after else {}
        for topic, partitions in bounds.items():
            for partition, (start, end) in partitions.items():
                name = partition_name(topic, partition)
                begin = ends.get(name, start)
                ends[name] = max(begin, min(end, begin + limit) if limit else end)
        return Offsets(ends, {**(after.ids if after else {}), **ids})

    def read(
        self,
        spark: SparkSession,
        after: Offsets | None = None,
        until: Offsets | None = None,
        waiting: Collection[str] = (),
    ) -> Records:
        """Return the records from `after` (else `start`) to `until` (else the end now): the columns of `RECORD`.

        Where a topic has nothing newer than a start time, nothing of it is read. Messages of transactions that
        were not committed are left out. Raises `ConfigError` where there is no topic to read or `start` is no
        start, `Unreachable` where no broker answers.
        """
        bounds = between(self._bounds(self._cluster(), after), after, until)
        frame = (
            spark.read.format("kafka")
            .options(**self.options.for_spark())
            .option("kafka.bootstrap.servers", self.servers)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .option("subscribe", ",".join(bounds))
            # Bounds as numbers: every look at the frame then sees the same messages.
            .option("startingOffsets", for_spark(bounds, 0))
            .option("endingOffsets", for_spark(bounds, 1))
            .load()
        )
        few = sum(end - begin for partitions in bounds.values() for begin, end in partitions.values()) <= _FEW
        return Records.of(frame.select([F.col(f.name).cast(f.dataType).alias(f.name) for f in RECORD.fields]), few=few)

    def expired_since(self, start_ts: int) -> str | None:
        """Return the partitions whose oldest message is not older than a TSO, and not the first that they had.

        None where there are none, or where `start` chose what to read. Raises as `read`.
        """
        if self.start != "earliest":
            return None
        cluster = self._cluster()
        return expired_since(cluster, self._bounds(cluster, None), start_ts)

    def spans(self) -> Spans:
        """Return what a read from `start` to the present end goes over; see `Topics.spans`. Raises as `read`."""
        bounds = self._bounds(self._cluster(), None)
        return {(topic, partition): ends for topic, places in bounds.items() for partition, ends in places.items()}

    def look(self, topic: str) -> TopicInfo | None:
        """Return the partition count of a topic, None where there is none. Raises `Unreachable`, `ConfigError`."""
        count = self._cluster().partitions().get(topic)
        return TopicInfo(topic, count) if count else None

    def ensure(self, topic: str) -> TopicInfo:
        """Make sure that a topic is there, and return how many of its partitions are to be used.

        A topic that is there keeps its partitions; `partition-num` may use fewer of the default topic's. A new one
        gets `partition-num`, else as many as the default topic has, else 3, and `replication-factor` replicas.
        Raises `ConfigError`: `CDC:ErrKafkaInvalidConfig` where the topic is missing and may not be created, or where
        a new topic or the default one wants more in-sync replicas; `CDC:ErrKafkaInvalidPartitionNum` where the default
        topic has fewer partitions than asked for. Raises `Unreachable` where no broker answers.
        """
        cluster = self._cluster()
        known = cluster.partitions()
        requested = self.options.partition_num
        if topic in known:
            if topic == self.topic:
                cluster.check_replicas(topic)
            partitions = self._usable(known[topic]) if topic == self.topic else known[topic]
            return TopicInfo(topic, partitions, cluster.max_message_bytes(topic))
        if not self.options.auto_create_topic:
            raise ConfigError(
                f"`auto-create-topic` is false, and {topic} not found",
                code="CDC:ErrKafkaInvalidConfig",
                where=self.where,
                hint="create the topic, or allow auto-create-topic",
            )
        cluster.check_replicas()
        partitions = cluster.create(topic, requested or known.get(self.topic, _DEFAULT_PARTITIONS))
        return TopicInfo(topic, partitions, cluster.max_message_bytes())

    def write(
        self,
        frame: DataFrame,
        complete: Callable[[DataFrame], DataFrame] | None = None,
        counts: Counts | None = None,
    ) -> None:
        """Append records to their topics; see `Topics.write`.

        Messages that a failed and repeated Spark task sent twice stay twice. Raises `Unreachable` where no broker
        answers, `ConfigError` where they do not let us in, `TerminalError` for a message that is too large.
        """
        self._cluster()  # a missing cluster is an error at once, not after Spark's patience
        ordered = frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "sequence")
        records = (complete(ordered) if complete else ordered).select(
            "topic", F.col("partition").cast("int").alias("partition"), "key", "value"
        )
        writer = (
            records.write.format("kafka")
            .options(**self.options.for_spark_writes())
            .option("kafka.bootstrap.servers", self.servers)
        )
        with kafka_errors(self.where):
            writer.save()

    def _cluster(self) -> KafkaCluster:
        return KafkaCluster(self.servers, self.options, self.where)

    def _bounds(self, cluster: KafkaCluster, after: Offsets | None) -> Bounds:
        """Return the bounds of a read of the topics that are there. Raises `ConfigError` where there is none."""
        known = cluster.partitions()
        if self.pattern is None:
            topics = [self.topic] if self.topic in known else []
        else:
            topics = matching(self.pattern, known, self.where)
        if not topics:
            what = f"topic {self.topic!r}" if self.pattern is None else f"topic that matches {self.pattern!r}"
            raise ConfigError(f"there is no {what}", where=self.where, hint="name another one, or topics=PATTERN")
        return read_bounds(cluster, {topic: known[topic] for topic in topics}, self.start, after)

    def _usable(self, real: int) -> int:
        requested = self.options.partition_num
        if requested is not None and requested > real:
            raise ConfigError(
                f"partition-num is {requested}, but the topic has {real} partitions",
                code="CDC:ErrKafkaInvalidPartitionNum",
                where=self.where,
                hint="ask for no more than the topic has, or give the topic more partitions",
            )
        return requested or real


@cache
def _warn_of_deleted(where: str, topics: tuple[str, ...]) -> None:
    if topics:
        _log.warning("%s: no longer there, or not asked for any more: topics %s", where, ", ".join(topics))
