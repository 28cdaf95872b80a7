"""The commands, and the functions, in a session of a real Spark Connect server, which has no plugin of Delta's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ConnectServer
from small_topic import CHANGED_ROWS, TWO_ROWS, write_topic

# A program of its own: pyspark speaks either to a Java of its own or to a server, and to one of them in a process.
PROGRAM = """
import contextlib, io, json, sys
from pathlib import Path
import tidecast
from tidecast.cli import main

folder, remote = Path(sys.argv[1]), sys.argv[2]
avro, registry = f"{folder}/avro/t?protocol=avro", f"file://{folder}/registry"

def command(*arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        sys.argv[1:] = [*arguments, "--json", "--remote", remote, "--conf", "spark.sql.session.timeZone=Asia/Shanghai"]
        with contextlib.suppress(SystemExit):
            main()
    return json.loads(out.getvalue())

convert = ("convert", f"{folder}/log.jsonl?protocol=simple", f"file://{avro}", "--schema-registry", registry)
published = [command(*convert)["messages"] for _ in range(2)]
verdicts = command("verify", avro, "--schema-registry", registry)["verdicts"]
verified = {verdict: count for verdict, count in verdicts.items() if count}
applied = [
    command("replicate", f"{folder}/{name}.jsonl?protocol=simple", "--to", f"{folder}/tables")["tables"][0]
    for name in ("log", "longer")
]
history = ("--to", f"{folder}/versions", "--mode", "history", "--config", f"{folder}/replica.toml")
versions = [
    command("replicate", f"{folder}/{name}.jsonl?protocol=simple", *history)["tables"][0] for name in ("log", "longer")
]

spark = tidecast.spark_session()
assert type(spark).__module__ == "pyspark.sql.connect.session", type(spark)
assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Shanghai"
messages = spark.read.parquet(f"file://{folder}/avro/t")
with tidecast.decode(messages, protocol="avro", schema_registry=registry, tz="UTC") as events:
    changes = events.table("shop.t").orderBy("_offset").select("id", "_op", "_verdict").collect()
    decoded = [tuple(row) for row in changes]
    summary = [[table.name, table.rows] for table in events.changes()]
rows = spark.read.format("delta").load(f"{folder}/tables/shop/t").orderBy("id").collect()
print(json.dumps([published, verified, [[t["upserted"], t["deleted"]] for t in applied], [tuple(row) for row in rows]]))
print(json.dumps([decoded, summary]))
kept = spark.read.format("delta").load(f"{folder}/versions/shop/t").orderBy("id", "_valid_from")
shown = kept.selectExpr("id", "left(name, 4)", "_valid_to IS NULL").collect()
print(json.dumps([[[t["upserted"], t["deleted"]] for t in versions], [tuple(row) for row in shown]]))
"""

_MASK = """
[[mask]]
matcher = ["*.*"]
columns = ["name"]
action = "hash"
salt = "salt"
"""


@pytest.mark.spark
def test_a_topic_is_published_verified_and_applied(tmp_path: Path) -> None:
    write_topic(tmp_path / "log.jsonl", TWO_ROWS)
    write_topic(tmp_path / "longer.jsonl", CHANGED_ROWS)
    (tmp_path / "replica.toml").write_text(_MASK)
    with ConnectServer() as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), server.remote],
            capture_output=True,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"},
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    commands, decoded, versions = map(json.loads, done.stdout.splitlines())
    assert commands == [
        [2, 2],
        {"none": 4},
        [[2, 0], [2, 1]],
        [[1, "new"], [3, "three"]],
    ]
    published = [[1, "c", "none"], [2, "c", "none"]]
    assert decoded == [published * 2, [["shop.t", 4]]]
    hashed = [[1, "62b4", False], [1, "eee7", True], [2, "2a02", False], [3, "b2fd", True]]
    assert versions == [[[2, 0], [2, 1]], hashed]
