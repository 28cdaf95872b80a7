"""Canal-JSON as the sink of `convert`: what is written reads back, and makes the same tables."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from growing_topic import ID, GrowingTopic, ddl, row, table
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_N = {**ID, "name": "n", "nullable": True}


def _messages(topic: Path) -> list[tuple[int, dict[str, Any]]]:
    """The messages of a topic in Parquet files, each with its partition."""
    found = [record for file in sorted(topic.glob("*.parquet")) for record in pq.read_table(file).to_pylist()]
    return [(record["partition"], json.loads(record["value"])) for record in found]


@pytest.fixture
def source(tmp_path: Path) -> str:
    topic = GrowingTopic(tmp_path / "source")
    changes = [row(_T0 + 1 + n, _T0, id=n, n=n * n) for n in range(20)]
    changes += [
        row(_T0 + 40 + n, _T0, kind="UPDATE", id=n, n=-n) | {"old": {"id": str(n), "n": str(n * n)}} for n in range(5)
    ]
    changes += [row(_T0 + 60 + n, _T0, kind="DELETE", id=n, n=n * n) for n in range(10, 15)]
    topic.grow([ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,`n` INT)", _T0, table(_T0, ID, _N)), *changes])
    return topic.uri


@pytest.mark.parametrize("options", ["", "&content-compatible=true", "&only-output-updated-columns=true"])
def test_it_makes_the_same_tables(spark: SparkSession, tmp_path: Path, source: str, options: str) -> None:
    sink = f"file://{tmp_path}/sink/changes?protocol=canal-json&layout=topics&enable-tidb-extension=true&partition-num=3{options}"
    published = tidecast.convert(source, sink, spark=spark)
    assert published.total == 30
    assert not published.dead_letters
    found = _messages(tmp_path / "sink" / "changes")
    kinds = Counter(message["type"] for _, message in found)
    assert kinds == {"CREATE": 1, "INSERT": 20, "UPDATE": 5, "DELETE": 5}
    assert [partition for partition, message in found if message["isDdl"]] == [0]
    update = next(message for _, message in found if message["type"] == "UPDATE" and message["data"][0]["id"] == "3")
    assert update["old"] == [{"n": "9"} if options else {"id": "3", "n": "9"}]
    rows = []
    for name, uri in (("simple", source), ("canal", sink)):
        report = tidecast.replicate(uri, str(tmp_path / name), spark=spark)
        assert not report.dead_letters
        rows.append(sorted(map(tuple, spark.read.format("delta").load(f"{tmp_path}/{name}/d/t").collect())))
    assert rows[0] == rows[1]
    assert len(rows[0]) == 15


def test_an_update_whose_old_row_nobody_knows_reads_back(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(tmp_path / "source")
    change = row(_T0 + 1, _T0, kind="UPDATE", id=1, n=7)
    topic.grow([ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,`n` INT)", _T0, table(_T0, ID, _N)), change])
    registry = f"file://{tmp_path}/registry"
    avro = f"file://{tmp_path}/avro/d_t?protocol=avro&enable-tidb-extension=true"
    tidecast.convert(topic.uri, avro, schema_registry=registry, spark=spark)
    sink = f"file://{tmp_path}/sink/changes?protocol=canal-json&layout=topics&enable-tidb-extension=true"
    tidecast.convert(avro, sink, source_schema_registry=registry, spark=spark)
    ((_, message),) = _messages(tmp_path / "sink" / "changes")
    assert (message["type"], message["old"], message["data"]) == ("UPDATE", None, [{"id": "1", "n": "7"}])
    report = tidecast.replicate(sink, str(tmp_path / "tables"), spark=spark)
    assert not report.dead_letters
    assert spark.read.format("delta").load(f"{tmp_path}/tables/d/t").collect() == [(1, 7)]
