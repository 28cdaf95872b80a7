"""What a small step costs in counts that no other load changes: Spark jobs, and calls from Python to Java."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from bench import commands, counters

TRIED = ("verify", "replicate", "convert to debezium", "convert to simple-avro")


def test_a_small_step_stays_within_its_bounds(compiled: SparkSession, tmp_path: Path) -> None:
    commands.write_topic(compiled, 10, tmp_path / "topics", tmp_path / "registry")
    runs = counters.commands(compiled, tmp_path)
    found = {name: counters.counted(compiled, runs[name]) for name in TRIED}
    assert counters.exceeded(found) == []
    assert all(one.jobs and one.calls for one in found.values())  # something was counted
    assert found["replicate"].jobs > 4  # and what threads do for the tables, in which the caller's job group holds
