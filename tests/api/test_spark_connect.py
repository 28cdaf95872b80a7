"""The commands in a session of a real Spark Connect server, which has no plugin of Delta's."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ConnectServer

CREATED, CHANGED = 456389768249344000, 456389768773632000
INT = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
NAME = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 32}
TABLE = {
    "schema": "shop",
    "table": "t",
    "tableID": 100,
    "version": CREATED,
    "columns": [
        {"name": "id", "dataType": INT, "nullable": False, "default": None},
        {"name": "name", "dataType": NAME, "nullable": True, "default": None},
    ],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}

# A program of its own: pyspark speaks either to a Java of its own or to a server, and to one of them in a process.
PROGRAM = """
import json, sys
from pathlib import Path
import tidecast
from tidecast.spark import java_version

folder = Path(sys.argv[1])
avro, registry = f"{folder}/avro/t?protocol=avro", f"file://{folder}/registry"
spark = tidecast.spark_session()
assert type(spark).__module__ == "pyspark.sql.connect.session", type(spark)
assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
assert java_version(spark) >= 17
published = [
    tidecast.convert(str(folder / "log.jsonl?protocol=simple"), f"file://{avro}", schema_registry=registry).total
    for _ in range(2)
]
verified = tidecast.verify(avro, schema_registry=registry).verdicts
applied = [
    tidecast.replicate(str(folder / f"{name}.jsonl?protocol=simple"), f"{folder}/tables").tables[0]
    for name in ("log", "longer")
]
messages = spark.read.parquet(f"file://{folder}/avro/t")
with tidecast.decode(messages, protocol="avro", schema_registry=registry, tz="UTC") as events:
    changes = events.table("shop.t").orderBy("_offset").select("id", "_op", "_verdict").collect()
    decoded = [tuple(row) for row in changes]
    summary = [[table.name, table.rows] for table in events.changes()]
rows = spark.read.format("delta").load(f"{folder}/tables/shop/t").orderBy("id").collect()
print(json.dumps([published, verified, [[t.upserted, t.deleted] for t in applied], [tuple(row) for row in rows]]))
print(json.dumps([decoded, summary]))
"""


def message(kind: str, commit_ts: int, **members: object) -> str:
    said = {"version": 1, "type": kind, "commitTs": commit_ts, "buildTs": commit_ts >> 18, **members}
    return json.dumps(said)


def row(kind: str, commit_ts: int, **sides: object) -> str:
    named = {"database": "shop", "table": "t", "tableID": 100, "schemaVersion": CREATED}
    return message(kind, commit_ts, **named, **sides)


def write(path: Path, messages: list[str]) -> None:
    path.write_text("".join(json.dumps({"value": base64.b64encode(m.encode()).decode()}) + "\n" for m in messages))


@pytest.mark.spark
def test_a_topic_is_published_verified_and_applied(tmp_path: Path) -> None:
    first = [
        message("CREATE", CREATED, sql="CREATE TABLE `t`", tableSchema=TABLE),
        row("INSERT", CHANGED, data={"id": "1", "name": "one"}),
        row("INSERT", CHANGED, data={"id": "2", "name": "two"}),
    ]
    more = [
        row("UPDATE", CHANGED + 1, data={"id": "1", "name": "new"}, old={"id": "1", "name": "one"}),
        row("DELETE", CHANGED + 1, old={"id": "2", "name": "two"}),
        row("INSERT", CHANGED + 1, data={"id": "3", "name": "three"}),
    ]
    write(tmp_path / "log.jsonl", first)
    write(tmp_path / "longer.jsonl", first + more)
    with ConnectServer() as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            capture_output=True,
            text=True,
            env={**os.environ, "SPARK_REMOTE": server.remote},
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    commands, decoded = map(json.loads, done.stdout.splitlines())
    assert commands == [
        [2, 2],
        {"none": 4},
        [[2, 0], [2, 1]],
        [[1, "new"], [3, "three"]],
    ]
    published = [[1, "c", "none"], [2, "c", "none"]]
    assert decoded == [published * 2, [["shop.t", 4]]]
