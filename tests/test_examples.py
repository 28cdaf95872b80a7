"""What lies in `examples`, and `compose.yaml`, as far as they can be run without an engine for containers."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from deltalake import DeltaTable
from feed_server import until
from full import full
from pyspark.sql import SparkSession
from servers import SPARK_HOME, KafkaBroker, SchemaRegistry
from servers._process import free_ports

import tidecast
from tidecast.runtime import fetch_jars

ROOT = Path(__file__).parents[1]
IN_IMAGE = "/opt/tidecast/"
LOG = ROOT / "src/tidecast/data/shop.jsonl.gz"


def test_a_streaming_job_runs_by_spark_submit(
    spark: SparkSession, broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    config = tmp_path / "job.toml"
    config.write_text(
        (ROOT / "src/tidecast/data/shop.toml").read_text().replace("{schema}_{table}", "{schema}_job_{table}")
    )
    source, sink = f"{LOG.as_uri()}?protocol=simple", f"kafka://{broker.bootstrap}/job?protocol=avro"
    tidecast.convert(source, sink, schema_registry=registry.url, config=str(config), tz="UTC", spark=spark)
    few = ("--conf", "spark.sql.shuffle.partitions=2")
    jars = ",".join(map(str, fetch_jars()))
    submit = (SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", *few, "--jars", jars)
    python = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    job = ROOT / "examples/foreach_batch.py"
    said = ended(*submit, job, broker.bootstrap, "shop_job_orders", registry.url, tmp_path, "--once", env=python)
    rows = DeltaTable(tmp_path / "tables/shop/orders").to_pyarrow_table().num_rows
    assert rows > 100
    assert re.search(rf"batch 0: shop\.orders: {rows} upserted", said)
    verdicts = DeltaTable(tmp_path / "verdicts").to_pyarrow_table().to_pylist()
    assert {row["verdict"] for row in verdicts} == {"match", "delete"}


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return found


def test_compose_names_what_there_is() -> None:
    """Services that others wait for or speak to, and files of the image."""
    found = services()
    assert set(found) > {"kafka", "registry", "server"}
    for service in found.values():
        assert set(service.get("depends_on", ())) <= set(found)
        assert set(re.findall(r"//(\w+):\d", str(service))) <= {*found, "localhost", "0"}
        for path in re.findall(rf"{IN_IMAGE}([^?'\s]+)", str(service)):
            assert (ROOT / path).is_file()


@full
def test_the_commands_of_compose_do_what_they_shall(
    spark: SparkSession, broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    server_port, replica_port = free_ports(2)
    here = {
        IN_IMAGE: f"{ROOT}/",
        "kafka:9092": broker.bootstrap,
        "http://registry:8081": registry.url,
        r"(?<!\w)/data\b": str(tmp_path),
        "/etc/tidecast": str(tmp_path),
        r"(0\.0\.0\.0|server|localhost):8300": f"localhost:{server_port}",
        r"0\.0\.0\.0:8301": f"localhost:{replica_port}",
    }

    def command(name: str, *words: str) -> list[str]:
        service = services()[name]
        text = json.dumps([*service["entrypoint"], *(words or service["command"])])
        for there, ours in here.items():
            text = re.sub(there, ours, text)
        found: list[str] = json.loads(text)
        return found

    password = "a-password"
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    user = {**os.environ, "TICDC_USER": "tidecast", "TICDC_PASSWORD": password, "PATH": programs}
    for name, config in yaml.safe_load((ROOT / "compose.yaml").read_text())["configs"].items():
        (tmp_path / f"{name}.toml").write_text(config["content"].replace("${TICDC_PASSWORD}", password))
    for name in ("certificate", "source", "certificate", "source"):
        ended(*command(name), env=user)
    healthy = command("server", *services()["server"]["healthcheck"]["test"][2:])
    orders = tmp_path / "tables/shop/orders"
    replica: list[subprocess.Popen[bytes]] = []

    def applied() -> bool:
        if not replica or replica[-1].poll() is not None:  # it ends until there are topics, and is started again
            replica.append(subprocess.Popen(command("replica"), env=user, cwd=tmp_path))
        return DeltaTable.is_deltatable(str(orders)) and DeltaTable(orders).to_pyarrow_table().num_rows > 100

    with subprocess.Popen(command("server"), env=user, cwd=tmp_path) as server:
        try:
            until(lambda: subprocess.run(healthy, env=user, capture_output=True, check=False).returncode == 0, 120)
            for _ in range(2):
                ended(*command("changefeed"), env=user)
            until(applied, 180)
            trusted = ssl.create_default_context(cafile=tmp_path / "server.pem")
            login = base64.b64encode(f"tidecast:{password}".encode()).decode()
            url = f"https://localhost:{replica_port}/metrics"
            asked = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
            with urllib.request.urlopen(asked, context=trusted) as answer:
                assert "tidecast_replica_up 1.0" in answer.read().decode()
        finally:
            server.terminate()
            for started in replica:
                started.terminate()
                started.wait()
    left = tidecast.verify(f"kafka://{broker.bootstrap}/shop?protocol=simple", tz="UTC", spark=spark)
    assert left.verdicts["match"] == 2_292  # published once


def ended(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a program to its end, and return what it printed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, check=False, env=env)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout
