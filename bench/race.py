"""Contestants take turns in one run, so that what else the machine does meets all: compare ratios, not seconds."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from bench.orders import inserted_rows
from tidecast.runtime import spark_session

_WIDTH = 130  # or else a narrow terminal, or none, costs digits

Results = list[dict[str, Any]]
"""By contestant: its name, its seconds and, beside each peer, the ratio that is reached and the one that is meant."""


@dataclass
class Contestant:
    """A way to do the work, for one in so many rows. `beside` tells how fast it is meant to be in others' terms."""

    name: str
    run: Callable[[], object]
    beside: dict[str, float] = field(default_factory=dict)
    one_in: int = 1
    seconds: list[float] = field(default_factory=list)

    def ratios(self, peer: Contestant) -> list[float]:
        """Return how many times as fast as a peer it did a row, round by round."""
        rounds = zip(self.seconds, peer.seconds, strict=True)
        return [theirs * peer.one_in / (ours * self.one_in) for ours, theirs in rounds]


def consume(frame: DataFrame) -> None:
    """Compute every column of every row and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def parser(about: str | None, rows: int, rounds: int) -> argparse.ArgumentParser:
    """Return the options that all programs have."""
    made = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    made.add_argument("--rows", type=int, default=rows)
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--only", default="", help="those whose name has this in it, and their peers")
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return made


def run(about: str | None, rows: int, contestants: Callable[[DataFrame], Sequence[Contestant]]) -> None:
    """Be the program of a benchmark: make the contestants from the changes of a table, and let them race."""
    arguments = parser(about, rows, rounds=5)
    arguments.add_argument("--ansi", action="store_true", help="with spark.sql.ansi.enabled")
    options = arguments.parse_args()
    spark = spark_session("bench", cores=1, conf={"spark.sql.ansi.enabled": str(options.ansi).lower()})
    racing = chosen(contestants(inserted_rows(spark, options.rows).cache()), options.only)
    race(racing, options.rounds)
    spark.stop()
    tell(report(racing), options)


def chosen(contestants: Sequence[Contestant], only: str) -> list[Contestant]:
    """Return those whose name has a text in it, and their peers."""
    named = [one for one in contestants if only in one.name]
    peers = {name for one in named for name in one.beside}
    return [one for one in contestants if one in named or one.name in peers]


def race(contestants: Sequence[Contestant], rounds: int) -> None:
    """Let all run in turn, once to warm up and then for `rounds` rounds that count."""
    for turn in range(rounds + 1):
        for one in contestants:
            start = time.perf_counter()
            one.run()
            if turn:
                one.seconds.append(time.perf_counter() - start)


def report(contestants: Sequence[Contestant]) -> Results:
    """Return each contestant's seconds, and how it did beside its peers."""
    by_name = {one.name: one for one in contestants}
    return [
        {
            "name": one.name,
            "seconds": _spread(one.seconds),
            "beside": [
                {
                    "name": peer,
                    "ratio": (ratio := _spread(one.ratios(by_name[peer]))),
                    "target": target,
                    "met": ratio["median"] >= target,
                }
                for peer, target in one.beside.items()
            ],
        }
        for one in contestants
    ]


def _spread(values: Sequence[float]) -> dict[str, float]:
    found = {"min": min(values), "median": statistics.median(values), "max": max(values)}
    return {name: round(value, 3) for name, value in found.items()}


def tell(results: Results, options: argparse.Namespace) -> None:
    """Print what a program found, as its options say."""
    if options.json:
        given = {name: value for name, value in vars(options).items() if name != "json"}
        print(json.dumps({**given, "results": results}))
    else:
        show({"": results})


def show(programs: Mapping[str, Results]) -> None:
    """Print a table of the results of programs, by their names."""
    table = Table("", "s", "min", "median", "max", "target", "")
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[1:-1]:
        column.justify = "right"
    for program, results in programs.items():
        table.add_section()
        if program:
            table.add_row(f"[bold]{program}")
        for one in results:
            table.add_row(one["name"], f"{one['seconds']['median']:.3f}")
            for other in one["beside"]:
                ratio = (f"{value:.2f}" for value in other["ratio"].values())
                met = "met" if other["met"] else "missed"
                table.add_row(f"  times as fast as {other['name']}", "", *ratio, f"{other['target']:.1f}", met)
    Console(width=max(Console().width, _WIDTH)).print(table)
