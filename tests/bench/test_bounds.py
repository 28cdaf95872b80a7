"""What breaks a bound."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench import __main__ as program
from bench.bounds import Step, below, exceeded, least_ratios, steps
from bench.commands import contestants

STEP = Step(10, most={"verify": {"jobs": 3, "calls": 400}, "replicate": {"spilled": 0}})


def _counts(**changed: Any) -> dict[str, dict[str, Any]]:
    within = {"jobs": 3, "calls": 400, "spilled": 0}
    return {"verify": {**within, **changed}, "replicate": {**within, **changed}}


def test_a_count_may_be_as_high_as_its_bound() -> None:
    assert exceeded("small", STEP, _counts()) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"jobs": 4}, ["small: verify: 4 jobs, at most 3"]),
        ({"calls": 1401}, ["small: verify: 1,401 calls, at most 400"]),
        ({"spilled": 1}, ["small: replicate: 1 spilled, at most 0"]),
        ({"spilled": None}, ["small: replicate: unknown spilled, at most 0"]),
    ],
)
def test_more_is_told(changed: dict[str, Any], told: list[str]) -> None:
    assert exceeded("small", STEP, _counts(**changed)) == told


def _result(ratio: float) -> list[dict[str, Any]]:
    beside = [{"name": "Spark", "ratio": {"min": 0.1, "median": ratio, "max": 9.0}}]
    return [{"name": "verify", "seconds": {}, "beside": beside}]


def test_a_ratio_is_held_to_its_bound_by_its_median() -> None:
    least = {"commands": {"verify": {"Spark": 0.5}}}
    assert below("commands", _result(0.5), least) == []
    assert below("commands", _result(0.49), least) == ["commands: verify beside Spark: 0.49, at least 0.5"]
    assert below("commands", [], least) == ["commands: verify beside Spark: unknown, at least 0.5"]
    assert below("simple", _result(0.1), least) == []


def test_the_bounds_that_are_there_can_be_read() -> None:
    assert steps()["fifty-tables"].tables == 50
    assert steps()["whole-commands"].most["verify"] == {"spilled": 0}
    assert set(least_ratios()) <= set(program.RACES)


def test_every_bound_of_a_ratio_is_of_two_who_race(spark: SparkSession, tmp_path: Path) -> None:
    racing = {one.name: one for one in contestants(spark, tmp_path)}
    for name, peers in least_ratios()["commands"].items():
        assert set(peers) <= set(racing[name].beside) <= set(racing)


BROKEN = """
[counters.tiny]
rows = 100
warm = 1

[counters.tiny.most]
"verify" = { jobs = 100 }
"replicate simple" = { jobs = 1, spilled = 0 }

[ratios.avro_checksum]
"tidecast: checksum, encode" = { "fastavro: schemaless_writer" = 1000 }
"tidecast: decode, verify" = { "Spark: from_avro" = 0 }
"""


@pytest.mark.spark
@pytest.mark.skipif(not os.environ.get("TIDECAST_BENCH"), reason="only with TIDECAST_BENCH=1")
def test_check_fails_on_what_is_counted_and_on_what_is_slow(tmp_path: Path) -> None:
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(BROKEN)
    command = [sys.executable, "-m", "bench", "avro_checksum", "counters", "--rows=100", "--rounds=1", "--json"]
    checked = [*command, "--check", "--times", f"--bounds={bounds}"]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    jobs, slow = done.stderr.splitlines()[-2:]
    assert re.fullmatch(r"tiny: replicate simple: \d+ jobs, at most 1", jobs)
    assert re.fullmatch(r"avro_checksum: .*, encode beside fastavro: schemaless_writer: [\d.]+, at least 1000", slow)
    found = json.loads(done.stdout)
    assert found["avro_checksum"]["rows"] == 100
    counts = found["counters"]["tiny"]["replicate simple"]
    assert counts["passes"] >= 1  # every message is read
    assert counts["seconds"] > 0
    assert counts["spilled"] == 0
