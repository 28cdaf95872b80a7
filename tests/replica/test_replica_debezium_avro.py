"""Tables from Debezium's envelope as Avro: written by tidecast, and by Debezium's own connector."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from debezium_avro import COMMIT_TS, Subject, envelope, key, optional, row
from growing_topic import ID, GrowingTopic, Said, ddl, table, watermark
from growing_topic import row as simple_row
from pyspark.sql import SparkSession
from servers import KafkaBroker, SchemaRegistry
from shop import LOG, actual, expected
from small_replica import SmallReplica

import tidecast
from tidecast.registry import CONFLUENT

SHOP_LOG = Path(tidecast.__file__).parent / "data" / "shop.jsonl.gz"


def dispatchers(folder: Path) -> str:
    config = folder / "feed.toml"
    config.write_text('[sink]\ndispatchers = [{ matcher = ["*.*"], topic = "{schema}.{table}" }]\n')
    return str(config)


@pytest.mark.parametrize("told", [True, False])
def test_the_shop_comes_out_as_it_was(told: bool, spark: SparkSession, tmp_path: Path) -> None:
    """But for the default of a column that was added, which no schema has where no schema change is sent."""
    shop = LOG.Shop()
    shop.run()
    registry = f"file://{tmp_path}/schemas"
    topics = f"file://{tmp_path}/topics/shop?protocol=debezium-avro&enable-tidb-extension=true"
    done = tidecast.convert(
        f"file://{SHOP_LOG}?protocol=simple",
        f"{topics}&avro-bigint-unsigned-handling-mode=string&avro-enable-watermark={str(told).lower()}",
        config=dispatchers(tmp_path),
        schema_registry=registry,
        tz="UTC",
        spark=spark,
    )
    assert not done.dead_letters
    result = tidecast.replicate(
        f"{topics}&topics=shop%5C..*", str(tmp_path / "tables"), schema_registry=registry, tz="UTC", spark=spark
    )
    assert not result.dead_letters
    for one in shop.tables:
        got = actual(str(tmp_path / "tables" / "shop" / one.name), one.key)
        assert [shown(one, row, told) for row in got] == [shown(one, row, told) for row in expected(one)]
    names = {path.name for path in (tmp_path / "schemas" / "subjects").iterdir()}
    assert {f"shop.{one.name}-{part}" for one in shop.tables for part in ("key", "value")} <= names


def shown(table: Any, row: dict[str, Any], told: bool) -> dict[str, Any]:
    """Return a row with decimals as numbers, which the shop tells as text, and no column that was added."""
    decimals = {c.name for c in table.columns if c.type.described["mysqlType"] == "decimal"}
    row = {name: Decimal(v) if v is not None and name in decimals else v for name, v in row.items()}
    return row if told else {name: value for name, value in row.items() if name != "channel"}


FIELDS = [optional("id", "int", tidb_type="int"), optional("v", "string", tidb_type="varchar")]


class Written:
    """A topic of messages written by fastavro, and the tables that it becomes."""

    def __init__(self, spark: SparkSession, folder: Path, *subjects: Subject) -> None:
        self._spark, self._folder, self._lines = spark, folder, 0
        for subject in subjects:
            place = folder / "schemas" / "subjects" / f"s{subject.id}" / "1.json"
            place.parent.mkdir(parents=True)
            place.write_text(json.dumps({"id": subject.id, "version": 1, "schema": json.dumps(subject.schema)}))

    def replicate(self, *messages: tuple[bytes | None, bytes | None], **options: Any) -> tidecast.Replicated:
        """Apply the topic with these messages behind those before."""
        topic = self._folder / "topic"
        topic.mkdir(exist_ok=True)
        lines = []
        for key_bytes, value in messages:
            parts = (None if part is None else base64.b64encode(part).decode() for part in (key_bytes, value))
            members = dict(zip(("key", "value"), parts, strict=True))
            lines.append(json.dumps({"partition": 0, "offset": self._lines, **members}) + "\n")
            self._lines += 1
        (topic / f"{self._lines:05}.jsonl").write_text("".join(lines))
        return tidecast.replicate(
            f"file://{topic}?protocol=debezium-avro",
            str(self._folder / "tables"),
            schema_registry=f"file://{self._folder}/schemas",
            spark=self._spark,
            **options,
        )

    def rows(self, table: str = "shop/t") -> list[tuple[Any, ...]]:
        """Return the rows of a table, in order."""
        return sorted(map(tuple, self._spark.read.format("delta").load(f"{self._folder}/tables/{table}").collect()))


def test_rows_of_later_runs_and_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    keys, values = Subject(1, key(FIELDS[:1])), Subject(2, envelope(FIELDS))
    wider = Subject(3, envelope([*FIELDS, optional("n", "int", tidb_type="int")]))
    topic = Written(spark, tmp_path, keys, values, wider)

    def change(op: str, n: int, before: Any, after: Any, ts: int, subject: Subject = values) -> tuple[bytes, bytes]:
        return keys.message({"id": n}), subject.message(row(op, before, after, commit_ts=COMMIT_TS + ts))

    topic.replicate(
        change("c", 1, None, {"id": 1, "v": "a"}, 1),
        change("c", 2, None, {"id": 2, "v": "b"}, 2),
        change("u", 1, {"id": 1, "v": "a"}, {"id": 1, "v": "c"}, 3),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    assert topic.rows() == [(1, "c"), (2, "b")]
    strange = (None, b"\0\0\0\0\x09x")
    report = topic.replicate(
        change("d", 2, {"id": 2, "v": "b"}, None, 4),
        change("u", 1, {"id": 1, "v": "c"}, {"id": 1, "v": "old"}, 2),
        change("c", 3, None, {"id": 3, "v": "d", "n": 7}, 5, wider),
        strange,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    assert topic.rows() == [(1, "c", None), (3, "d", 7)]
    assert dict(report.dead_letters) == {"unknown-schema-id": 1}


def test_resolved_rows_alone_are_applied(spark: SparkSession, tmp_path: Path) -> None:
    """From Simple, with a schema change and watermarks on the way."""
    small = SmallReplica(spark, tmp_path)
    column: Said = {**ID, "name": "b", "nullable": True}
    small.topic.grow(
        [
            ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", COMMIT_TS, table(COMMIT_TS, ID)),
            simple_row(COMMIT_TS + 1, COMMIT_TS, id=1),
            ddl("ALTER TABLE `d`.`t` ADD COLUMN `b` INT", COMMIT_TS + 2, table(COMMIT_TS + 2, ID, column)),
            simple_row(COMMIT_TS + 3, COMMIT_TS + 2, id=2, b=5),
            watermark(COMMIT_TS + 4),
            simple_row(COMMIT_TS + 5, COMMIT_TS + 2, id=3, b=6),
        ]
    )
    registry = f"file://{tmp_path}/schemas"
    sink = f"file://{tmp_path}/avro/t?protocol=debezium-avro&enable-tidb-extension=true&avro-enable-watermark=true"
    done = tidecast.convert(small.topic.uri, sink, schema_registry=registry, spark=spark)
    assert done.watermark == COMMIT_TS + 4
    options: Any = {"checkpoint": str(tmp_path / "checkpoint"), "resolved_only": True, "ddl": "evolve"}
    report = tidecast.replicate(sink, str(small.to), schema_registry=registry, spark=spark, **options)
    assert not report.dead_letters
    assert small.rows() == [(1, None), (2, 5)]


def test_a_column_that_was_dropped_and_added_is_another_one(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows have the registered schema of those before, and come in one batch with them."""
    small = SmallReplica(spark, tmp_path)
    a, b = ({**ID, "name": name, "nullable": True} for name in "ab")
    create, drop, add = (COMMIT_TS + n for n in (0, 10, 20))
    small.topic.grow(
        [
            ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY, `b` INT, `a` INT)", create, table(create, ID, b, a)),
            simple_row(create + 1, create, id=1, b=2, a=1),
            ddl("ALTER TABLE `d`.`t` DROP COLUMN `a`", drop, table(drop, ID, b)),
            ddl("ALTER TABLE `d`.`t` ADD COLUMN `a` INT", add, table(add, ID, b, a)),
            simple_row(add + 1, add, id=2, b=8, a=7),
        ]
    )
    registry = f"file://{tmp_path}/schemas"
    written = f"file://{tmp_path}/written?protocol=debezium-avro&enable-tidb-extension=true&avro-enable-watermark=true"
    tidecast.convert(small.topic.uri, written, schema_registry=registry, tz="UTC", spark=spark)
    to = str(tmp_path / "tables")
    tidecast.replicate(written, to, schema_registry=registry, tz="UTC", spark=spark, ddl="try_evolve")
    rows = spark.read.format("delta").load(f"{to}/d/t").select("id", "b", "a").collect()
    assert sorted(map(tuple, rows)) == [(1, 2, None), (2, 8, 7)]


@pytest.mark.parametrize("sink", ["avro&avro-include-before-value=true", "debezium-avro"])
@pytest.mark.parametrize("first", [2, 3])
def test_a_schema_that_returns_loses_no_values(first: int, sink: str, spark: SparkSession, tmp_path: Path) -> None:
    """A column that was dropped has come again, and no schema change tells so: it stays in the table."""
    a, b = ({**ID, "name": name, "nullable": True} for name in "ab")
    versions = {COMMIT_TS: (ID, a, b), COMMIT_TS + 10: (ID, a), COMMIT_TS + 20: (ID, a, b)}
    source = GrowingTopic(tmp_path / "source")
    registry, to = f"file://{tmp_path}/schemas", str(tmp_path / "tables")
    written = f"file://{tmp_path}/written?protocol={sink}&enable-tidb-extension=true"
    options: Any = {"schema_registry": registry, "spark": spark}
    for n, (since, columns) in enumerate(versions.items(), 1):
        source.grow([ddl("ALTER TABLE `d`.`t`", since, table(since, *columns))])
        values: Any = {column["name"]: n for column in columns}
        source.grow([simple_row(since + 1, since, **values)])
        if n in (first, len(versions)):
            tidecast.convert(source.uri, written, **options)
            tidecast.replicate(written, to, ddl="try_evolve", checkpoint=str(tmp_path / "checkpoint"), **options)
    rows = spark.read.format("delta").load(f"{to}/d/t").select("id", "a", "b").collect()
    assert sorted(map(tuple, rows)) == [(1, 1, 1), (2, 2, None), (3, 3, 3)]


@pytest.mark.kafka
def test_kafka_a_real_registry_and_confluents_own_classes(
    broker: KafkaBroker, registry: SchemaRegistry, spark: SparkSession, tmp_path: Path
) -> None:
    """Confluent's deserializer reads what is sent, and what its serializer sends is read here."""
    small = SmallReplica(spark, tmp_path)
    column: Said = {**ID, "name": "b", "nullable": True}
    small.topic.grow(
        [
            ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", COMMIT_TS, table(COMMIT_TS, ID)),
            simple_row(COMMIT_TS + 1, COMMIT_TS, id=1),
            ddl("ALTER TABLE `d`.`t` ADD COLUMN `b` INT", COMMIT_TS + 2, table(COMMIT_TS + 2, ID, column)),
            simple_row(COMMIT_TS + 3, COMMIT_TS + 2, id=2, b=5),
            watermark(COMMIT_TS + 4),
        ]
    )
    topic = "debezium.avro"
    sink = f"kafka://{broker.bootstrap}/{topic}?protocol=debezium-avro&enable-tidb-extension=true"
    sink += "&avro-enable-watermark=true&partition-num=1"
    done = tidecast.convert(small.topic.uri, sink, schema_registry=registry.url, spark=spark)
    assert not done.dead_letters
    with SchemaRegistryClient({"url": registry.url}) as client:
        read = AvroDeserializer(client)
        said = [
            # A watermark's key has no fields: such a message is too short for Confluent's class in Python.
            (None if len(key_bytes or b"") == CONFLUENT.length else read(key_bytes, None), read(value, None))
            for messages in broker.messages(topic).values()
            for key_bytes, value in messages
        ]
        rows = [(key_said, value["after"]) for key_said, value in said if value.get("op") == "c"]
        assert rows == [({"id": 1}, {"id": 1}), ({"id": 2}, {"id": 2, "b": 5})]
        assert [value["ddl"].split()[0] for _, value in said if "ddl" in value] == ["CREATE", "ALTER"]
        assert [value["source"]["commit_ts"] for _, value in said if value.get("op") == "m"] == [COMMIT_TS + 4]
        assert {f"{topic}-key", f"{topic}-value"} <= {*client.get_subjects()}
        send = {
            part: AvroSerializer(client, json.dumps(schema))
            for part, schema in (("key", key(FIELDS[:1], "a.shop.k")), ("value", envelope(FIELDS, "a.shop.k")))
        }
        after = {"id": 7, "v": "seven"}
        message = row("c", None, after, table="k")
        broker.create_topic("debezium.theirs")
        pair = [
            send["key"]({"id": 7}, SerializationContext("debezium.theirs", MessageField.KEY)),
            send["value"](message, SerializationContext("debezium.theirs", MessageField.VALUE)),
        ]
        producer = broker.producer()
        producer.produce("debezium.theirs", key=pair[0], value=pair[1])
        assert producer.flush(30) == 0
    source = f"kafka://{broker.bootstrap}/{topic}?protocol=debezium-avro&topics=debezium.%2A"
    report = tidecast.replicate(source, str(small.to), schema_registry=registry.url, spark=spark, ddl="evolve")
    assert not report.dead_letters
    assert small.rows() == [(1, None), (2, 5)]
    assert small.rows(table="shop/k") == [(7, "seven")]
