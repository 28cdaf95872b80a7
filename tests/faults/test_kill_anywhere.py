"""A replica that is killed before any of its side effects, or in the middle of one, and started again: nothing shows.

A seed is a walk along the stream, killed and started again at each of its batches. `python -m tests.faults --kills 200`
takes ten.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import crash_points
import pytest
from crash_points import CrashPoints, Killed, Point, is_of_spark
from fault_seeds import command, seeds
from golden_stream import BATCHES, TABLES
from growing_topic import GrowingTopic
from pyspark.sql import SparkSession

import tidecast
from tidecast import ProofVerdict

_KILLS, _FIRST_EFFECTS = 20, 12
"""How many kills a walk has; a replica that starts again is killed before one of its first twelve side effects."""
_SLOW = 180
_PROPERTY = "tidecast."

State = dict[str, object]
"""All that a replica leaves: rows and what else a table keeps, schema changes, dead letters, what it has read."""


def replicate(spark: SparkSession, folder: Path) -> None:
    """Apply what is new of a folder's topic to its tables."""
    tidecast.replicate(uri(folder), str(folder / "tables"), **options(folder), tz="UTC", spark=spark)


def uri(folder: Path) -> str:
    """The topic in a folder."""
    return f"file://{folder}/topic?protocol=simple"


def options(folder: Path) -> dict[str, Any]:
    """How the topic in a folder is replicated."""
    return {"checkpoint": str(folder / "checkpoint"), "ddl": "try_evolve"}


def state(spark: SparkSession, folder: Path) -> State:
    """Return what a replica has left in a folder."""
    tables = folder / "tables"
    found: State = {}
    for log in sorted(tables.rglob("_delta_log")):
        if log.parent.name == "batches":
            continue  # it has a row for each time that a batch was applied
        frame = spark.read.format("delta").load(str(log.parent))
        rows = sorted(map(str, frame.collect()))
        found[str(log.parent.relative_to(tables))] = (sorted(frame.columns), rows, properties(log))
    letters = sorted(line for file in tables.glob("_dead_letters/*.jsonl") for line in file.read_text().splitlines())
    progress = json.loads((folder / "checkpoint" / "progress.json").read_text().replace(str(folder), ""))
    del progress["progress"]["checkpoint"]  # a checkpoint made anew is another one
    return found | {"dead letters": letters, "progress": progress}


def properties(log: Path) -> dict[str, str]:
    """Return what a table remembers."""
    found: dict[str, str] = {}
    for action in actions(log):
        if "metaData" in action:
            found = action["metaData"]["configuration"]
    return {name: value for name, value in found.items() if name.startswith(_PROPERTY)}


def actions(log: Path) -> list[dict[str, Any]]:
    """Return what the commits of a table did."""
    return [json.loads(line) for commit in sorted(log.glob("*.json")) for line in commit.read_text().splitlines()]


@dataclass
class CleanRun:
    """A run that was not killed: what lies there before each batch, and after it, and the effects of each batch."""

    folder: Path
    after: Sequence[State]
    points: Sequence[Sequence[Point]]

    def begin(self, batch: int, folder: Path) -> None:
        """Make a folder of what lies there when a batch has come, and is not applied yet."""
        copytree(self.folder / f"before {batch}", folder)
        progress = folder / "checkpoint" / "progress.json"
        if progress.exists():
            progress.write_text(progress.read_text().replace(str(self.folder / "run"), str(folder)))

    def grow(self, batch: int, folder: Path) -> None:
        """Let one more batch come to the topic in a folder."""
        copytree(self.folder / f"before {batch}" / "topic", folder / "topic", dirs_exist_ok=True)

    def check(self, spark: SparkSession, folder: Path, batch: int) -> None:
        """Check that a folder is as this run was after a batch, and that its ledger tells what its tables hold."""
        assert state(spark, folder) == self.after[batch]
        proven = tidecast.prove(str(folder / "tables"), spark=spark)
        assert {table.verdict for table in proven.tables} == {ProofVerdict.EQUAL}, proven


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> CleanRun:
    folder = tmp_path_factory.mktemp("clean")
    run = folder / "run"
    topic = GrowingTopic(run / "topic")
    after, points = [], []
    for number, batch in enumerate(BATCHES):
        topic.grow(batch)
        copytree(run, folder / f"before {number}")
        with CrashPoints(run).watching() as crash:
            replicate(spark, run)
        after.append(state(spark, run))
        points.append(crash.points)
    return CleanRun(folder, after, points)


def test_the_clean_run_is_right_and_all_of_its_commits_are_crash_points(spark: SparkSession, clean: CleanRun) -> None:
    tables = clean.folder / "run" / "tables"
    for name, rows in TABLES.items():
        there = map(tuple, spark.read.format("delta").load(str(tables / "d" / name)).collect())
        assert Counter(there) == Counter(rows)
    points = [point for batch in clean.points for point in batch]
    print(*(f"{n}. {name}" for n, (name, _) in enumerate(points, 1)), sep="\n")
    commits = sum("commitInfo" in action for log in tables.rglob("_delta_log") for action in actions(log))
    places = ("/waiting", "_dead_letters", "/keys/")
    others = [p for p in points if is_of_spark(p) and any(place in p[0] for place in places)]
    assert commits == sum(map(is_of_spark, points)) - len(others), points
    kinds = {name.split()[0] for name, _ in points}
    assert kinds >= {"open", "rename", "rmtree", "parquet", "text", "create", "append", "merge", "sql"}


@pytest.mark.parametrize("seed", seeds("kills", _KILLS, each=_KILLS))
def test_a_killed_replica_ends_as_one_that_was_not(
    spark: SparkSession, clean: CleanRun, tmp_path: Path, seed: int
) -> None:
    print(command("kills", _KILLS, seed))
    chance, folder, left = random.Random(seed), tmp_path / "run", _KILLS
    clean.begin(0, folder)
    for batch in range(len(BATCHES)):
        clean.grow(batch, folder)
        here = left // (len(BATCHES) - batch)
        killed = [*kills(spark, clean, folder, batch, chance, here, by_process=seed % 2 == 1)]
        left -= len(killed)
        print(f"batch {batch}, killed before {killed}")
        replicate(spark, folder)
        clean.check(spark, folder, batch)
    print(f"{_KILLS - left} kills")
    assert left < _KILLS // 2


def kills(
    spark: SparkSession,
    clean: CleanRun,
    folder: Path,
    batch: int,
    chance: random.Random,
    most: int,
    *,
    by_process: bool,
) -> Iterator[object]:
    """Start a replica and kill it, at first anywhere in its batch, so many times or until it is done; tell where."""
    first = chance.choice(clean.points[batch])
    if by_process:
        first, delay = chance.choice(list(filter(is_of_spark, clean.points[batch]))), chance.uniform(0, 1)
        killed_process(folder, first, delay)
        yield first, delay
    for kill in range(by_process, most):
        at = chance.randrange(1, _FIRST_EFFECTS + 1) if kill else first
        with CrashPoints(folder, at).watching() as crash:
            try:
                replicate(spark, folder)
            except Killed:
                yield crash.points[-1]
            else:
                return


def killed_process(folder: Path, point: Point, delay: float) -> None:
    """Run the command line as a process, and kill it and its Java some time after it came to a point."""
    command = [sys.executable, crash_points.__file__, str(folder), point[0], str(point[1]), str(delay)]
    command += ["replicate", uri(folder), "--to", str(folder / "tables"), "--tz", "UTC"]
    command += [f"--{name}={value}" for name, value in options(folder).items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SLOW, start_new_session=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
