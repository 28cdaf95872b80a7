"""What a source of Avro does not tell, and other protocols say: versions of tables, and the commit-ts of deletes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from avro_topic import INT, NUMBER, AvroTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import with_commit_ts

T0 = 1_700_000_000_000


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> AvroTopic:
    found = AvroTopic(spark, tmp_path / "avro")
    found.register(1, id=INT)
    found.register(2, id=INT, a=NUMBER)
    found.register(3, id=INT, a=NUMBER, b=NUMBER)
    found.register(4, extension=False, id=INT, a=NUMBER)
    return found


def published(
    topic: AvroTopic, spark: SparkSession, folder: Path, protocol: str
) -> tuple[tidecast.Published, str, list[dict[str, Any]]]:
    """Publish the topic to one partition; return what is told of it, where it is, and its messages."""
    sink = f"file://{folder}/{protocol}/out?protocol={protocol}"
    options = "&enable-tidb-extension=true" if protocol == "debezium" else ""
    done = tidecast.convert(
        topic.write(),
        f"{sink}&partition-num=1&format=jsonl{options}",
        source_schema_registry=topic.registry,
        schema_registry=f"file://{folder}/registry",
        tz="UTC",
        spark=spark,
    )
    lines = spark.read.text(f"{folder}/{protocol}/out").collect()
    records = sorted((json.loads(line.value) for line in lines), key=lambda record: record["offset"])
    return done, sink + options, [json.loads(base64.b64decode(r["value"])) for r in records if protocol == "simple"]


@pytest.mark.parametrize("protocol", ["simple", "debezium"])
def test_deletes_come_after_what_they_delete(
    topic: AvroTopic, spark: SparkSession, tmp_path: Path, protocol: str
) -> None:
    topic.delete(1, id=9)
    topic.put(1, 2, ts=T0, id=9, a=90)
    topic.put(1, 2, ts=T0 + 1, id=1, a=10)
    topic.delete(1, id=1)
    topic.put(1, 2, ts=T0 + 2, id=2, a=20)
    topic.put(1, 2, ts=T0 + 3, id=3, a=30)
    topic.delete(1, id=2)
    topic.put(1, 3, ts=T0 + 4, id=2, a=21, b=22)
    topic.delete(1, id=3)
    _, sink, messages = published(topic, spark, tmp_path, protocol)
    done = tidecast.replicate(sink, str(tmp_path / "tables"), tz="UTC", spark=spark)
    assert not done.dead_letters
    rows = DeltaTable(tmp_path / "tables/d/t").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["a"], row["b"]) for row in rows) == [(2, 21, 22), (9, 90, None)]
    told: set[int] = set()
    for message in messages:
        if message["type"] == "BOOTSTRAP":
            told.add(message["tableSchema"]["version"])
            assert [column["name"] for column in message["tableSchema"]["columns"]][:2] == ["id", "a"]
        else:
            assert message["schemaVersion"] in told
    assert told == ({2, 3} if protocol == "simple" else set())


def test_rows_without_any_commit_ts_keep_their_order(topic: AvroTopic, spark: SparkSession, tmp_path: Path) -> None:
    for n in range(3):
        topic.put(1, 4, id=n, a=n)
        topic.delete(1, id=n)
    done, _, (bootstrap, *rows) = published(topic, spark, tmp_path, "simple")
    assert bootstrap["type"] == "BOOTSTRAP"
    assert [(row["type"], (row.get("data") or row["old"])["id"]) for row in rows] == [
        (kind, str(n)) for n in range(3) for kind in ("INSERT", "DELETE")
    ]
    assert [warning.partition(" leave")[0] for warning in done.warnings] == ["rows without a commit-ts"]


def test_deletes_keep_the_commit_ts_that_they_have(topic: AvroTopic, spark: SparkSession, tmp_path: Path) -> None:
    topic.put(1, 2, ts=T0, id=1, a=10)
    topic.put(1, 2, ts=T0, id=2, a=20)
    topic.delete(1, ts=T0 + 5, id=1)
    topic.delete(1, id=2)
    topic.delete(1, ts=T0 + 9, id=3)
    _, _, messages = published(topic, spark, tmp_path, "simple")
    deletes = {message["old"]["id"]: message["commitTs"] for message in messages if message["type"] == "DELETE"}
    assert deletes == {"1": T0 + 5 << 18, "2": T0 + 5 << 18, "3": T0 + 9 << 18}


def test_a_delete_alone_has_the_next_commit_ts_of_its_partition(
    topic: AvroTopic, spark: SparkSession, tmp_path: Path
) -> None:
    topic.delete(1, id=1)
    topic.repeat_last()
    with tidecast.read(spark, topic.write(), schema_registry=topic.registry, tz="UTC") as events:
        (deletes,) = with_commit_ts(events, {"t/0": T0 << 18, "t/1": 7}).tables
        (unknown,) = with_commit_ts(events, {"t/1": 7}).tables
        found = [[row.commit_ts for row in one.frame.collect()] for one in (deletes, unknown)]
    assert found == [[(T0 << 18) + 1] * 2, [None] * 2]
