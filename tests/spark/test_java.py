"""What the session's Java tells of itself."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidecast.runtime import find_java
from tidecast.spark import java_properties, java_version


def test_a_session_tells_its_java(spark: SparkSession) -> None:
    assert java_version(spark) == find_java().version
    assert java_properties(spark, ["file.separator", "tidecast.unknown"]) == ["/", None]


def test_a_session_is_asked_once(spark: SparkSession, other_session: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("asked", "asked")
    try:
        assert [java_version(other_session) for _ in range(3)] == [find_java().version] * 3
        assert len(tracker.getJobIdsForGroup("asked")) == 1
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_a_session_that_lets_sql_call_no_java_has_none(spark: SparkSession) -> None:
    assert java_properties(spark, ["'"]) is None  # which SQL refuses
