"""The commands on a real standalone cluster, each a process of its own as users start them; one by spark-submit."""

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
from servers import SPARK_HOME, SparkCluster
from small_topic import CHANGED_ROWS, write_topic

import tidecast
from tidecast.runtime import SPARK_JARS, fetch_jars, find_java

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers."""
    with SparkCluster() as running:
        yield running


def ended(folder: Path, *command: str | Path) -> Any:
    """Run a program where executors find no Python; gives what it printed as JSON."""
    own = {"PYSPARK_PYTHON": "/no/python", "PYSPARK_DRIVER_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own}, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def on(cluster: SparkCluster) -> Sequence[str]:
    """Return the options that spark-submit and our commands have alike."""
    # Work begins when both workers are there, so that both do some.
    settings = {**cluster.driver_conf, "spark.scheduler.minRegisteredResourcesRatio": "1"}
    return ("--master", cluster.master, *(word for item in settings.items() for word in ("--conf", "=".join(item))))


def test_a_topic_is_published_verified_and_applied(cluster: SparkCluster, tmp_path: Path) -> None:
    write_topic(tmp_path / "log.jsonl", CHANGED_ROWS)
    avro, registry = f"file://{tmp_path}/avro/t?protocol=avro", ("--schema-registry", f"file://{tmp_path}/registry")
    own = (sys.executable, "-m", "tidecast")
    simple = f"file://{tmp_path}/log.jsonl?protocol=simple"
    published = ended(tmp_path, *own, "convert", simple, avro, *registry, *on(cluster), "--json")
    assert published["messages"] == 5

    program = Path(*tidecast.__path__, "__main__.py")
    jars = ",".join(map(str, fetch_jars()))
    submit: tuple[str | Path, ...] = (SPARK_HOME / "bin" / "spark-submit", *on(cluster), "--jars", jars, program)
    verified = ended(tmp_path, *submit, "verify", avro, *registry, "--json")
    assert {verdict: n for verdict, n in verified["verdicts"].items() if n} == {"none": 4, "delete": 1}

    applied = ended(tmp_path, *own, "replicate", avro, "--to", "./tables", *registry, *on(cluster), "--json")
    assert [(t["table"], t["rows"], t["upserted"]) for t in applied["tables"]] == [("t", 5, 2)]
    rows = DeltaTable(str(tmp_path / "tables" / "shop" / "t")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "new"), (3, "three")]

    connectors = {f"{name.split(':')[1]}-{name.split(':')[2]}.jar" for name in SPARK_JARS}
    for folders in cluster.executor_folders():  # the driver sent the jars; nobody else put anything there
        assert len(folders) == 3
        assert all({file.name for file in folder.glob("*.jar")} == connectors for folder in folders)
