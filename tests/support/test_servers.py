"""The servers that other tests lean on do what those tests assume."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from servers import KafkaBroker, SchemaRegistry


def sasl(broker: KafkaBroker, password: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": broker.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": broker.user,
        "sasl.password": password,
        "log_level": 0,
    }


def record(*fields: dict[str, str]) -> Schema:
    return Schema(json.dumps({"type": "record", "name": "r", "fields": fields}), "AVRO")


NARROW = record({"name": "id", "type": "int"})
EVOLVED = record({"name": "id", "type": "int"}, {"name": "more", "type": "string", "default": ""})
# A reader of this cannot read what NARROW wrote: the new field has no default.
WIDER = record({"name": "id", "type": "int"}, {"name": "more", "type": "string"})


def test_a_message_comes_back_from_the_partition_it_was_sent_to(broker: KafkaBroker) -> None:
    broker.create_topic("servers-round-trip", partitions=3)
    producer = broker.producer()
    headers: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("h", b"2")]
    producer.produce("servers-round-trip", key=b"k", value=b"v", partition=2, headers=headers)
    assert producer.flush(30) == 0

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "servers", "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe(["servers-round-trip"])
        message = consumer.poll(30)
        assert message is not None
        assert (message.error(), message.partition(), message.key(), message.value()) == (None, 2, b"k", b"v")
        assert message.headers() == headers


def test_no_topic_appears_by_itself(broker: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.list_topics("servers-absent", timeout=30)
    time.sleep(0.5)
    assert "servers-absent" not in admin.list_topics(timeout=30).topics


def test_the_sasl_listener_takes_the_right_password_only(broker: KafkaBroker) -> None:
    assert AdminClient(sasl(broker, broker.password)).list_topics(timeout=30).brokers
    with pytest.raises(KafkaException):
        AdminClient(sasl(broker, "wrong")).list_topics(timeout=3)


def test_an_incompatible_schema_is_a_conflict(registry: SchemaRegistry) -> None:
    with SchemaRegistryClient({"url": registry.url}) as client:
        first = client.register_schema("servers-value", NARROW)
        assert client.get_schema(first).schema_str == NARROW.schema_str
        with pytest.raises(SchemaRegistryError) as refusal:
            client.register_schema("servers-value", WIDER)
        assert refusal.value.http_status_code == 409
        assert client.register_schema("servers-value", EVOLVED) != first


def test_the_secured_registry_wants_credentials(secured_registry: SchemaRegistry) -> None:
    known = f"{secured_registry.user}:{secured_registry.password}"
    with SchemaRegistryClient({"url": secured_registry.url, "basic.auth.user.info": known}) as client:
        client.register_schema("servers-value", NARROW)
        assert "servers-value" in client.get_subjects()
    for url in (secured_registry.url, secured_registry.login_url.replace(":secret@", ":wrong@")):
        with SchemaRegistryClient({"url": url}) as client, pytest.raises(SchemaRegistryError) as refusal:
            client.get_subjects()
        assert refusal.value.http_status_code == 401


@pytest.mark.kafka
def test_a_server_ends_with_its_block() -> None:
    with SchemaRegistry() as server:
        pid, work = server._process.pid, server.work
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not work.exists()
