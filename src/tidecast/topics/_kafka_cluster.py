"""A Kafka cluster as its administrator sees it, through confluent-kafka."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from tidecast._errors import ConfigError, MissingRuntime
from tidecast.topics._kafka_errors import no_token, not_let_in, unreachable
from tidecast.topics._kafka_options import KafkaOptions

_SHOWN_WITHIN_S = 5.0
_NO_TOKEN_SERVER = re.compile(r"(?i)acquire SASL OAUTHBEARER token: .*(connect|resolve|timed? ?out)")
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_NOT_SHOWN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)

# librdkafka returns its messages as errors; they need not go to stderr as well.
_quiet = logging.getLogger(f"{__name__}.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class KafkaCluster:
    """A cluster that has answered: its topics, their partitions, offsets, ids and settings.

    Every method raises `Unreachable` where no broker answers any more; `where` is what errors call the place.
    """

    def __init__(self, servers: str, options: KafkaOptions, where: str) -> None:
        """Meet the cluster. Raises `Unreachable` where no broker answers, `ConfigError` where they do not let us in."""
        self._options, self._where = options, where
        self._admin = self._connect(servers)

    def _connect(self, servers: str) -> AdminClient:
        heard: list[KafkaError] = []
        settings: dict[str, Any] = {
            **self._options.for_librdkafka(),
            "bootstrap.servers": servers,
            "error_cb": heard.append,
        }
        try:
            admin = AdminClient(settings, logger=_quiet)
        except (KafkaException, ValueError) as error:
            if "No provider for SASL mechanism" in str(error):
                raise MissingRuntime(
                    f"this confluent-kafka was built without SASL's {self._options.sasl_mechanism.upper()}",
                    where=self._where,
                    hint="build it with a librdkafka that has it: pip install --no-binary :all: confluent-kafka",
                ) from None
            raise not_let_in(_error_words(error), self._where) from None
        deadline = time.monotonic() + self._options.dial_timeout
        while True:
            try:
                admin.list_topics(timeout=0.5)
            except KafkaException as error:
                admin.poll(0)  # lets librdkafka tell what it has met
                for cause in heard:
                    if _NO_TOKEN_SERVER.search(cause.str()):
                        raise no_token(_error_words(cause), self._where) from None
                    if cause.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
                        raise not_let_in(_error_words(cause), self._where) from None
                causes = [cause for cause in heard if cause.code() != KafkaError._ALL_BROKERS_DOWN]
                if len(causes) < len(heard) or time.monotonic() > deadline:
                    words = _error_words(causes[0] if causes else error)
                    raise unreachable(words, self._where, answered=bool(causes)) from None
            else:
                return admin

    def partitions(self) -> dict[str, int]:
        """Return the partition count of every topic."""
        with self._asking():
            topics: Mapping[str, Any] = self._admin.list_topics(timeout=self._options.dial_timeout).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def topic_ids(self, topics: list[str]) -> dict[str, str]:
        """Return the id of each topic; brokers before 2.8 tell none."""
        with self._asking():
            answers = self._admin.describe_topics(TopicCollection(topics), request_timeout=self._options.dial_timeout)
            ids = {topic: answer.result().topic_id for topic, answer in answers.items()}
        return {topic: str(id_) for topic, id_ in ids.items() if id_ is not None and str(id_) != _NO_ID}

    def offsets(self, places: Iterable[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        """Return the offset of each partition that an `OffsetSpec` names, below 0 where it has none."""
        with self._asking():
            answers = self._admin.list_offsets(
                {TopicPartition(topic, partition): spec for topic, partition in places},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self._options.dial_timeout,
            )
            return {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}

    def max_message_bytes(self, topic: str | None = None) -> int | None:
        """Return the size of the largest message that a topic takes, or that brokers take for a new one.

        None where nobody tells it.
        """
        limit = self._setting(topic, "max.message.bytes", "message.max.bytes")
        return int(limit) if limit else None

    def check_replicas(self, topic: str | None = None) -> None:
        """Raise `ConfigError` where a topic, or a new one, wants more in-sync replicas than `replication-factor`.

        No message could be acknowledged by all of them then.
        """
        if self._options.required_acks != -1:
            return
        least = self._setting(topic, "min.insync.replicas", "min.insync.replicas")
        if least and int(least) > self._options.replication_factor:
            raise ConfigError(
                f"replication-factor is {self._options.replication_factor}, but min.insync.replicas is {least}",
                code="CDC:ErrKafkaInvalidConfig",
                where=self._where,
                hint="ask for at least as many replicas, or for required-acks=1",
            )

    def _setting(self, topic: str | None, of_topic: str, of_broker: str) -> str | None:
        """Return a setting of a topic, or where it cannot be seen, as for a new one, the broker's."""
        value = self._settings(ConfigResource.Type.TOPIC, topic).get(of_topic) if topic is not None else None
        if value is None:
            with self._asking():
                broker = next(iter(self._admin.list_topics(timeout=self._options.dial_timeout).brokers))
            value = self._settings(ConfigResource.Type.BROKER, str(broker)).get(of_broker)
        return value

    def _settings(self, kind: Any, name: str) -> dict[str, str]:
        """Return the settings of a topic or a broker, none where we have no right to see them."""
        resource = ConfigResource(kind, name)
        with self._asking():
            answer = self._admin.describe_configs([resource], request_timeout=self._options.dial_timeout)[resource]
            try:
                return {setting: entry.value for setting, entry in answer.result().items()}
            except KafkaException as error:
                if error.args[0].code() in _NOT_SHOWN:
                    return {}
                raise

    def create(self, topic: str, partitions: int) -> int:
        """Create a topic, wait until the cluster shows it, and return its partition count.

        One that somebody else made meanwhile is as good. Raises `ConfigError` where it cannot be created.
        """
        new = NewTopic(topic, partitions, self._options.replication_factor)
        try:
            self._admin.create_topics([new], request_timeout=self._options.dial_timeout)[topic].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                raise unreachable(_error_words(error), self._where) from None
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ConfigError(
                    f"topic {topic} cannot be created: {_error_words(error)}",
                    code="CDC:ErrKafkaCreateTopic",
                    where=self._where,
                ) from None
        deadline = time.monotonic() + _SHOWN_WITHIN_S
        while time.monotonic() < deadline:
            if found := self.partitions().get(topic):
                return found
            time.sleep(0.1)
        return partitions

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise unreachable(_error_words(error), self._where) from None


def _error_words(error: KafkaException | KafkaError | ValueError) -> str:
    """Return librdkafka's words without its inner state and addresses that stand there twice."""
    inner = error.args[0] if isinstance(error, KafkaException) else error
    text = inner.str() if isinstance(inner, KafkaError) else str(inner)
    return re.sub(r" \((?:after \d+ms )?in state \w+\)|^(?:\w+://)?\S+/(?:bootstrap|\d+): ", "", text)
