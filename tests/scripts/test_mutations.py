"""Damaged messages of every protocol: none is lost, counted twice or taken for sound; `scripts/mutate` takes more."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from script_module import load_script

mutate = load_script("mutate")
TABLES = ("t_int", "t_str", "t_dec", "t_time", "t_bin")


@pytest.mark.parametrize("name", ["avro", "debezium", "simple-json", "simple-avro"])
def test_no_damaged_message_is_lost_or_taken_for_sound(name: str, spark: SparkSession, tmp_path: Path) -> None:
    suite = mutate.SUITES[name]
    registry = mutate.load_registry(suite, tmp_path)
    report = mutate.run(spark, suite, registry, count=600, seed=7, size=600, tables=TABLES)
    assert report.failures == []
    assert report.messages >= 600
    assert report.outcomes["dead letter"] > 100
    assert report.outcomes["match"] + report.outcomes["none"] > 0
