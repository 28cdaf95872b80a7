"""Rows of Canal-JSON that look alike before and after a schema change are of two versions of their table."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import TableSchema
from tidecast.protocols import DecodeOptions
from tidecast.protocols.canal_json._protocol import _of_files
from tidecast.protocols.canal_json._read import CanalReader


def message(commit_ts: int, **members: Any) -> bytes:
    head = {"database": "d", "table": "t", "es": 1, "_tidb": {"commitTs": commit_ts}}
    return json.dumps({**head, **members}).encode()


def change(commit_ts: int, sql: str) -> bytes:
    return message(commit_ts, isDdl=True, type="ALTER", sql=sql)


def row(commit_ts: int) -> bytes:
    types = {"mysqlType": {"id": "int", "a": "int"}, "sqlType": {"id": 4, "a": 4}}
    return message(commit_ts, isDdl=False, type="INSERT", pkNames=["id"], **types, data=[{"id": "1", "a": "2"}])


def test_a_schema_change_begins_a_version() -> None:
    changes = [change(20, "ALTER TABLE t DROP COLUMN a"), change(30, "ALTER TABLE t ADD COLUMN a INT")]
    values = [row(15), *changes, row(35), row(31), row(12)]
    messages = pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": values})
    reader = CanalReader(DecodeOptions(ordered=True))
    reader.controls(messages.append_column("offset", pa.array(range(len(values)))))
    found = reader.decoder.decode(messages).rows
    assert [(part.version.schema.version, part.at.tolist()) for part in found] == [(12, [0, 5]), (31, [3, 4])]
    assert len({part.version.name for part in found}) == 2


def test_a_folder_of_a_storage_sink_begins_one_too() -> None:
    tables = {b"%d" % since: TableSchema("d", "t", 0, since, ()) for since in (30, 10, 20)}
    values = [row(15), row(35), row(31), row(12)]
    messages = pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": values})
    found = _of_files("UTC", tables).decode(messages).rows
    assert [(part.version.schema.version, part.at.tolist()) for part in found] == [(12, [0, 3]), (31, [1, 2])]


ROWS = {
    1: message(1, type="INSERT", pkNames=["id"], mysqlType={"id": "int", "a": "int"}, data=[{"id": "1", "a": "1"}]),
    3: message(3, type="INSERT", pkNames=["id"], mysqlType={"id": "int"}, data=[{"id": "3"}]),
    5: message(5, type="INSERT", pkNames=["id"], mysqlType={"id": "int", "a": "int"}, data=[{"id": "5", "a": "5"}]),
}
CHANGES = {2: change(2, "ALTER TABLE d.t DROP COLUMN a"), 4: change(4, "ALTER TABLE d.t ADD COLUMN a INT")}


@pytest.mark.parametrize(
    "batches",
    [([1, 2, 4], [1, 3, 5]), ([1, 3, 5], [2, 4]), ([1, 3], [1, 5], [2, 4])],
    ids=str,
)
def test_a_column_that_comes_again_has_its_values(
    batches: tuple[list[int], ...], spark: SparkSession, tmp_path: Path
) -> None:
    """Wherever batches end: schema changes come in another partition, and rows may come once more."""
    topic, ends = tmp_path / "topic", [0, 0]
    topic.mkdir()
    for n, batch in enumerate(batches):
        lines = []
        for commit_ts in batch:
            partition = int(commit_ts in ROWS)
            value = base64.b64encode((ROWS | CHANGES)[commit_ts]).decode()
            lines.append(json.dumps({"partition": partition, "offset": ends[partition], "key": None, "value": value}))
            ends[partition] += 1
        (topic / f"{n}.jsonl").write_text("\n".join(lines) + "\n")
        tidecast.replicate(
            f"file://{topic}?protocol=canal-json",
            str(tmp_path / "tables"),
            ddl="try_evolve",
            checkpoint=str(tmp_path / "checkpoint"),
            spark=spark,
        )
    rows = spark.read.format("delta").load(f"{tmp_path}/tables/d/t").select("id", "a").collect()
    assert sorted(map(tuple, rows)) == [(1, None), (3, None), (5, 5)]
