"""What is told of a command while it runs."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql import SparkSession

from tidecast._progress import Finished, RowCount
from tidecast.cli import _progress
from tidecast.cli._progress import progress, said
from tidecast.runtime import RunningTasks


def test_a_step_in_words() -> None:
    assert said(("reading", 0, 0), (0, 12), 0) == "reading (0 of 12 tasks, 0 %)"
    assert said(("shop.orders", 2, 6), (1_000, 4_000), 90) == (
        "shop.orders (2 of 6, 1,000 of 4,000 tasks, 25 %, about 4 min 30 s left)"
    )


def test_a_task_alone_tells_only_how_long_it_has_taken() -> None:
    assert said(("reading", 0, 0), (0, 1), 0) == "reading"
    assert said(("reading", 0, 0), (0, 1), 75) == "reading (1 min 15 s so far)"
    assert said(("verifying rows", 0, RowCount(9_000)), (0, 1), 3) == "verifying rows (9,000 in all, 3 s so far)"


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


def test_what_is_done_is_not_told_of_what_follows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "_LINE_S", 0.02)
    with progress() as step:
        step(Finished("batch 1: 2 row changes"), 0, 0)
        spark.range(0, 8, 1, 8).selectExpr("reflect('java.lang.Thread', 'sleep', 30L)").collect()
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "batch 1: 2 row changes"
    assert others
    assert all(line.startswith("reading (") for line in others)


def test_stages_that_have_ended_count_until_the_next_step(spark: SparkSession) -> None:
    tasks = RunningTasks(spark)
    seen: list[tuple[int, int]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            seen.append(tasks.read())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    slow = "length(coalesce(reflect('java.lang.Thread', 'sleep', 300L), ''))"
    keys = spark.range(0, 8, 1, 8).selectExpr(f"id % 3 + 0 * {slow} AS k")
    keys.groupBy("k").count().selectExpr(slow).collect()
    ended.set()
    watching.join()
    totals = [total for _, total in seen]
    assert totals == sorted(totals)  # the shuffle's tasks come to those before them
    done, total = tasks.read()
    assert done == total == totals[-1] > 8
    tasks.begin()
    assert tasks.read() == (0, 0)
