"""Contestants take turns in one run, so that what else the machine does meets all: compare ratios, not seconds."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from bench.orders import inserted_rows
from tidecast.runtime import spark_session

_WIDTH = 110  # or else a narrow terminal, or none, costs digits


@dataclass
class Contestant:
    """A way to do the work, for one in so many rows. `beside` tells how fast it is meant to be in others' terms."""

    name: str
    run: Callable[[], object]
    beside: dict[str, float] = field(default_factory=dict)
    one_in: int = 1
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one of its times."""
        return statistics.median(self.seconds)

    def rate(self, rows: int) -> float:
        """How many rows it does in a second, if all have so many."""
        return rows / self.one_in / self.median


def consume(frame: DataFrame) -> None:
    """Compute every column of every row and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def run(about: str | None, rows: int, contestants: Callable[[DataFrame], Sequence[Contestant]]) -> None:
    """Be the program of a benchmark: make the contestants from the changes of a table, and let them race."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ansi", action="store_true", help="with spark.sql.ansi.enabled")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    spark = spark_session("bench", cores=1, conf={"spark.sql.ansi.enabled": str(options.ansi).lower()})
    racing = contestants(inserted_rows(spark, options.rows).cache())
    race(racing, options.rounds)
    results = report(racing, options.rows)
    spark.stop()
    if options.json:
        print(json.dumps({"rows": options.rows, "rounds": options.rounds, "ansi": options.ansi, "results": results}))
    else:
        show(results)


def race(contestants: Sequence[Contestant], rounds: int) -> None:
    """Let all run in turn, once to warm up and then for `rounds` rounds that count."""
    for turn in range(rounds + 1):
        for one in contestants:
            start = time.perf_counter()
            one.run()
            if turn:
                one.seconds.append(time.perf_counter() - start)


def report(contestants: Sequence[Contestant], rows: int) -> list[dict[str, Any]]:
    """Return each contestant's median, rows a second, and how it did beside others."""
    by_name = {one.name: one for one in contestants}
    return [
        {
            "name": one.name,
            "seconds": round(one.median, 3),
            "rows_per_second": round(one.rate(rows)),
            "beside": [
                {
                    "name": other,
                    "times_as_fast": round(one.rate(rows) / by_name[other].rate(rows), 2),
                    "target": target,
                    "met": one.rate(rows) / by_name[other].rate(rows) >= target,
                }
                for other, target in one.beside.items()
            ],
        }
        for one in contestants
    ]


def show(results: list[dict[str, Any]]) -> None:
    """Print the results for a person."""
    table = Table("", "median, s", "rows/s", "times as fast", "target", "")
    for column in table.columns:
        column.no_wrap = True
    for one in results:
        table.add_row(one["name"], f"{one['seconds']:.3f}", f"{one['rows_per_second']:,}")
        for other in one["beside"]:
            table.add_row(
                f"  beside {other['name']}",
                "",
                "",
                f"{other['times_as_fast']:.2f}",
                f"{other['target']:.1f}",
                "met" if other["met"] else "missed",
            )
    Console(width=max(Console().width, _WIDTH)).print(table)
