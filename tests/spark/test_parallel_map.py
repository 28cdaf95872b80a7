"""What is planned in several threads."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from tidecast.spark import parallel_map


def test_several_are_made_at_a_time_and_come_in_their_order(session: SparkSession) -> None:
    both = threading.Barrier(2, timeout=60)

    def make(n: int) -> tuple[int, bool]:
        return n, both.wait() >= 0

    assert parallel_map(make, [3, 1]) == [(3, True), (1, True)]


def test_their_jobs_have_the_callers_properties(session: SparkSession) -> None:
    context = session.sparkContext
    context.setLocalProperty("the.caller", "here")
    assert parallel_map(lambda _: context.getLocalProperty("the.caller"), range(3)) == ["here"] * 3


def test_their_jobs_have_properties_of_their_own(session: SparkSession) -> None:
    """Spark keeps the number of the running execution there, and fails where another thread takes it away."""
    context, both = session.sparkContext, threading.Barrier(2, timeout=60)

    def make(n: int) -> str | None:
        context.setLocalProperty("the.execution", str(n))
        both.wait()
        return context.getLocalProperty("the.execution")

    assert parallel_map(make, [3, 1]) == ["3", "1"]


def test_the_first_error_is_raised(session: SparkSession) -> None:
    def make(n: int) -> int:
        if n:
            raise ValueError(n)
        return n

    with pytest.raises(ValueError, match=r"^1$"):
        parallel_map(make, range(3))
