"""How the commands grow: one parameter at a time, to docs/growth.csv and one picture for each parameter.

Each figure is of a process of its own, in which the command has run once on ten rows. CPU seconds are those of Java's
process and its Python's, so that what else the machine does matters little. Linux only.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from bench.counters import SETTINGS, counted
from bench.growth_plots import Line, draw, read
from bench.java import Java
from bench.runs import commands
from bench.topics import write_topics
from tidecast.runtime import spark_session

COMMANDS = ("verify", "replicate", "convert to debezium", "convert to simple")
CSV, PICTURES = "growth.csv", "images"
_WARM_ROWS = 10

Result = TypeVar("Result")


@dataclass(frozen=True)
class Size:
    """A source, of `rows` rows in all tables together, and the cores that work on it."""

    rows: int
    tables: int = 1
    columns: int = 12
    versions: int = 1
    cores: int = 1


FULL = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
    "tables": (1, 10, 50, 200),
    "columns": (12, 100, 300),
    "versions": (1, 5, 20),
    "cores": (1, 2),
}
"""The values of each parameter, while the others are as `--base-rows` and `Size` have them, on all cores."""


@dataclass(frozen=True)
class Figures:
    """What a command took."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    spilled_bytes: int
    jobs: int
    calls: int


COLUMNS = ("parameter", "command", *(field.name for kind in (Size, Figures) for field in fields(kind)))


def prepare(size: Size, base: Path) -> None:
    """Write a source, and one to warm up on."""
    spark = spark_session("bench")
    write_topics(spark, _WARM_ROWS, base / "warm")
    per_table = max(1, size.rows // size.tables)
    write_topics(spark, per_table, base / "whole", tables=size.tables, columns=size.columns, versions=size.versions)
    spark.stop()


def measure(size: Size, command: str, base: Path) -> Figures:
    """Run a command on a source that was prepared; the process has no more than its cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: size.cores])
    spark = spark_session("bench", conf=SETTINGS)
    commands(spark, base / "warm")[command]()
    run, java = commands(spark, base / "whole")[command], Java(spark.sparkContext)
    java.forget_peak()
    before = java.cpu_seconds()
    found = counted(spark, run, warm=0)
    figures = Figures(
        seconds=round(found.seconds, 2),
        cpu_seconds=round(java.cpu_seconds() - before, 2),
        peak_bytes=java.peak(),
        spilled_bytes=found.spilled or 0,
        jobs=found.jobs,
        calls=found.calls,
    )
    spark.stop()
    return figures


def sizes(base: Size, values: Mapping[str, Sequence[int]]) -> dict[Size, list[str]]:
    """Return each size once, with the parameters whose growth it is part of."""
    found: dict[Size, list[str]] = {}
    for parameter, numbers in values.items():
        for number in numbers:
            found.setdefault(replace(base, **{parameter: number}), []).append(parameter)
    return found


def in_new_process(work: Callable[..., Result], *arguments: object) -> Result:
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def grow(found: Mapping[Size, Sequence[str]], chosen: Sequence[str], rounds: int, failed: list[str]) -> Iterator[Line]:
    """Measure commands on sources of these sizes; each line belongs to one parameter.

    What fails has no line, and the rest is measured all the same.
    """
    sources = {replace(size, cores=1): None for size in found}
    for source in sources:
        base = Path(tempfile.mkdtemp(prefix="tidecast-bench-"))
        try:
            in_new_process(prepare, source, base)
            same = [size for size in found if replace(size, cores=1) == source]
            for size, command, _ in product(same, chosen, range(rounds)):
                print(f"{command}: {size}", file=sys.stderr, flush=True)
                try:
                    figures = in_new_process(measure, size, command, base)
                except Exception as error:
                    failed.append(f"{command}: {size}: {error}")
                else:
                    line = {"command": command, **asdict(size), **asdict(figures)}
                    yield from ({"parameter": parameter, **line} for parameter in found[size])
        finally:
            shutil.rmtree(base, ignore_errors=True)


def main() -> None:
    """Be the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parameters", nargs="*", metavar="PARAMETER", help=f"{', '.join(FULL)}; by default all")
    for name, numbers in FULL.items():
        parser.add_argument(f"--{name}", type=int, nargs="+", default=numbers, help="values of the parameter")
    parser.add_argument("--base-rows", type=int, default=100_000, help="while another parameter grows")
    parser.add_argument("--only", default="", help="commands whose name has this in it")
    parser.add_argument("--rounds", type=int, default=1, help="how often each figure is taken")
    parser.add_argument("--to", type=Path, default=Path("docs"), help=f"the folder of {CSV} and {PICTURES}/")
    parser.add_argument("--draw", action="store_true", help=f"draw what {CSV} has, and measure nothing")
    options = parser.parse_args()
    unknown = set(options.parameters) - set(FULL)
    cores = len(os.sched_getaffinity(0))
    if unknown:
        parser.error(f"no such parameter: {', '.join(sorted(unknown))}")
    if max(options.cores) > cores:
        parser.error(f"this machine has {cores} cores")
    values = {name: getattr(options, name) for name in options.parameters or FULL}
    chosen = [command for command in COMMANDS if options.only in command]
    failed: list[str] = []
    if not options.draw:
        grown = grow(sizes(Size(options.base_rows, cores=cores), values), chosen, options.rounds, failed)
        write(options.to / CSV, values, chosen, grown)
    draw(options.to / CSV, options.to / PICTURES)
    if failed:
        raise SystemExit("\n".join(failed))


def write(path: Path, parameters: Collection[str], chosen: Collection[str], lines: Iterable[Line]) -> None:
    """Put lines into a CSV, each as soon as it is there, in place of those of the same parameters and commands."""
    known = read(path) if path.exists() else []
    kept = [line for line in known if line["parameter"] not in parameters or line["command"] not in chosen]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for line in chain(kept, lines):
            writer.writerow(line)
            file.flush()


if __name__ == "__main__":
    main()
