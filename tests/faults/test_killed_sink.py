"""A storage sink that is killed before any of its side effects, and written again: its readers lose nothing.

`python -m tests.faults --sinks 50` takes fifty seeds, each of which kills the writer once at each batch.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash_points import CrashPoints, Killed
from fault_seeds import command, seeds
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_N, _M = ({**ID, "name": name, "nullable": True} for name in "nm")
_CHANGED = _T0 + 20
_T, _U = table(_T0, ID, _N), table(_T0 + 1, ID, _N, name="u")


def _known(at: int, *schemas: Said) -> list[Said]:
    """Schemas that a batch of its own needs, as the sink's files have them already."""
    return [{"version": 1, "type": "BOOTSTRAP", "commitTs": at, "buildTs": 1, "tableSchema": one} for one in schemas]


_CHANGED_T = table(_CHANGED, ID, _N, _M)
_BATCHES: list[list[Said]] = [
    [
        ddl("CREATE TABLE `d`.`t` (`id` INT, `n` INT)", _T0, _T),
        ddl("CREATE TABLE `d`.`u` (`id` INT, `n` INT)", _T0 + 1, _U),
        *(row(_T0 + 2 + n, _T0, id=n, n=n) for n in range(4)),
        row(_T0 + 6, _T0 + 1, name="u", id=1, n=1),
        watermark(_T0 + 7),
    ],
    [
        *_known(_T0 + 8, _T, _U),
        row(_T0 + 11, _T0, kind="DELETE", id=0, n=0),
        row(_T0 + 12, _T0, id=4, n=4),
        ddl("ALTER TABLE `d`.`t` ADD COLUMN `m` INT", _CHANGED, _CHANGED_T),
        row(_CHANGED + 1, _CHANGED, kind="UPDATE", id=1, n=1, m=1),
        row(_CHANGED + 2, _T0 + 1, name="u", id=2, n=2),
        watermark(_CHANGED + 3),
    ],
    [
        *_known(_CHANGED + 4, _CHANGED_T, _U),
        row(_CHANGED + 11, _CHANGED, id=5, n=5, m=5),
        row(_CHANGED + 12, _T0 + 1, name="u", id=3, n=3),
    ],
]
_STATES: list[dict[str, list[tuple[Any, ...]]]] = [
    {"t": [(0, 0), (1, 1), (2, 2), (3, 3)], "u": [(1, 1)]},
    {"t": [(1, 1, 1), (2, 2, None), (3, 3, None), (4, 4, None)], "u": [(1, 1), (2, 2)]},
    {"t": [(1, 1, 1), (2, 2, None), (3, 3, None), (4, 4, None), (5, 5, 5)], "u": [(1, 1), (2, 2), (3, 3)]},
]
"""The tables after each batch."""


@dataclass
class _Feed:
    """A sink that gets the batches, each killed at a point first, and a replica that reads it all the while."""

    spark: SparkSession
    folder: Path
    protocol: str

    @property
    def uri(self) -> str:
        return f"file://{self.folder}/sink?protocol={self.protocol}"

    def write(self, number: int) -> None:
        """Write a batch; it is the same one when it is written again."""
        folder = self.folder / f"batch-{number}"
        there, topic = folder.exists(), GrowingTopic(folder)
        if not there:
            topic.grow(_BATCHES[number])
        config = self.folder / "feed.toml"
        config.write_text("[sink.csv]\ninclude-commit-ts = true\n")
        dead = str(self.folder / "dead")
        done = tidecast.convert(topic.uri, self.uri, config=str(config), dead_letters=dead, spark=self.spark)
        assert not done.dead_letters

    def killed(self, number: int, at: int | None) -> CrashPoints:
        """Write a batch up to one of its side effects."""
        with CrashPoints(self.folder / "sink", at).watching() as points, suppress(Killed):
            self.write(number)
        return points

    def read(self) -> dict[str, list[tuple[Any, ...]]]:
        """Let the replica go on; return its tables."""
        to = self.folder / "tables"
        if not (self.folder / "sink" / "metadata").exists():
            return {}
        checkpoint = str(self.folder / "checkpoint")
        done = tidecast.replicate(self.uri, str(to), checkpoint=checkpoint, ddl="evolve", spark=self.spark)
        assert not done.dead_letters
        there = [name for name in "tu" if (to / "d" / name).exists()]
        return {
            name: sorted(map(tuple, self.spark.read.format("delta").load(f"{to}/d/{name}").collect())) for name in there
        }


@pytest.mark.parametrize("seed", seeds("sinks", 1))
def test_a_killed_sink_is_whole_after_the_next_run(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    feed = _Feed(spark, tmp_path, ("csv", "canal-json&enable-tidb-extension=true")[seed % 2])
    for number, state in enumerate(_STATES):
        # As many as a run has that makes its folders, and some: beyond the last one nothing is killed.
        at = chance.randrange(1, 30)
        shown = f"batch {number} killed at {at}; {command('sinks', 1, seed)}"
        points = feed.killed(number, at)
        if points.killed:
            read = feed.read()
            for name, rows in read.items():
                keys = [
                    {row[0] for row in some.get(name, [])} for some in (_STATES[number - 1] if number else {}, state)
                ]
                assert keys[0] & keys[1] <= {row[0] for row in rows} <= keys[0] | keys[1], shown
            feed.write(number)
        assert feed.read() == state, shown
    checkpoint = json.loads((tmp_path / "sink" / "metadata").read_text())
    assert checkpoint == {"checkpoint-ts": _CHANGED + 3}
