"""Topics in Kafka: looked at through confluent-kafka, read and written through Spark."""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError, SourceChanged, TerminalError, TidecastError, TransientError, Unreachable
from tidecast.model import RECORD, physical_ms
from tidecast.topics._base import ANEW, Offsets, Records, TopicInfo
from tidecast.topics._kafka_options import KafkaOptions

_DEFAULT_PARTITIONS = 3
_SHOWN_WITHIN_S = 5.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_SHOWN = 3
_OFFSETS: Any = OffsetSpec  # its methods carry no types

# What librdkafka has to say comes back as errors; it need not go to stderr as well.
_log = logging.getLogger(__name__)
_quiet = logging.getLogger(f"{__name__}.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


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

    def __post_init__(self) -> None:
        _start(self.start)  # refuses what is none

    @property
    def where(self) -> str:
        """What an error calls this place."""
        return f"kafka://{self.servers}/{self.topic}"

    def list_topics(self, pattern: str | None = None) -> list[str]:
        """Return the names of all topics, or of those that match `pattern` wholly, sorted; Kafka's own are left out.

        Raises `Unreachable` where no broker answers, `ConfigError` where they do not let us in.
        """
        return self._matching(pattern or ".*", self._partitions(self._admin()))

    def end_offsets(self, after: Offsets | None = None, limit: int | None = None) -> Offsets:
        """Return by `topic/partition` the offset at which a read from `after` ends; see `Topics.end_offsets`.

        A partition that `after` does not know begins at `start`, in place of `latest` at its first message. A topic
        that was deleted stays among the offsets, for a new one of its name to be noticed. Raises as `read`, and
        SourceChanged where a topic was made anew, ends before `after`, or lost messages that come after it.
        """
        admin = self._admin()
        offsets = self._offsets(admin, after)
        ids = self._ids(admin, list(offsets))
        if after is not None:
            self._check_follows(admin, after, offsets, ids)
            _warn_of_deleted(self.where, tuple(sorted(after.topics - offsets.keys())))
        ends = dict(after.ends) if after else {}
        for topic, places in offsets.items():
            for partition, (start, end) in places.items():
                begin = ends.get(_place(topic, partition), start)
                ends[_place(topic, partition)] = max(begin, min(end, begin + limit) if limit else end)
        return Offsets(ends, {**(after.ids if after else {}), **ids})

    def read(self, spark: SparkSession, after: Offsets | None = None, until: Offsets | None = None) -> Records:
        """Return the records from `after` (else `start`) to `until` (else the end now): the columns of `RECORD`.

        Where a topic has nothing newer than a start time, nothing of it is read. Messages of transactions that
        were not committed are left out. Raises `ConfigError` where there is no topic to read or `start` is no
        start, `Unreachable` where no broker answers.
        """
        offsets = self._between(after, until)
        frame = (
            spark.read.format("kafka")
            .options(**self.options.for_spark())
            .option("kafka.bootstrap.servers", self.servers)
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .option("subscribe", ",".join(offsets))
            # Bounds as numbers: every look at the frame then sees the same messages.
            .option("startingOffsets", _bounds(offsets, 0))
            .option("endingOffsets", _bounds(offsets, 1))
            .load()
        )
        return Records(frame.select([F.col(f.name).cast(f.dataType).alias(f.name) for f in RECORD.fields]))

    def look(self, topic: str) -> TopicInfo | None:
        """Return the partition count of a topic, None where there is none. Raises `Unreachable`, `ConfigError`."""
        count = self._partitions(self._admin()).get(topic)
        return TopicInfo(topic, count) if count else None

    def ensure(self, topic: str) -> TopicInfo:
        """Make sure that a topic is there, and return how many of its partitions are to be used.

        A topic that is there keeps its partitions; `partition-num` may use fewer of the default topic's. A new one
        gets `partition-num`, else as many as the default topic has, else 3, and `replication-factor` replicas.
        Raises `ConfigError` (`CDC:ErrKafkaInvalidConfig` where the topic is missing and may not be created or its
        brokers want more replicas, `CDC:ErrKafkaInvalidPartitionNum` where the default topic has fewer partitions
        than asked for), `Unreachable` where no broker answers.
        """
        admin = self._admin()
        known = self._partitions(admin)
        requested = self.options.partition_num
        if topic in known:
            limit = self._check(admin, ConfigResource(ConfigResource.Type.TOPIC, topic))
            return TopicInfo(topic, self._usable(known[topic]) if topic == self.topic else known[topic], limit)
        if not self.options.auto_create_topic:
            raise ConfigError(
                f"`auto-create-topic` is false, and {topic} not found",
                code="CDC:ErrKafkaInvalidConfig",
                where=self.where,
                hint="create the topic, or allow auto-create-topic",
            )
        with self._asking():
            broker = next(iter(admin.list_topics(timeout=self.options.dial_timeout).brokers))
        limit = self._check(admin, ConfigResource(ConfigResource.Type.BROKER, str(broker)))
        partitions = requested or known.get(self.topic, _DEFAULT_PARTITIONS)
        self._create(admin, topic, partitions)
        return TopicInfo(topic, self._wait_for(admin, topic) or partitions, limit)

    def write(self, frame: DataFrame) -> None:
        """Append records to their topics, in the order of `sequence` within a topic's partition.

        In: `topic` string, `partition` int, `key` binary, `value` binary (null is a tombstone), `sequence`. Messages
        that a failed and repeated Spark task sent twice stay twice. Raises `Unreachable` where no broker answers,
        `ConfigError` where they do not let us in, `TerminalError` for a message that is too large.
        """
        self._partitions(self._admin())  # a cluster that is not there is told at once, not after Spark's patience
        ordered = (
            frame.select(F.col("topic"), F.col("partition").cast("int"), "key", "value", "sequence")
            .repartition("topic", "partition")
            .sortWithinPartitions("topic", "partition", "sequence")
            .drop("sequence")
        )
        writer = (
            ordered.write.format("kafka")
            .options(**self.options.for_spark_writes())
            .option("kafka.bootstrap.servers", self.servers)
        )
        with kafka_errors(self.where):
            writer.save()

    def _admin(self) -> AdminClient:
        """Return a client that has met the cluster."""
        heard: list[KafkaError] = []
        settings: dict[str, Any] = {
            **self.options.for_librdkafka(),
            "bootstrap.servers": self.servers,
            "error_cb": heard.append,
        }
        try:
            admin = AdminClient(settings, logger=_quiet)
        except (KafkaException, ValueError) as error:
            raise self._not_let_in(_words(error)) from None
        deadline = time.monotonic() + self.options.dial_timeout
        while True:
            try:
                admin.list_topics(timeout=0.5)
            except KafkaException as error:
                admin.poll(0)  # lets librdkafka tell what it has met
                for cause in heard:
                    if cause.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                        raise self._not_let_in(_words(cause)) from None
                causes = [cause for cause in heard if cause.code() != KafkaError._ALL_BROKERS_DOWN]
                if len(causes) < len(heard) or time.monotonic() > deadline:
                    raise self._unreachable(_words(causes[0] if causes else error), bool(causes)) from None
            else:
                return admin

    def _partitions(self, admin: AdminClient) -> dict[str, int]:
        """Return the partition count of every topic, Kafka's own aside."""
        with self._asking():
            topics: Mapping[str, Any] = admin.list_topics(timeout=self.options.dial_timeout).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}

    def _between(self, after: Offsets | None, until: Offsets | None) -> dict[str, dict[int, tuple[int, int]]]:
        offsets = self._offsets(self._admin(), after)
        begins = after.ends if after else {}
        for topic, places in offsets.items():
            for partition, (start, end) in places.items():
                place = _place(topic, partition)
                last = until.ends.get(place, start) if until else end
                places[partition] = (min(begins.get(place, start), last), last)
        return offsets

    def _offsets(self, admin: AdminClient, after: Offsets | None) -> dict[str, dict[int, tuple[int, int]]]:
        """Return by topic and partition the first offset to read, unless `after` says it, and the one after the last.

        Nothing may be missed of what came after `after`: then `latest` means a new partition's first message.
        """
        known = self._partitions(admin)
        if self.pattern is None:
            topics = [self.topic] if self.topic in known else []
        else:
            topics = self._matching(self.pattern, known)
        if not topics:
            what = f"topic {self.topic!r}" if self.pattern is None else f"topic that matches {self.pattern!r}"
            raise ConfigError(f"there is no {what}", where=self.where, hint="name another one, or topics=PATTERN")
        places = [(topic, partition) for topic in topics for partition in range(known[topic])]
        ends = self._ask_offsets(admin, places, _OFFSETS.latest())
        start = _start("earliest" if after and self.start == "latest" else self.start)
        starts = self._ask_offsets(admin, places, start)
        bounds: dict[str, dict[int, tuple[int, int]]] = {topic: {} for topic in topics}
        for (topic, partition), end in ends.items():
            first = starts[topic, partition]
            # No offset: nothing is as new as the start. Beyond the end: it came after the end was asked for.
            bounds[topic][partition] = (end if first < 0 else min(first, end), end)
        return bounds

    def _ids(self, admin: AdminClient, topics: list[str]) -> dict[str, str]:
        """Return the id of each topic; brokers before 2.8 tell none."""
        with self._asking():
            answers = admin.describe_topics(TopicCollection(topics), request_timeout=self.options.dial_timeout)
            ids = {topic: answer.result().topic_id for topic, answer in answers.items()}
        return {topic: str(id_) for topic, id_ in ids.items() if id_ is not None and str(id_) != _NO_ID}

    def _check_follows(
        self,
        admin: AdminClient,
        after: Offsets,
        offsets: Mapping[str, Mapping[int, tuple[int, int]]],
        ids: dict[str, str],
    ) -> None:
        """Raise SourceChanged unless every message that follows some offsets is still there, or will come."""
        places = [(topic, partition) for topic, known in offsets.items() for partition in known]
        first = self._ask_offsets(admin, places, _OFFSETS.earliest())
        shorter, expired = [], []
        for topic, partition in places:
            begin = after.ends.get(_place(topic, partition))
            if begin is None:
                continue
            start, end = first[topic, partition], offsets[topic][partition][1]
            where = f"topic {topic} partition {partition}"
            if end < begin:
                shorter.append(f"{where} ends at offset {end}, the checkpoint at {begin}")
            elif start > begin:
                expired.append(f"{where} offsets {begin} to {start - 1}")
        anew = Offsets(ids=ids).made_anew(after)
        for found, words in (
            (anew, f"made anew since the checkpoint, so that its offsets mean other messages: topic {', '.join(anew)}"),
            (shorter, f"messages that had been read are gone: {_some(shorter)}: was the topic made anew?"),
            (expired, f"messages expired before they were read: {_some(expired)}: the topic's retention is too short"),
        ):
            if found:
                raise SourceChanged(words, where=self.where, hint=ANEW)

    def _matching(self, pattern: str, names: Iterable[str]) -> list[str]:
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{pattern!r} is no regular expression: {error}", where=self.where) from None
        return sorted(name for name in names if wanted.fullmatch(name))

    def _ask_offsets(self, admin: AdminClient, places: list[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        with self._asking():
            answers = admin.list_offsets(
                {TopicPartition(topic, partition): spec for topic, partition in places},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self.options.dial_timeout,
            )
            return {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}

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

    def _check(self, admin: AdminClient, resource: ConfigResource) -> int | None:
        """Return the size of the largest message that a topic, or a broker, takes.

        Refuses a replication factor with which no message could be acknowledged by all in-sync replicas.
        """
        with self._asking():
            config = admin.describe_configs([resource], request_timeout=self.options.dial_timeout)[resource].result()
        least = config.get("min.insync.replicas")
        if self.options.required_acks == -1 and least and int(least.value) > self.options.replication_factor:
            raise ConfigError(
                f"replication-factor is {self.options.replication_factor}, but min.insync.replicas is {least.value}",
                code="CDC:ErrKafkaInvalidConfig",
                where=self.where,
                hint="ask for at least as many replicas, or for required-acks=1",
            )
        limit = config.get("max.message.bytes") or config.get("message.max.bytes")
        return int(limit.value) if limit else None

    def _create(self, admin: AdminClient, topic: str, partitions: int) -> None:
        new = NewTopic(topic, partitions, self.options.replication_factor)
        try:
            admin.create_topics([new], request_timeout=self.options.dial_timeout)[topic].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                raise self._unreachable(_words(error)) from None
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another one was faster
                raise ConfigError(
                    f"topic {topic} cannot be created: {_words(error)}",
                    code="CDC:ErrKafkaCreateTopic",
                    where=self.where,
                ) from None

    def _wait_for(self, admin: AdminClient, topic: str) -> int | None:
        """Wait until the cluster shows a new topic, and return its partition count."""
        deadline = time.monotonic() + _SHOWN_WITHIN_S
        while time.monotonic() < deadline:
            known = self._partitions(admin)
            if known.get(topic):
                return known[topic]
            time.sleep(0.1)
        return None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._unreachable(_words(error)) from None

    def _unreachable(self, words: str, answered: bool = True) -> Unreachable:
        return Unreachable(
            f"Kafka does not answer: {words}",
            code="CDC:ErrKafkaNewProducer",
            where=self.where,
            hint="check host and port and whether the broker runs"
            if answered
            else "check host and port, and whether this port wants enable-tls or sasl-mechanism",
        )

    def _not_let_in(self, words: str) -> ConfigError:
        return ConfigError(
            f"Kafka does not let us in: {words}",
            code="CDC:ErrKafkaNewProducer",
            where=self.where,
            hint=_CREDENTIALS[2],
        )


@contextmanager
def kafka_errors(where: str) -> Iterator[None]:
    """Turn what Spark's Kafka source and sink raise while they run into the errors of tidecast, on one line.

    Errors that are not Kafka's go through unchanged.
    """
    try:
        yield
    except TidecastError:
        raise
    except Exception as error:
        found = _KAFKA_ERROR.search(str(error))
        if found is None:
            raise
        name, words = found[1], (found[2] or found[1]).strip().rstrip(".")
        kind, code, hint = _KINDS.get(name, _OTHER)
        raise kind(f"Kafka says: {words}", code=code, where=where, hint=hint) from None


_KAFKA_ERROR = re.compile(
    r"org\.apache\.(?:kafka\.common\.errors\.|spark\.sql\.kafka010\.Kafka)(\w+)Exception(?:: ([^\r\n]*))?"
)
_Kind = tuple[type[TidecastError], str, str | None]
_CREDENTIALS: _Kind = (
    ConfigError,
    "CDC:ErrKafkaNewProducer",
    "check sasl-mechanism, sasl-user and sasl-password, or enable-tls, ca, cert and key",
)
_RIGHTS: _Kind = (ConfigError, "CDC:ErrKafkaAsyncSendMessage", "ask for the right to use the topic")
_SIZE: _Kind = (TerminalError, "CDC:ErrMessageTooLarge", "raise max-message-bytes and the topic's max.message.bytes")
_OTHER: _Kind = (TransientError, "CDC:ErrKafkaAsyncSendMessage", None)
_KINDS: dict[str, _Kind] = {
    "SaslAuthentication": _CREDENTIALS,
    "SslAuthentication": _CREDENTIALS,
    "UnsupportedSaslMechanism": _CREDENTIALS,
    "TopicAuthorization": _RIGHTS,
    "GroupAuthorization": _RIGHTS,
    "ClusterAuthorization": _RIGHTS,
    "RecordTooLarge": _SIZE,
    "IllegalState": (TransientError, "CDC:ErrKafkaNewProducer", "messages went while they were read: start again"),
    "Timeout": (Unreachable, "CDC:ErrKafkaAsyncSendMessage", "check that the broker runs and has the topic"),
    "Network": (Unreachable, "CDC:ErrKafkaAsyncSendMessage", "check that the broker runs"),
    "Disconnect": (Unreachable, "CDC:ErrKafkaAsyncSendMessage", "check that the broker runs"),
}


def _place(topic: str, partition: int) -> str:
    return f"{topic}/{partition}"


@cache
def _warn_of_deleted(where: str, topics: tuple[str, ...]) -> None:
    if topics:
        _log.warning("%s: no longer there, or not asked for any more: topics %s", where, ", ".join(topics))


def _some(places: list[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return "; ".join(places[:_SHOWN]) + more


def _start(text: str) -> Any:
    if text == "earliest":
        return _OFFSETS.earliest()
    if text == "latest":
        return _OFFSETS.latest()
    if text.isdecimal():
        return _OFFSETS.for_timestamp(physical_ms(int(text)))
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"start cannot be {text!r}",
            where="source URI",
            hint="write earliest, latest, a TSO or an ISO time, in a URI with %2B for +",
        ) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return _OFFSETS.for_timestamp(round(zoned.timestamp() * 1000))


def _bounds(offsets: Mapping[str, Mapping[int, tuple[int, int]]], side: int) -> str:
    return json.dumps({topic: {str(p): ends[side] for p, ends in places.items()} for topic, places in offsets.items()})


def _words(error: KafkaException | KafkaError | ValueError) -> str:
    """Return librdkafka's words without its inner state and addresses that stand there twice."""
    inner = error.args[0] if isinstance(error, KafkaException) else error
    text = inner.str() if isinstance(inner, KafkaError) else str(inner)
    return re.sub(r" \((?:after \d+ms )?in state \w+\)|^(?:\w+://)?\S+/(?:bootstrap|\d+): ", "", text)
