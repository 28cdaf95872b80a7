"""The commands on a real standalone cluster, with all in a store of objects; each a process, one by spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from full import full
from servers import SPARK_HOME, S3Server, SparkCluster
from small_topic import CHANGED_ROWS, json_lines

import tidecast
from tidecast.runtime import SPARK_JARS, fetch_jars, find_java
from tidecast.storage import AnyPath, replace_file, storage_path

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    with SparkCluster() as running:
        yield running


@pytest.fixture
def base(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AnyPath:
    """A folder in the store."""
    for name, value in (("ENDPOINT_URL", s3.url), ("ACCESS_KEY_ID", s3.key), ("SECRET_ACCESS_KEY", s3.secret)):
        monkeypatch.setenv(f"AWS_{name}", value)
    return storage_path(f"s3a://{s3.bucket}/cluster", "base")


def ended(folder: Path, *command: str | Path) -> Any:
    """Run a program that knows of the store by its options alone, and whose executors have this Python."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    own = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, **own}, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def on(cluster: SparkCluster, s3: S3Server) -> Sequence[str]:
    """Return the options that spark-submit and our commands have alike."""
    # Work begins when both workers are there, so that both do some.
    settings = {**cluster.driver_conf, **s3.spark, "spark.scheduler.minRegisteredResourcesRatio": "1"}
    return ("--master", cluster.master, *(word for item in settings.items() for word in ("--conf", "=".join(item))))


@full
def test_a_topic_is_published_verified_and_applied(
    cluster: SparkCluster, s3: S3Server, base: AnyPath, tmp_path: Path
) -> None:
    replace_file(base / "log.jsonl", json_lines(CHANGED_ROWS).encode())
    simple, avro = f"{base}/log.jsonl?protocol=simple", f"{base}/avro/t?protocol=avro"
    registry, spark = ("--schema-registry", f"{base}/registry"), on(cluster, s3)
    ours = (sys.executable, "-m", "tidecast")
    own = (*registry, *spark, "--conf", f"spark.jars={','.join(map(str, s3.jars()))}", "--json")
    published = ended(tmp_path, *ours, "convert", simple, avro, *own)
    assert published["messages"] == 5

    program = Path(*tidecast.__path__, "__main__.py")
    jars = [*fetch_jars(), *s3.jars()]
    submit: tuple[str | Path, ...] = (SPARK_HOME / "bin" / "spark-submit", *spark, "--jars", ",".join(map(str, jars)))
    verified = ended(tmp_path, *submit, program, "verify", avro, *registry, "--json")
    assert {verdict: n for verdict, n in verified["verdicts"].items() if n} == {"none": 4, "delete": 1}

    options = ("--to", f"{base}/tables", "--checkpoint", f"{base}/checkpoint", "--dead-letters", f"{base}/dead")
    applied = ended(tmp_path, *ours, "replicate", avro, *options, *own)
    assert [(t["table"], t["rows"], t["upserted"]) for t in applied["tables"]] == [("t", 5, 2)]
    client = {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    rows = DeltaTable(f"{base}/tables/shop/t", storage_options=client).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "new"), (3, "three")]

    # The driver sent the jars, as the executors tell; nothing else was put into their folders.
    sent = {jar.name for jar in jars}
    assert len(sent) > len(SPARK_JARS)
    fetched = [f"/jars/{name} to " for name in sent]
    for folders in cluster.executor_folders():
        assert len(folders) == 3
        assert [{file.name for file in folder.glob("*.jar")} for folder in folders] == [sent] * 3
        assert all(jar in (folder / "stderr").read_text() for folder in folders for jar in fetched)
