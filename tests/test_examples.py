"""What lies in `examples`, and `compose.yaml`, as far as they can be run without an engine for containers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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
        for path in re.findall(rf"{IN_IMAGE}([^?']+)", str(service)):
            assert (ROOT / path).is_file()


@full
def test_the_commands_of_compose_do_what_they_shall(
    broker: KafkaBroker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    here = {
        IN_IMAGE: f"{ROOT}/",
        "kafka:9092": broker.bootstrap,
        "http://registry:8081": registry.url,
        "=/data": f"={tmp_path}",
        '"/data': f'"{tmp_path}',
        "0.0.0.0:8300": f"localhost:{port}",
        "//server:8300": f"//localhost:{port}",
        "localhost:8300": f"localhost:{port}",
    }

    def command(name: str, *more: str) -> list[str]:
        words = more or services()[name]["command"]
        text = json.dumps(words if not isinstance(words, str) else words.split())
        for there, ours in here.items():
            text = text.replace(there, ours)
        program = "openssl" if name == "certificate" else str(Path(sys.executable).with_name("tidecast"))
        return [program, *json.loads(text)]

    user = {**os.environ, "TICDC_USER": "tidecast", "TICDC_PASSWORD": "a-password"}
    for name in ("certificate", "source"):
        ended(*command(name), env=user)
    with subprocess.Popen(command("server"), env=user, cwd=tmp_path) as server:
        try:
            healthy = command("server", *services()["server"]["healthcheck"]["test"][2:])
            until(lambda: subprocess.run(healthy, env=user, capture_output=True, check=False).returncode == 0, 120)
            ended(*command("changefeed"), env=user)
            replica = command("replica")
            replica.remove("--continuous")

            def applied() -> bool:
                ended(*replica, env=user)
                orders = tmp_path / "tables/shop/orders"
                return orders.exists() and DeltaTable(orders).to_pyarrow_table().num_rows > 100

            until(applied, 180)
        finally:
            server.terminate()


def ended(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a program to its end, and return what it printed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, check=False, env=env)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout
