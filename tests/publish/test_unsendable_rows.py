"""Rows that have no form in the sink's protocol: their records lie whole among the dead letters."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

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
