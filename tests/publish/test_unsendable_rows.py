"""Rows that have no form in the sink's protocol: their records lie whole among the dead letters."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidecast

TABLE = {
    "schema": "shop",
    "table": "notes",
    "tableID": 7,
    "version": 400,
    "columns": [
        {
            "name": name,
            "dataType": {"mysqlType": kind, "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 20},
            "nullable": False,
            "default": None,
        }
        for name, kind in (("id", "int"), ("body", "varchar"))
    ],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}


def record(offset: int, message: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": "notes",
        "partition": 0,
        "offset": offset,
        "timestamp": 1_700_000_000_000 + offset,
        "key": base64.b64encode(b"key").decode(),
        "value": base64.b64encode(json.dumps(message).encode()).decode(),
        "headers": [{"key": "from", "value": base64.b64encode(b"here").decode()}],
    }


def test_the_record_of_a_row_without_a_form_is_kept_whole(spark: SparkSession, tmp_path: Path) -> None:
    create = {"version": 1, "type": "CREATE", "sql": "CREATE TABLE `shop`.`notes`", "commitTs": 401, "buildTs": 1}
    messages: list[dict[str, Any]] = [{**create, "tableSchema": TABLE}]
    for n, body in enumerate(["good", None, "good"]):
        head = {"version": 1, "database": "shop", "table": "notes", "tableID": 7, "type": "INSERT", "buildTs": 1}
        row = {"id": str(n), "body": body}
        messages.append({**head, "commitTs": 500 + n, "schemaVersion": 400, "data": row})
    records = [record(offset, message) for offset, message in enumerate(messages)]
    source = tmp_path / "notes.jsonl"
    source.write_text("".join(json.dumps(r) + "\n" for r in records))
    sink = f"file://{tmp_path}/out?protocol=debezium&format=jsonl"
    letters = tmp_path / "letters"
    result = tidecast.convert(
        f"file://{source}?protocol=simple", sink, tz="UTC", dead_letters=str(letters), spark=spark
    )
    assert (result.total, result.dead_letters) == (2, {"not-in-protocol": 1})
    (kept,) = [json.loads(line) for part in letters.glob("*.jsonl") for line in part.read_text().splitlines()]
    assert {name: kept[name] for name in records[2]} == records[2]
    assert kept["detail"] == "column body is NOT NULL and has no value"


@pytest.mark.parametrize("integrity", ["none", "correctness"])
def test_checksums_that_are_left_out_are_told(spark: SparkSession, tmp_path: Path, integrity: str) -> None:
    source, config = tmp_path / "notes.jsonl", tmp_path / "feed.toml"
    row = {"version": 1, "database": "shop", "table": "notes", "tableID": 7, "type": "INSERT", "buildTs": 1}
    row |= {"commitTs": 500, "schemaVersion": 400, "data": {"id": "1", "body": "b"}}
    row |= {"checksum": {"version": 0, "corrupted": False, "current": 7, "previous": 0}}
    create = {"version": 1, "type": "CREATE", "sql": "CREATE TABLE `shop`.`notes`", "commitTs": 401, "buildTs": 1}
    lines = (record(offset, message) for offset, message in enumerate([{**create, "tableSchema": TABLE}, row]))
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config.write_text(f'[integrity]\nintegrity-check-level = "{integrity}"\n')
    sink = f"file://{tmp_path}/out?protocol=simple"
    done = tidecast.convert(f"file://{source}?protocol=simple", sink, config=str(config), tz="UTC", spark=spark)
    assert len(done.warnings) == (integrity == "none")
