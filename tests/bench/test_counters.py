"""What commands cost in counts that no other load changes: Spark jobs, calls from Python to Java, bytes."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from bench import bounds, counters
from bench.runs import commands

TRIED = ("verify", "replicate", "convert to debezium", "convert to simple-avro")


def test_a_small_step_stays_within_its_bounds(compiled: SparkSession, tmp_path: Path) -> None:
    step = bounds.steps()["small-step"]
    found = dict(counters.count(compiled, step, tmp_path, TRIED))
    assert bounds.exceeded("small-step", step, found) == []
    assert all(one["jobs"] and one["calls"] for one in found.values())  # something was counted


def test_every_bound_is_that_of_a_command(spark: SparkSession, tmp_path: Path) -> None:
    named = {command for step in bounds.steps().values() for command in step.most}
    assert named <= set(commands(spark, tmp_path))
