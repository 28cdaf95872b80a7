"""What a small step of each command costs, in counts that no other load on the machine changes."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient  # type: ignore[import-untyped]
from py4j.protocol import MEMORY_COMMAND_NAME  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import tidecast
from bench.commands import write_topic
from tidecast.runtime import spark_session

WARM = 2
"""How often a command has run before it is counted."""

BOUNDS = Path(__file__).with_name("bounds.toml")

SINKS = {
    "debezium": "protocol=debezium",
    "simple": "protocol=simple",
    "simple-avro": "encoding-format=avro&protocol=simple",
    "avro": "protocol=avro&enable-tidb-extension=true",
}


@dataclass
class Counters:
    """What a command did: `calls` from Python to Java, Spark `jobs`, `passes` over its source, bytes moved."""

    seconds: float = 0.0
    calls: int = 0
    jobs: int = 0
    passes: float = 0.0
    shuffled: int = 0
    spilled: int = 0


class _Calls:
    """Counts what Python asks of Java, but for what Python's garbage collector says."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count for as long as the block runs."""
        send = GatewayClient.send_command

        def counted(client: GatewayClient, command: str, *args: Any, **named: Any) -> Any:
            if not command.startswith(MEMORY_COMMAND_NAME):
                with self._lock:
                    self.count += 1
            return send(client, command, *args, **named)

        GatewayClient.send_command = counted
        try:
            yield
        finally:
            GatewayClient.send_command = send


def commands(spark: SparkSession, base: Path) -> Mapping[str, Callable[[int], object]]:
    """Return the commands by name; each is told how often it has run."""
    registry = (base / "registry").as_uri()
    source = f"file://{base}/topics/orders?protocol=avro&topics=.*"

    def convert(name: str, options: str) -> Callable[[int], object]:
        def run(n: int) -> object:
            folder = base / f"{name}{n}"
            config = base / "topics.toml"
            config.write_text('[sink]\ndispatchers = [{matcher = ["*.*"], topic = "{schema}_{table}"}]\n')
            target = f"{folder.as_uri()}/registry" if name == "avro" else None
            sink = f"file://{folder}/orders?{options}"
            return tidecast.convert(
                source,
                sink,
                config=str(config),
                source_schema_registry=registry,
                schema_registry=target,
                tz="UTC",
                spark=spark,
            )

        return run

    def replicate(n: int) -> object:
        return tidecast.replicate(source, str(base / f"tables{n}"), schema_registry=registry, tz="UTC", spark=spark)

    def again(n: int) -> object:
        checkpoint = str(base / "checkpoint")
        tables = str(base / "tables")
        return tidecast.replicate(
            source, tables, checkpoint=checkpoint, schema_registry=registry, tz="UTC", spark=spark
        )

    def read(name: str) -> Callable[[int], object]:
        made = base / f"{name}-source0"

        def run(n: int) -> object:
            if not made.exists():
                convert(f"{name}-source", SINKS[name])(0)
            topics = f"file://{made}/orders?{SINKS[name]}&topics=.*"
            return tidecast.replicate(topics, str(base / f"{name}-tables{n}"), tz="UTC", spark=spark)

        return run

    return {
        "verify": lambda n: tidecast.verify(source, schema_registry=registry, tz="UTC", spark=spark),
        "replicate": replicate,
        "replicate, nothing new": again,
        **{f"convert to {name}": convert(name, options) for name, options in SINKS.items()},
        **{f"replicate {name}": read(name) for name in SINKS if name != "avro"},
    }


def counted(spark: SparkSession, run: Callable[[int], object], events: Path | None = None, rows: int = 1) -> Counters:
    """Return what the last of some runs of a command did; without Spark's event log `events`, jobs and calls alone."""
    for n in range(WARM):
        run(n)
    context, group = spark.sparkContext, uuid.uuid4().hex
    calls, before = _Calls(), len(_tasks(events))
    context.setJobGroup(group, "counted")
    start = time.perf_counter()
    try:
        with calls.watching():
            run(WARM)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    found = Counters(time.perf_counter() - start, calls.count, len(context.statusTracker().getJobIdsForGroup(group)))
    for metrics in _tasks(events)[before:]:
        found.passes += metrics["Input Metrics"]["Records Read"] / rows
        found.shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        found.spilled += metrics["Disk Bytes Spilled"]
    return found


def _tasks(events: Path | None) -> list[dict[str, Any]]:
    """Return the metrics of all tasks in an event log."""
    if events is None:
        return []
    time.sleep(1)  # Spark writes its log a little later
    whole = events.read_text().split("\n")[:-1]  # the last line may be half written
    entries = [json.loads(line) for line in whole if "SparkListenerTaskEnd" in line]
    return [entry["Task Metrics"] for entry in entries if entry.get("Task Metrics")]


def bounds() -> Mapping[str, Mapping[str, int]]:
    """Return the most Spark jobs and py4j calls that a warm step of ten rows may take, by command."""
    known: Mapping[str, Mapping[str, int]] = tomllib.loads(BOUNDS.read_text())["small-step"]
    return known


def exceeded(results: Mapping[str, Counters]) -> list[str]:
    """Return what is above the bounds, in words."""
    return [
        f"{name}: {getattr(results[name], what):,} {what}, at most {most:,}"
        for name, limits in bounds().items()
        for what, most in limits.items()
        if name in results and getattr(results[name], what) > most
    ]


def show(results: Mapping[str, Counters]) -> None:
    """Print a table."""
    table = Table("command", "Spark jobs", "py4j calls", "passes", "shuffled", "spilled", "seconds")
    for name, c in results.items():
        table.add_row(
            name,
            str(c.jobs),
            f"{c.calls:,}",
            f"{c.passes:.1f}",
            f"{c.shuffled:,}",
            f"{c.spilled:,}",
            f"{c.seconds:.2f}",
        )
    Console(width=110).print(table)


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10, help="of each table")
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--only", default="", help="commands whose name has this in it")
    parser.add_argument("--check", action="store_true", help="fail above the bounds of bounds.toml, for ten rows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="tidecast-bench-"))
    log = base / "events"
    log.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    spark = spark_session("bench", conf=settings)
    try:
        for n in range(options.tables):
            write_topic(spark, options.rows, base / "topics", base / "registry", f"orders{n or ''}")
        (events,) = log.iterdir()
        chosen = {name: run for name, run in commands(spark, base).items() if options.only in name}
        total = options.rows * options.tables
        results = {name: counted(spark, run, events, total) for name, run in chosen.items()}
        if options.json:
            print(json.dumps({name: asdict(found) for name, found in results.items()}))
        else:
            show(results)
        wrong = exceeded(results) if options.check else []
        if wrong:
            raise SystemExit("\n".join(wrong))
    finally:
        spark.stop()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
