"""Topics in a real Kafka: what is created, what is written and read back, and what is said when it fails."""

from __future__ import annotations

import base64
import datetime as dt
import random
import socket
import ssl
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from certificates import Authority
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, Row, SparkSession
from servers import KafkaBroker, TokenServer
from servers._process import free_ports

from tidecast._errors import ConfigError, MissingRuntime, TerminalError, TransientError, Unreachable
from tidecast.model import RECORD, compose
from tidecast.topics._base import TopicInfo
from tidecast.topics._kafka import KafkaTopics
from tidecast.topics._kafka_cluster import KafkaCluster
from tidecast.topics._kafka_errors import kafka_errors
from tidecast.topics._kafka_options import KafkaOptions

ROWS = "topic string, partition int, key binary, value binary, sequence bigint"
QUICK = 15.0
OAUTH = {
    "sasl-mechanism": "OAUTHBEARER",
    "sasl-oauth-client-id": "id",
    "sasl-oauth-client-secret": "c2VjcmV0",
    "sasl-oauth-token-url": "https://sso.example.org/token",
}
LIMIT = 1_048_588
"""The largest message that Kafka takes unless it is told otherwise."""


def fresh(name: str = "t") -> str:
    """Return a topic that no other test uses: the broker is shared."""
    return f"{name}_{uuid.uuid4().hex}"


def topics(broker: KafkaBroker, topic: str, **params: str) -> KafkaTopics:
    return KafkaTopics(
        broker.bootstrap, topic, KafkaOptions.from_params({n.replace("_", "-"): v for n, v in params.items()})
    )


def partitions(broker: KafkaBroker, topic: str) -> int:
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
    return len(known[topic].partitions) if topic in known else 0


def send(broker: KafkaBroker, topic: str, *messages: dict[str, Any]) -> None:
    producer = broker.producer()
    for message in messages:
        producer.produce(topic, **message)
    assert producer.flush(30) == 0


def values(frame: DataFrame) -> list[bytes | None]:
    rows: list[Row] = frame.orderBy("topic", "partition", "offset").collect()
    return [None if row["value"] is None else bytes(row["value"]) for row in rows]


def with_settings(broker: KafkaBroker, topic: str, **settings: str) -> None:
    new = NewTopic(topic, 1, 1, config={name.replace("_", "."): value for name, value in settings.items()})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([new])[topic].result(30)


def wait_until_seen(broker: KafkaBroker, topic: str) -> None:
    deadline = time.monotonic() + 30
    while not partitions(broker, topic) and time.monotonic() < deadline:
        time.sleep(0.1)


class Settings:
    """An administrator who sees no topic's settings, and of a broker those that are given, if any."""

    def __init__(self, settings: dict[str, str] | None) -> None:
        self.settings = settings

    def list_topics(self, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(brokers={1: None})

    def describe_configs(self, asked: list[ConfigResource], request_timeout: float) -> dict[ConfigResource, Any]:
        return {resource: SimpleNamespace(result=partial(self._shown, resource)) for resource in asked}

    def _shown(self, resource: ConfigResource) -> dict[str, SimpleNamespace]:
        if resource.restype == ConfigResource.Type.TOPIC:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        if self.settings is None:
            raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        return {name: SimpleNamespace(value=value) for name, value in self.settings.items()}


class TestEnsure:
    def test_a_new_topic_has_three_partitions(self, broker: KafkaBroker) -> None:
        topic = fresh()
        assert topics(broker, topic).ensure(topic) == TopicInfo(topic, 3, LIMIT)
        assert partitions(broker, topic) == 3
        assert topics(broker, topic).ensure(topic) == TopicInfo(topic, 3, LIMIT)

    def test_a_new_topic_has_the_partitions_asked_for(self, broker: KafkaBroker) -> None:
        topic = fresh()
        assert topics(broker, topic, partition_num="5").ensure(topic) == TopicInfo(topic, 5, LIMIT)
        assert partitions(broker, topic) == 5

    def test_other_new_topics_follow_the_default_one(self, broker: KafkaBroker) -> None:
        default, other = fresh(), fresh()
        broker.create_topic(default, partitions=2)
        assert topics(broker, default).ensure(other) == TopicInfo(other, 2, LIMIT)
        assert partitions(broker, other) == 2

    def test_a_topic_that_is_there_keeps_its_partitions(self, broker: KafkaBroker) -> None:
        default, other = fresh(), fresh()
        broker.create_topic(default, partitions=4)
        broker.create_topic(other, partitions=2)
        asking = topics(broker, default, partition_num="3", auto_create_topic="false")
        assert asking.ensure(other) == TopicInfo(other, 2, LIMIT)
        assert asking.ensure(default) == TopicInfo(default, 3, LIMIT)  # the first three of the default topic are used
        assert partitions(broker, default) == 4

    def test_a_name_may_begin_as_those_of_kafka_s_own_topics(self, broker: KafkaBroker) -> None:
        topic = fresh("__t")
        broker.create_topic(topic, partitions=2)
        asking = topics(broker, topic, auto_create_topic="false")
        assert asking.ensure(topic) == TopicInfo(topic, 2, LIMIT)
        assert topic not in asking.list_topics()
        assert asking.list_topics("__t_.*") == [topic]

    def test_more_partitions_than_there_are(self, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic, partitions=2)
        with pytest.raises(ConfigError, match="partition-num is 3, but the topic has 2 partitions") as error:
            topics(broker, topic, partition_num="3").ensure(topic)
        assert error.value.code == "CDC:ErrKafkaInvalidPartitionNum"

    def test_a_missing_topic_that_may_not_be_created(self, broker: KafkaBroker) -> None:
        topic = fresh()
        with pytest.raises(ConfigError) as error:
            topics(broker, topic, auto_create_topic="false").ensure(topic)
        assert f"[CDC:ErrKafkaInvalidConfig]`auto-create-topic` is false, and {topic} not found" in str(error.value)
        assert partitions(broker, topic) == 0

    def test_more_replicas_than_brokers(self, broker: KafkaBroker) -> None:
        topic = fresh()
        with pytest.raises(ConfigError, match="replication") as error:
            topics(broker, topic, replication_factor="3").ensure(topic)
        assert error.value.code == "CDC:ErrKafkaCreateTopic"
        assert "\n" not in str(error.value)

    def test_fewer_replicas_than_must_acknowledge(self, broker: KafkaBroker) -> None:
        topic = fresh()
        with_settings(broker, topic, min_insync_replicas="2")
        wait_until_seen(broker, topic)
        with pytest.raises(ConfigError, match=r"min\.insync\.replicas is 2") as error:
            topics(broker, topic).ensure(topic)
        assert error.value.code == "CDC:ErrKafkaInvalidConfig"
        assert topics(broker, topic, required_acks="1").ensure(topic) == TopicInfo(topic, 1, LIMIT)
        assert topics(broker, fresh()).ensure(topic) == TopicInfo(topic, 1, LIMIT)  # its replicas are not made here

    def test_settings_that_we_may_not_see(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """TiCDC's rights are those of a cluster's settings, not of a topic's."""
        admin = Settings({"message.max.bytes": "7000", "min.insync.replicas": "2"})
        monkeypatch.setattr(KafkaCluster, "_connect", lambda *_: admin)
        cluster = KafkaCluster("host:9092", KafkaOptions(), "kafka://host/t")
        assert cluster.max_message_bytes("t") == 7000
        with pytest.raises(ConfigError, match=r"min\.insync\.replicas is 2"):
            cluster.check_replicas("t")
        admin.settings = None
        assert cluster.max_message_bytes("t") is None
        cluster.check_replicas("t")

    def test_a_topic_tells_how_large_a_message_may_be(self, broker: KafkaBroker) -> None:
        topic = fresh()
        with_settings(broker, topic, max_message_bytes="5000")
        wait_until_seen(broker, topic)
        assert topics(broker, topic).ensure(topic) == TopicInfo(topic, 1, 5000)
        assert topics(broker, topic).look(topic) == TopicInfo(topic, 1)
        assert topics(broker, topic).look(fresh()) is None

    def test_topics_are_listed_by_pattern(self, broker: KafkaBroker) -> None:
        one, two = fresh("listed"), fresh("listed")
        broker.create_topic(one)
        broker.create_topic(f"{two}.x")
        here = topics(broker, one)
        assert {one, f"{two}.x"} <= set(here.list_topics())
        assert here.list_topics(f"{one}|{two}") == [one]
        assert not [name for name in here.list_topics() if name.startswith("__")]


class TestWriteAndRead:
    def test_what_is_written_is_read_back_in_order(self, spark: SparkSession, broker: KafkaBroker) -> None:
        one, two = fresh("a"), fresh("b")
        here = topics(broker, one, compression="lz4")
        here.ensure(one)
        here.ensure(two)
        rows = [(t, n % 3, f"k{n % 7}".encode(), f"{t[0]}{n:04}".encode(), n) for t in (one, two) for n in range(600)]
        # Only `sequence` tells the order.
        frame = spark.createDataFrame(random.Random(1).sample(rows, len(rows)), ROWS)
        before = dt.datetime.now(dt.UTC)
        here.write(frame)
        records = KafkaTopics(broker.bootstrap, one, pattern=f"{one}|{two}").read(spark)
        assert not records.ordered
        assert records.frame.schema.simpleString() == RECORD.simpleString()
        read = records.frame.orderBy("topic", "partition", "offset").collect()
        assert len(read) == len(rows)
        for topic in (one, two):
            for partition in range(3):
                here_read = [r for r in read if (r["topic"], r["partition"]) == (topic, partition)]
                assert [r["offset"] for r in here_read] == list(range(200))
                assert [(bytes(r["key"]), bytes(r["value"])) for r in here_read] == [
                    (k, v) for t, p, k, v, _ in rows if (t, p) == (topic, partition)
                ]
        stamps = {r["timestamp"] for r in read}
        assert all(abs(stamp.astimezone(dt.UTC) - before) < dt.timedelta(minutes=5) for stamp in stamps)

    def test_null_and_empty_stay_apart(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        here = topics(broker, topic)
        here.ensure(topic)
        pairs = [(b"k", None), (b"", b"v"), (None, b"v"), (b"k", b""), (b"", b""), (None, None), (b"\x00\xff", b"\x00")]
        here.write(spark.createDataFrame([(topic, 0, k, v, n) for n, (k, v) in enumerate(pairs)], ROWS))
        read = here.read(spark).frame.orderBy("offset").collect()
        assert [tuple(None if x is None else bytes(x) for x in (r["key"], r["value"])) for r in read] == pairs

    def test_headers_are_read(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        headers = [("a", b"1"), ("a", b"2"), ("n", None), ("e", b"")]
        send(broker, topic, {"value": b"with", "headers": headers}, {"value": b"without"})
        with_headers, without = topics(broker, topic).read(spark).frame.orderBy("offset").collect()
        got = [(h["key"], None if h["value"] is None else bytes(h["value"])) for h in with_headers["headers"]]
        assert got == headers
        assert not without["headers"]

    def test_a_frame_stands_still(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        send(broker, topic, {"value": b"1"})
        frame = topics(broker, topic).read(spark).frame
        send(broker, topic, {"value": b"2"})
        assert values(frame) == [b"1"]
        assert values(topics(broker, topic).read(spark).frame) == [b"1", b"2"]

    def test_where_to_start(self, spark: SparkSession, broker: KafkaBroker) -> None:
        busy, quiet, empty = (fresh("start") for _ in range(3))
        broker.create_topic(busy, partitions=2)
        broker.create_topic(quiet)
        broker.create_topic(empty)
        noon = round(time.time()) * 1000 - 3_600_000  # older messages would fall to the broker's retention
        send(broker, busy, *({"value": f"{n}".encode(), "timestamp": noon + n, "partition": 0} for n in range(4)))
        send(broker, quiet, {"value": b"old", "timestamp": noon - 1000})
        everything = f"{busy}|{quiet}|{empty}"

        def read(start: str) -> list[bytes | None]:
            frame = KafkaTopics(broker.bootstrap, busy, pattern=everything, start=start).read(spark).frame
            return sorted(values(frame), key=str)

        assert read("earliest") == [b"0", b"1", b"2", b"3", b"old"]
        assert read("latest") == []
        assert read(str(compose(noon + 2, 5))) == [b"2", b"3"]
        moment = dt.datetime.fromtimestamp(noon / 1000, dt.UTC)
        first, third = (moment + dt.timedelta(milliseconds=n) for n in (1, 3))
        assert read(first.isoformat().replace("+00:00", "Z")) == [b"1", b"2", b"3"]
        assert read(third.replace(tzinfo=None).isoformat(sep=" ")) == [b"3"]
        assert read(third.astimezone(dt.timezone(dt.timedelta(hours=8))).isoformat()) == [b"3"]
        assert read((moment + dt.timedelta(days=300)).date().isoformat()) == []
        with pytest.raises(ConfigError, match="start cannot be 'yesterday'"):
            read("yesterday")

    def test_messages_that_went_meanwhile(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        send(broker, topic, {"value": b"1"}, {"value": b"2"})
        here = topics(broker, topic)
        frame = here.read(spark).frame
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (deleted,) = admin.delete_records([TopicPartition(topic, 0, 2)]).values()
        deleted.result(30)
        with pytest.raises(TransientError, match="data may have been lost") as error, kafka_errors(here.where):
            frame.collect()
        assert "\n" not in str(error.value)
        assert here.read(spark).frame.collect() == []

    def test_what_expired_may_have_been_after_a_start(self, broker: KafkaBroker) -> None:
        topic, noon = fresh(), 1_700_000_000_000
        broker.create_topic(topic, 3)
        sent = [(0, 1), (0, 2), (0, 3), (1, 9), (2, 9)]  # partition 1 keeps its only message, partition 2 none
        send(broker, topic, *({"value": b"", "partition": at, "timestamp": noon + ms} for at, ms in sent))
        here = topics(broker, topic)
        assert here.expired_since(compose(noon)) is None
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for deleted in admin.delete_records([TopicPartition(topic, 0, 1), TopicPartition(topic, 2, 1)]).values():
            deleted.result(30)
        for start in (1, compose(noon), compose(noon + 2)):
            assert here.expired_since(start) == f"topic {topic} partition 0 up to offset 0"
        assert here.expired_since(compose(noon + 3)) is None
        assert replace(here, start="latest").expired_since(1) is None

    def test_a_broker_that_is_too_slow_may_be_asked_again(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        send(broker, topic, {"value": b"1"})
        hasty = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "kafkaConsumer.pollTimeoutMs": "0"}
        with pytest.raises(TransientError, match="Cannot fetch record for offset 0") as error, kafka_errors("here"):
            spark.read.format("kafka").options(**hasty).load().collect()
        assert "\n" not in str(error.value)

    def test_what_was_not_committed_is_left_out(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
        producer.init_transactions(30)
        for value, end in ((b"yes", producer.commit_transaction), (b"no", producer.abort_transaction)):
            producer.begin_transaction()
            producer.produce(topic, value=value, on_delivery=lambda *_: None)
            producer.flush(30)
            end(30)
        assert values(topics(broker, topic).read(spark).frame) == [b"yes"]

    def test_nothing_to_read(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        with pytest.raises(ConfigError, match=f"no topic '{topic}'"):
            topics(broker, topic).read(spark)
        with pytest.raises(ConfigError, match="no topic that matches"):
            KafkaTopics(broker.bootstrap, topic, pattern=f"{topic}.*").read(spark)
        with pytest.raises(ConfigError, match="is no regular expression"):
            KafkaTopics(broker.bootstrap, topic, pattern="*").read(spark)

    @pytest.mark.parametrize("acks", ["0", "1"])
    def test_fewer_acknowledgements(self, spark: SparkSession, broker: KafkaBroker, acks: str) -> None:
        topic = fresh()
        here = topics(broker, topic, required_acks=acks, partition_num="1", kafka_client_id="ours-1")
        here.ensure(topic)
        here.write(spark.createDataFrame([(topic, 0, b"k", f"{n:03}".encode(), n) for n in range(200)], ROWS))
        assert values(here.read(spark).frame) == [f"{n:03}".encode() for n in range(200)]

    def test_large_messages(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic, small = fresh(), fresh()
        with_settings(broker, topic, max_message_bytes="6000000")
        with_settings(broker, small)
        wait_until_seen(broker, small)
        large = spark.createDataFrame([(topic, 0, b"k", b"x" * 5_000_000, 1)], ROWS)
        topics(broker, topic, max_message_bytes=str(5_000_000 + 1 + 36)).write(large)  # TiCDC's count, just enough
        assert [len(v or b"") for v in values(topics(broker, topic).read(spark).frame)] == [5_000_000]
        for here in (topics(broker, topic, max_message_bytes="4000000"), topics(broker, small)):
            with pytest.raises(TerminalError) as error:
                here.write(large.replace(topic, here.topic, ["topic"]))
            assert error.value.code == "CDC:ErrMessageTooLarge"
            assert "\n" not in str(error.value)

    def test_a_partition_that_is_not_there(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        here = topics(broker, topic, dial_timeout="1s")
        with pytest.raises(Unreachable, match=r"Partition 1 of topic|not present in metadata") as error:
            here.write(spark.createDataFrame([(topic, 1, b"k", b"v", 1)], ROWS))
        assert "\n" not in str(error.value)

    def test_errors_of_the_rows_go_through(self, spark: SparkSession, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        rows = spark.createDataFrame([(topic, 0, b"k", b"v", 1)], ROWS)
        with pytest.raises(Exception, match="these rows are bad"):
            topics(broker, topic).write(
                rows.selectExpr(
                    "topic",
                    "partition",
                    "key",
                    "sequence",
                    "CAST(raise_error('these rows are bad') AS binary) AS value",
                )
            )


class TestCredentials:
    def secured(
        self, broker: KafkaBroker, topic: str, user: str, password: str, mechanism: str = "plain"
    ) -> KafkaTopics:
        params = {"sasl-mechanism": mechanism, "sasl-user": user, "sasl-password": password}
        return KafkaTopics(broker.sasl_bootstrap, topic, KafkaOptions.from_params(params))

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
    def test_the_right_password(self, spark: SparkSession, broker: KafkaBroker, mechanism: str) -> None:
        broker.enable_scram()
        topic = fresh()
        here = self.secured(broker, topic, broker.user, broker.password, mechanism)
        assert here.ensure(topic) == TopicInfo(topic, 3, LIMIT)
        here.write(spark.createDataFrame([(topic, 0, b"k", b"v", 1)], ROWS))
        assert values(here.read(spark).frame) == [b"v"]

    @pytest.mark.parametrize(
        ("user", "password", "mechanism"),
        [
            ("alice", 'hu"sh\\', "PLAIN"),
            ("bob", "hush", "PLAIN"),
            ("alice", 'hu"sh\\', "SCRAM-SHA-512"),
            ("bob", "hush", "SCRAM-SHA-512"),
            ("alice", "hush", "SCRAM-SHA-256"),  # which the broker does not offer
        ],
    )
    def test_wrong_credentials(
        self, spark: SparkSession, broker: KafkaBroker, user: str, password: str, mechanism: str
    ) -> None:
        here = self.secured(broker, "t", user, password, mechanism)
        rows = spark.createDataFrame([("t", 0, b"k", b"v", 1)], ROWS)
        for use in (lambda: here.ensure("t"), lambda: here.write(rows), lambda: here.read(spark), here.list_topics):
            began = time.monotonic()
            refusal = r"(Invalid username or password|invalid credentials|PLAIN)"
            with pytest.raises(ConfigError, match=f"Kafka does not let us in: .*{refusal}") as error:
                use()
            assert time.monotonic() - began < QUICK
            assert "\n" not in str(error.value)
            assert password not in str(error.value)
        assert password not in repr(here)

    def test_credentials_for_spark_alone(
        self, spark: SparkSession, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A password changed between the look at the cluster and Spark's turn."""
        topic = fresh()
        broker.create_topic(topic)
        here = self.secured(broker, topic, broker.user, broker.password)
        changed = self.secured(broker, topic, broker.user, "hush").options.for_spark_writes()
        monkeypatch.setattr(KafkaOptions, "for_spark_writes", lambda _: changed)
        with pytest.raises(ConfigError, match="Kafka says: Authentication failed") as error:
            here.write(spark.createDataFrame([(topic, 0, b"k", b"v", 1)], ROWS))
        assert "hush" not in str(error.value)
        assert "\n" not in str(error.value)

    def test_tokens_for_client_credentials(
        self, spark: SparkSession, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        topic, authority, tls = fresh(), Authority(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*authority.issue("tokens"))
        with TokenServer(broker.issuer) as tokens, TokenServer(broker.issuer, tls) as private:

            def here(secret: str, url: str) -> KafkaTopics:
                params = {
                    "sasl-mechanism": "oauthbearer",
                    "sasl-oauth-client-id": tokens.client,
                    "sasl-oauth-client-secret": base64.b64encode(secret.encode()).decode(),
                    "sasl-oauth-token-url": url,
                    "sasl-oauth-scopes": "kafka more",
                }
                return KafkaTopics(broker.sasl_bootstrap, topic, KafkaOptions.from_params(params))

            rows = spark.createDataFrame([(topic, 0, b"k", b"v", 1)], ROWS)
            right = here(tokens.secret, tokens.url)
            assert right.ensure(topic) == TopicInfo(topic, 3, LIMIT)
            right.write(rows)
            assert values(right.read(spark).frame) == [b"v"]
            form = {"grant_type": ["client_credentials"], "scope": ["kafka more"]}
            assert tokens.asked == [form] * len(tokens.asked)
            assert len(tokens.asked) > 2  # librdkafka's each time, and Java's
            wrong, nobody = here("hush", tokens.url), here("hush", "http://127.0.0.1:1/token")
            with pytest.raises(ConfigError, match=r"Kafka does not let us in: .*invalid_client") as refused:
                wrong.ensure(topic)
            with pytest.raises(Unreachable, match=r"connect.*sasl-oauth-token-url") as missing:
                nobody.ensure(topic)
            with pytest.raises(ConfigError, match="certificate"):
                here(tokens.secret, private.url).list_topics()
            monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
            assert topic in here(tokens.secret, private.url).list_topics()
            changed = nobody.options.for_spark_writes()  # a server that executors do not reach
            monkeypatch.setattr(KafkaOptions, "for_spark_writes", lambda _: changed)
            with pytest.raises(Unreachable, match=r"Kafka says: .*token-url") as alone:
                right.write(rows)
        for error in (refused, missing, alone):
            assert "hush" not in str(error.value)
            assert "aHVzaA==" not in str(error.value)
            assert "\n" not in str(error.value)

    def test_amazon_s_identity(self, spark: SparkSession, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        """Amazon's library signs offline; what it gives is what the broker gets, which here takes tokens of its own."""
        here = KafkaTopics(broker.sasl_bootstrap, topic := fresh(), KafkaOptions(sasl_mechanism="aws_msk_iam"))
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(ConfigError, match="set AWS_REGION"):
            here.ensure(topic)
        for name, value in {"REGION": "eu-central-1", "ACCESS_KEY_ID": "AKID", "SECRET_ACCESS_KEY": "hush"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        token, expires = here.options.for_librdkafka()["oauth_cb"]("")
        signed = base64.urlsafe_b64decode(token + "==").decode()
        assert signed.startswith("https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
        assert "Credential=AKID%2F" in signed
        assert 0 < expires - time.time() <= 900
        with pytest.raises(ConfigError, match="Kafka does not let us in") as refused:
            here.ensure(topic)
        assert "hush" not in str(refused.value)
        signer = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider.generate_auth_token"
        given = (broker.issuer.token("tidecast", "kafka"), (time.time() + 900) * 1000)
        monkeypatch.setattr(signer, lambda region: given)
        assert here.ensure(topic) == TopicInfo(topic, 3, LIMIT)
        with pytest.raises(ConfigError, match=r"IAMClientCallbackHandler.*aws-msk-iam-auth"):  # Spark has no such jar
            here.write(spark.createDataFrame([(topic, 0, b"k", b"v", 1)], ROWS))

    def test_kerberos_takes_a_client_that_has_it(self) -> None:
        """The package's wheels have none; where one was built with it, nobody answers at this port."""
        named = {"auth-type": "keytab", "keytab-path": "/k", "user": "u", "realm": "R", "service-name": "kafka"}
        params = {"sasl-mechanism": "gssapi", **{f"sasl-gssapi-{name}": value for name, value in named.items()}}
        options = KafkaOptions.from_params({**params, "dial-timeout": "1s"})
        with pytest.raises((MissingRuntime, Unreachable), match=r"without SASL's GSSAPI|does not answer"):
            KafkaTopics("127.0.0.1:1", "t", options).ensure("t")
        module = 'Krb5LoginModule required useKeyTab="true" storeKey="true" keyTab="/k" principal="u@R";'
        assert options.for_spark()["kafka.sasl.jaas.config"].endswith(module)
        assert options.for_spark()["kafka.sasl.kerberos.service.name"] == "kafka"
        assert options.for_librdkafka()["sasl.kerberos.principal"] == "u@R"

    def test_no_credentials_where_they_are_wanted(self, broker: KafkaBroker) -> None:
        with pytest.raises(Unreachable, match="sasl-mechanism"):
            KafkaTopics(broker.sasl_bootstrap, "t").ensure("t")

    def test_tls_where_there_is_none(self, broker: KafkaBroker) -> None:
        with pytest.raises(Unreachable, match=r"(?i)ssl"):
            topics(broker, "t", enable_tls="true").ensure("t")


class TlsBroker(KafkaBroker):
    """A broker with one more listener, which wants TLS and a certificate of the authority's."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority

    def _command(self) -> Sequence[str | Path]:
        command = super()._command()
        (port,) = free_ports(1)
        self.tls_bootstrap = f"127.0.0.1:{port}"
        certificate, key = (path.read_text() for path in self.authority.issue("broker"))
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": key,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.ca.read_text(),
            "ssl.client.auth": "required",
        }
        properties = self.work / "server.properties"
        text = properties.read_text()
        text = text.replace("listeners=PLAINTEXT", f"listeners=SSL://{self.tls_bootstrap},PLAINTEXT")
        text = text.replace("map=PLAINTEXT", "map=SSL:SSL,PLAINTEXT")
        lines = (f"{name}={value.strip()}".replace("\n", "\\n\\\n") for name, value in settings.items())
        properties.write_text(text + "".join(f"{line}\n" for line in lines))
        return command


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(Authority(tmp_path_factory.mktemp("certificates"))) as running:
        yield running


@pytest.mark.kafka
class TestTls:
    def test_certificates_open_the_door(self, spark: SparkSession, tls_broker: TlsBroker) -> None:
        topic = fresh()
        cert, key = tls_broker.authority.issue("client")
        params = {"ca": str(tls_broker.authority.ca), "cert": str(cert), "key": str(key)}
        here = KafkaTopics(tls_broker.tls_bootstrap, topic, KafkaOptions.from_params(params))
        assert here.ensure(topic) == TopicInfo(topic, 3, LIMIT)
        here.write(spark.createDataFrame([(topic, 0, b"k", b"v", 1)], ROWS))
        assert values(here.read(spark).frame) == [b"v"]

    def test_an_authority_that_nobody_knows(self, tls_broker: TlsBroker) -> None:
        options = KafkaOptions.from_params({"enable-tls": "true"})
        with pytest.raises(ConfigError, match=r"(?i)certificate") as error:
            KafkaTopics(tls_broker.tls_bootstrap, "t", options).ensure("t")
        assert "\n" not in str(error.value)


class TestNobodyThere:
    def test_it_is_said_at_once(self, spark: SparkSession) -> None:
        with socket.create_server(("127.0.0.1", 0)) as one:
            port = one.getsockname()[1]
        here = KafkaTopics(f"127.0.0.1:{port}", "t")
        rows = spark.createDataFrame([("t", 0, b"k", b"v", 1)], ROWS)
        for use in (lambda: here.ensure("t"), lambda: here.write(rows), lambda: here.read(spark), here.list_topics):
            began = time.monotonic()
            with pytest.raises(Unreachable, match=r"Kafka does not answer: .*Connection refused") as error:
                use()
            assert time.monotonic() - began < QUICK
            assert str(port) in str(error.value)
            assert "\n" not in str(error.value)

    def test_a_server_that_says_nothing(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            options = KafkaOptions.from_params({"dial-timeout": "1500ms"})
            began = time.monotonic()
            with pytest.raises(Unreachable):
                KafkaTopics(f"127.0.0.1:{silent.getsockname()[1]}", "t", options).ensure("t")
            assert 1 < time.monotonic() - began < 2 * QUICK

    def test_one_broker_of_two_is_enough(self, broker: KafkaBroker) -> None:
        topic = fresh()
        broker.create_topic(topic)
        assert topic in KafkaTopics(f"127.0.0.1:1,{broker.bootstrap}", topic).list_topics()


class TestOptions:
    def test_defaults_are_ticdc_s(self) -> None:
        options = KafkaOptions.from_params({"protocol": "avro", "anything": "else"})
        assert options == KafkaOptions()
        assert (options.replication_factor, options.max_message_bytes, options.required_acks) == (1, 10485760, -1)
        assert options.security == "PLAINTEXT"
        assert options.for_spark_writes()["kafka.acks"] == "all"

    @pytest.mark.parametrize(
        ("params", "code"),
        [
            ({"partition-num": "0"}, "CDC:ErrKafkaInvalidPartitionNum"),
            ({"partition-num": "three"}, "CDC:ErrSinkURIInvalid"),
            ({"partition-num": "1_0"}, "CDC:ErrSinkURIInvalid"),
            ({"required-acks": "2"}, "CDC:ErrKafkaInvalidRequiredAcks"),
            ({"kafka-client-id": "a b"}, "CDC:ErrKafkaInvalidClientID"),
            ({"max-message-bytes": "0"}, "CDC:ErrCodecInvalidConfig"),
            ({"auto-create-topic": "yes"}, "CDC:ErrSinkURIInvalid"),
            ({"dial-timeout": "10"}, "CDC:ErrSinkURIInvalid"),
            ({"dial-timeout": "0s"}, "CDC:ErrKafkaInvalidConfig"),
            ({"write-timeout": "-1s"}, "CDC:ErrKafkaInvalidConfig"),
            ({"read-timeout": "0"}, "CDC:ErrKafkaInvalidConfig"),
            ({"replication-factor": "0"}, "CDC:ErrKafkaInvalidConfig"),
            ({"ca": "a", "cert": "b"}, "CDC:ErrKafkaInvalidConfig"),
            ({"ca": "a", "cert": "b", "key": "c", "enable-tls": "false"}, "CDC:ErrKafkaInvalidConfig"),
            ({"sasl-mechanism": "OTP"}, "CDC:ErrKafkaInvalidConfig"),
            ({"sasl-mechanism": "GSSAPI"}, "CDC:ErrKafkaInvalidConfig"),
            ({"sasl-mechanism": "GSSAPI", "sasl-gssapi-auth-type": "keytab"}, "CDC:ErrKafkaInvalidConfig"),
            ({"sasl-mechanism": "OAUTHBEARER"}, "CDC:ErrKafkaInvalidConfig"),
            ({"sasl-mechanism": "PLAIN", "sasl-oauth-client-id": "a"}, "CDC:ErrKafkaInvalidConfig"),
            ({**OAUTH, "sasl-oauth-token-url": "file:///etc/passwd"}, "CDC:ErrKafkaInvalidConfig"),
            ({**OAUTH, "sasl-oauth-token-url": "https://u:p@host/token"}, "CDC:ErrKafkaInvalidConfig"),
            ({**OAUTH, "sasl-oauth-grant-type": "password"}, "CDC:ErrKafkaInvalidConfig"),
            ({**OAUTH, "sasl-oauth-audience": "kafka"}, "CDC:ErrKafkaInvalidConfig"),
            ({"sasl-user": "alice"}, "CDC:ErrKafkaInvalidConfig"),
        ],
    )
    def test_what_cannot_be_is_refused(self, params: dict[str, str], code: str) -> None:
        with pytest.raises(ConfigError) as error:
            KafkaOptions.from_params(params)
        assert error.value.code == code

    @pytest.mark.parametrize("tls", ["true", "false"])
    def test_brokers_may_have_other_names_than_their_certificates(
        self, tls: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        options = KafkaOptions.from_params({"enable-tls": tls, "insecure-skip-verify": "1"})
        skips = tls == "true"
        assert (options.for_spark().get("kafka.ssl.endpoint.identification.algorithm") == "") is skips
        assert (options.for_librdkafka().get("ssl.endpoint.identification.algorithm") == "none") is skips
        assert ("names are not checked, but" in caplog.text) is skips

    def test_a_client_s_secret_is_base64_as_in_ticdc(self) -> None:
        for secret in ("hush!", "/w=="):  # the second is no text
            options = KafkaOptions.from_params({**OAUTH, "sasl-oauth-client-secret": secret})
            assert secret not in repr(options)
            for use in (options.for_spark, options.for_librdkafka):
                with pytest.raises(ConfigError, match="is not Base64") as error:
                    use()
                assert "hush" not in str(error.value)

    def test_a_message_of_just_the_size_passes_kafka_s_client(self) -> None:
        """It counts up to 93 bytes beside key and value, TiCDC 36."""
        options = KafkaOptions.from_params({"max-message-bytes": "1000"})
        assert int(options.for_spark_writes()["kafka.max.request.size"]) >= 1000 - 36 + 93
        for largest in (2**31 - 1, 2**40):  # of which Java's int has no more
            options = KafkaOptions.from_params({"max-message-bytes": str(largest)})
            assert options.for_spark_writes()["kafka.max.request.size"] == str(2**31 - 1)

    def test_durations_are_go_s(self) -> None:
        assert KafkaOptions.from_params({"dial-timeout": "1m1.5s"}).dial_timeout == 61.5
        assert KafkaOptions.from_params({"read-timeout": "250ms"}).read_timeout == 0.25

    def test_certificates(self, tmp_path: Path) -> None:
        paths = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
        for name, path in paths.items():
            Path(path).write_text(f"-----{name}-----")
        options = KafkaOptions.from_params({**paths, "sasl-mechanism": "scram-sha-256", "sasl-user": 'a"b\\'})
        assert options.security == "SASL_SSL"
        spark, native = options.for_spark(), options.for_librdkafka()
        assert spark["kafka.ssl.truststore.certificates"] == "-----ca-----"
        assert spark["kafka.ssl.keystore.certificate.chain"] == "-----cert-----"
        assert spark["kafka.ssl.keystore.key"] == "-----key-----"
        assert r'ScramLoginModule required username="a\"b\\" password="";' in spark["kafka.sasl.jaas.config"]
        assert native["ssl.ca.location"] == paths["ca"]
        assert native["sasl.mechanism"] == "SCRAM-SHA-256"
        with pytest.raises(ConfigError, match="No such file"):
            KafkaOptions(ca="/nowhere/ca", cert="/nowhere/cert", key="/nowhere/key").for_spark()
