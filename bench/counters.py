"""What the commands cost in counts that no other load on the machine changes."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient, JavaObject  # type: ignore[import-untyped]
from py4j.protocol import MEMORY_COMMAND_NAME  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.bounds import BOUNDS, Step, exceeded, steps
from bench.java import java_gateway
from bench.runs import Run, commands
from bench.topics import write_topics
from tidecast.runtime import spark_session

_RETAINED = "spark.ui.retainedStages"
SETTINGS = {_RETAINED: "100000"}
"""Settings of a session that keeps what its tasks did."""


@dataclass
class Counters:
    """What a command did: `calls` from Python to Java, Spark `jobs`, `passes` over its source, bytes moved.

    What tasks did is None where the session forgets it; see `SETTINGS`.
    """

    seconds: float
    calls: int
    jobs: int
    passes: float | None = None
    shuffled: int | None = None
    spilled: int | None = None


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


class _Spark:
    """What Spark itself knows of its jobs and stages."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._java, self._gateway = context._jsc.sc(), java_gateway(context)
        self.remembers = context.getConf().get(_RETAINED) == SETTINGS[_RETAINED]

    def jobs(self) -> int:
        """Return how many jobs there have been."""
        return int(self._java.dagScheduler().numTotalJobs())

    def stages(self, after: int = -1) -> list[JavaObject]:
        """Return the stages with higher numbers than `after`, the highest first."""
        self._java.listenerBus().waitUntilEmpty()
        nothing = self._gateway.jvm.java.util.ArrayList()
        quantiles = self._gateway.new_array(self._gateway.jvm.double, 0)
        found = self._java.statusStore().stageList(None, False, False, quantiles, nothing)
        return list(takewhile(lambda stage: stage.stageId() > after, map(found.apply, range(found.size()))))


def counted(spark: SparkSession, run: Run, rows: int = 1, warm: int = Step.warm) -> Counters:
    """Return what the last of some runs of a command did whose source has so many rows."""
    for _ in range(warm):
        run()
    state, calls = _Spark(spark), _Calls()
    jobs, last = state.jobs(), next((stage.stageId() for stage in state.stages()), -1)
    start = time.perf_counter()
    with calls.watching():
        run()
    found = Counters(time.perf_counter() - start, calls.count, state.jobs() - jobs)
    if state.remembers:
        stages = state.stages(last)
        found.passes = sum(stage.inputRecords() for stage in stages) / rows
        found.shuffled = sum(stage.shuffleWriteBytes() for stage in stages)
        found.spilled = sum(stage.diskBytesSpilled() for stage in stages)
    return found


def count(spark: SparkSession, step: Step, base: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return names of commands with what each does in a step, as soon as it is known."""
    write_topics(spark, step.rows, base, tables=step.tables)
    known, rows = commands(spark, base), step.rows * step.tables
    for name in names:
        print(f"{name}: {step.tables} × {step.rows:,} rows", file=sys.stderr, flush=True)
        yield name, asdict(counted(spark, known[name], rows, step.warm))


def show(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print a table of steps, by their names."""
    table = Table("command", "Spark jobs", "py4j calls", "passes", "shuffled", "spilled", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for step, counts in results.items():
        table.add_section()
        table.add_row(f"[bold]{step}")
        for name, c in counts.items():
            numbers = (f"{c['jobs']:,}", f"{c['calls']:,}", f"{c['passes']:.1f}", f"{c['shuffled']:,}")
            table.add_row(name, *numbers, f"{c['spilled']:,}", f"{c['seconds']:.2f}")
    Console(width=110).print(table)


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="*", help="those of the bounds, by default all")
    parser.add_argument("--rows", type=int, help="of each table: count a step of this size instead")
    parser.add_argument("--tables", type=int, default=1, help="with --rows")
    parser.add_argument("--only", default="", help="commands whose name has this in it")
    parser.add_argument("--check", action="store_true", help="fail above the bounds")
    parser.add_argument("--bounds", type=Path, default=BOUNDS, help="in place of bounds.toml")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    known = steps(options.bounds)
    missing = set(options.steps) - set(known)
    if missing:
        parser.error(f"no such step: {', '.join(sorted(missing))}")
    chosen = {name: step for name, step in known.items() if name in options.steps or not options.steps}
    if options.rows is not None:
        chosen = {f"{options.tables} × {options.rows:,} rows": Step(options.rows, options.tables)}
    spark = spark_session("bench", conf=SETTINGS)
    base = Path(tempfile.mkdtemp(prefix="tidecast-bench-"))
    results: dict[str, dict[str, dict[str, Any]]] = {}
    try:
        for name, step in chosen.items():
            named = [command for command in step.most or commands(spark, base) if options.only in command]
            found = results[name] = {}
            for command, counters in count(spark, step, base / name.replace(" ", "-"), named):
                found[command] = counters
            shutil.rmtree(base / name.replace(" ", "-"), ignore_errors=True)
    finally:  # what is known is told even where Java has ended
        if options.json:
            print(json.dumps(results))
        else:
            show(results)
        shutil.rmtree(base, ignore_errors=True)
    spark.stop()
    wrong = [line for name in chosen for line in exceeded(name, chosen[name], results[name])]
    if options.check and wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
