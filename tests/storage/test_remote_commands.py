"""The commands and a server on a standalone cluster, where everything lies in a store of objects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from full import full
from growing_topic import ID, Clock, GrowingTopic, ddl, row, table, watermark
from running_server import running_server
from servers import S3Server, SparkCluster
from servers._process import free_ports

from tidecast.storage import AnyPath, entries, files_below, replace_file, storage_path

pytestmark = pytest.mark.spark

SQL = "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)"
now = Clock()

COMMANDS = """
import json, sys, tidecast
base = sys.argv[1]
avro, registry = f"{base}/avro/t?protocol=avro", {"schema_registry": f"{base}/schemas"}
config = {"dead_letters": f"{base}/dead", "tz": "UTC"}
published = tidecast.convert(f"{base}/log?protocol=simple", avro, **registry, **config)
verified = tidecast.verify(avro, **registry, **config)
options = {**registry, **config, "checkpoint": f"{base}/checkpoint"}
applied, again = (tidecast.replicate(avro, f"{base}/tables", **options) for _ in range(2))
print(json.dumps({
    "published": published.total,
    "dead": dict(published.dead_letters),
    "verified": {verdict: n for verdict, n in verified.verdicts.items() if n},
    "applied": [(one.name, one.where, one.upserted) for one in applied.tables],
    "again": len(again.tables),
}))
"""


@pytest.fixture(scope="module")
def settings(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster, and Spark's settings: the only ones that programs get, so that tidecast finds the store by them."""
    folder = tmp_path_factory.mktemp("conf")
    with SparkCluster() as cluster, pytest.MonkeyPatch.context() as patch:
        conf = {"spark.master": cluster.master, **cluster.driver_conf, **s3.spark}
        conf |= {"spark.jars": ",".join(map(str, s3.jars()))}
        (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # which executors run, too
        yield


@pytest.fixture
def base(s3: S3Server, settings: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AnyPath:
    """A folder in the store."""
    for name, value in (("ENDPOINT_URL", s3.url), ("ACCESS_KEY_ID", s3.key), ("SECRET_ACCESS_KEY", s3.secret)):
        monkeypatch.setenv(f"AWS_{name}", value)
    return storage_path(f"s3a://{s3.bucket}/{request.node.name}", "base")


def outside(command: list[str], folder: Path) -> Any:
    """Run a program that knows of the store from Spark's settings alone; gives what it printed as JSON."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@full
def test_the_commands(s3: S3Server, base: AnyPath, tmp_path: Path) -> None:
    log = GrowingTopic(base / "log")
    log.grow([ddl(SQL, now(), table(9, ID)), *(row(now(), 9, id=n) for n in range(20))])
    replace_file(base / "log" / "z.jsonl", b'{"partition": 0, "offset": 99, "value": "bm9uc2Vuc2U="}\n')
    told = outside([sys.executable, "-c", COMMANDS, str(base)], tmp_path)
    assert told == {
        "published": 20,
        "dead": {"bad-json": 1},
        "verified": {"none": 20},
        "applied": [["d.t", f"{base}/tables/d/t", 20]],
        "again": 0,
    }
    client = {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    rows = DeltaTable(f"{base}/tables/d/t", storage_options=client).to_pyarrow_table().to_pylist()
    assert sorted(one["id"] for one in rows) == list(range(20))
    (dead,) = [one.path.read_bytes() for one in entries(base / "dead") if one.name.endswith(".jsonl")]
    assert json.loads(dead)["offset"] == 99
    assert not [name for name in files_below(base) if "staging" in name or "temporary" in name]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


SINK_COMMANDS = """
import json, sys, tidecast
base = sys.argv[1]
config = {"dead_letters": f"{base}/dead", "tz": "UTC"}
found = []
for protocol in ("csv", "canal-json"):
    sink = f"{base}/{protocol}?protocol={protocol}&enable-tidb-extension=true"
    published = tidecast.convert(f"{base}/log?protocol=simple", sink, **config)
    options = {**config, "checkpoint": f"{base}/checkpoint-{protocol}"}
    applied, again = (tidecast.replicate(sink, f"{base}/tables-{protocol}", **options) for _ in range(2))
    found.append([published.total, [one.upserted for one in applied.tables], len(again.tables)])
print(json.dumps(found))
"""


@full
def test_a_storage_sinks_folder(s3: S3Server, base: AnyPath, tmp_path: Path) -> None:
    log = GrowingTopic(base / "log")
    log.grow([ddl(SQL, now(), table(9, ID)), *(row(now(), 9, id=n) for n in range(20)), watermark(last := now())])
    told = outside([sys.executable, "-c", SINK_COMMANDS, str(base)], tmp_path)
    assert told == [[20, [20], 0], [20, [20], 0]]
    assert json.loads((base / "csv" / "metadata").read_bytes()) == {"checkpoint-ts": last}
    names = [name for name in files_below(base / "csv") if name != "metadata"]
    assert [name.rpartition("/")[2].partition("_")[0] for name in sorted(names)] == [
        f"CDC{1:020}.csv",
        "CDC.index",
        "schema",
    ]
    assert not [name for name in files_below(base) if "staging" in name or "temporary" in name]


BUCKET_COMMANDS = """
import json, sys, tidecast
base, log, sink = sys.argv[1:]
published = tidecast.convert(log, sink, config=f"{base}/feed.toml", tz="UTC")
applied = tidecast.replicate(f"{sink}&protocol=csv", f"{base}/tables", checkpoint=f"{base}/checkpoint", tz="UTC")
print(json.dumps([published.total, [one.upserted for one in applied.tables]]))
"""


@full
def test_a_whole_bucket_by_the_uri_of_ticdcs_documents(s3: S3Server, tmp_path: Path) -> None:
    log = GrowingTopic(tmp_path / "log")
    log.grow([ddl(SQL, now(), table(9, ID)), *(row(now(), 9, id=n) for n in range(20)), watermark(now())])
    (tmp_path / "feed.toml").write_text('[sink]\nprotocol = "csv"\n[sink.csv]\ninclude-commit-ts = true\n')
    urlopen(Request(f"{s3.url}/whole", method="PUT")).close()
    sink = f"s3://whole?endpoint={s3.url}&access-key={s3.key}&secret-access-key={s3.secret}"
    program = [sys.executable, "-c", BUCKET_COMMANDS, str(tmp_path), log.uri, sink]
    (tmp_path / "spark-defaults.conf").write_text(f"spark.jars {','.join(map(str, s3.jars()))}\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    clean["SPARK_CONF_DIR"] = str(tmp_path)
    done = subprocess.run(program, capture_output=True, text=True, env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [20, [20]]


@full
def test_a_server_that_is_killed_goes_on(s3: S3Server, base: AnyPath, tmp_path: Path) -> None:
    log = GrowingTopic(base / "log")
    log.grow([ddl(SQL, now(), table(9, ID)), row(now(), 9, id=0), watermark(last := now())])
    (port,) = free_ports(1)
    home, options = f"{base}/server", ("--allow-path", str(base))
    with running_server(log.uri, tmp_path / "log", port, *options, data_dir=home) as server:
        sink = f"--sink-uri={base}/out/t?protocol=simple&partition-num=1"
        made = server.changefeed("create", "-c", "flow", sink, "--no-confirm", "--start-ts=1")
        assert made.returncode == 0, made.stdout + made.stderr
        server.wait("flow", state="normal", checkpoint_ts=last)
    log.grow([row(now(), 9, id=1), row(now(), 9, id=2), watermark(last := now())])
    with running_server(log.uri, tmp_path / "log", port, *options, data_dir=home) as server:
        server.wait("flow", state="normal", checkpoint_ts=last)
    messages = []
    for one in entries(base / "out" / "t"):
        if one.name.endswith(".parquet"):
            with one.path.open("rb") as file:
                messages += pq.read_table(file).to_pylist()
    messages.sort(key=lambda message: message["offset"])
    assert [message["offset"] for message in messages] == list(range(len(messages)))
    sent = [json.loads(message["value"]) for message in messages]
    assert [message["data"]["id"] for message in sent if message["type"] == "INSERT"] == ["0", "1", "2"]
    assert [path.name for path in tmp_path.iterdir()] == ["log.log"]
