"""What is told of a command while it runs."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import SparkSession

from tidecast._progress import RowCount
from tidecast.cli import _progress
from tidecast.cli._progress import progress, said


def test_a_step_in_words() -> None:
    assert said(("reading", 0, 0), (0, 12), 0) == "reading (0 of 12 tasks, 0 %)"
    assert said(("shop.orders", 2, 6), (1_000, 4_000), 90) == (
        "shop.orders (2 of 6, 1,000 of 4,000 tasks, 25 %, about 4 min 30 s left)"
    )


def test_rows_are_told_by_the_share_of_tasks() -> None:
    step = ("verifying rows", 0, RowCount(1_200_000))
    assert said(step, (0, 12), 40) == "verifying rows (0 of 1,200,000, 0 of 12 tasks, 0 %, 40 s so far)"
    assert said(step, (3, 12), 10) == (
        "verifying rows (300,000 of 1,200,000, 3 of 12 tasks, 25 %, 30,000 a second, about 30 s left)"
    )


def test_tasks_are_told_while_spark_runs(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "_LINE_S", 0.02)
    with progress() as step:
        step("counting", 0, 0)
        time.sleep(0.1)  # nothing runs, and nothing is told
        assert capsys.readouterr().err == "counting\n"
        spark.range(0, 40, 1, 40).selectExpr("reflect('java.lang.Thread', 'sleep', 20L)").collect()
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("counting (") and " of 40 tasks, " in line for line in lines)
