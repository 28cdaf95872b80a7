"""What is computed once, and where, gives what the plain expression gives."""

from __future__ import annotations

from hypothesis import strategies as st
from plans import explained
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from strategies import drawn

from tidecast.spark import evaluated_once

OBJECTS = st.one_of(
    st.fixed_dictionaries({}, optional={"a": st.integers(-9, 9), "b": st.text("xyé,", max_size=3)}).map(
        lambda one: str(one).replace("'", '"')
    ),
    st.sampled_from(["", "{", "[]", "null"]),
)


def parsed() -> Column:
    return F.from_json("x", "a int, b string")


def used(frame: DataFrame) -> DataFrame:
    """Return a frame that speaks of the column `m` in a filter and several times in a projection."""
    return frame.where(F.col("m.a").isNull() | (F.col("m.a") < 5)).select("x", F.col("m.a") + 1, F.concat("m.b", "m.b"))


def test_a_value_that_is_computed_once_is_the_plain_one(spark: SparkSession) -> None:
    objects = drawn(OBJECTS, 200)
    frame = spark.createDataFrame([(one,) for one in objects], "x string").coalesce(1)
    plain = used(frame.select("x", parsed().alias("m")))
    once = used(frame.select("x", evaluated_once(parsed()).alias("m")))
    assert once.collect() == plain.collect()


def test_a_value_is_computed_once_whoever_asks(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("{}",)], "x string")
    assert explained(used(frame.select("x", parsed().alias("m")))).count("from_json(") > 1
    assert explained(used(frame.select("x", evaluated_once(parsed()).alias("m")))).count("from_json(") == 1
