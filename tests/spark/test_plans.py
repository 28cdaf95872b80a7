"""What is computed once, and where, gives what the plain expression gives."""

from __future__ import annotations

from hypothesis import strategies as st
from plans import explained
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from strategies import drawn

from tidecast.spark import called, evaluated_once, let

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


def test_a_function_of_a_value_is_the_expression_with_the_value_in_it(spark: SparkSession) -> None:
    numbers = drawn(st.integers(-(2**31), 2**31 - 1) | st.none(), 200)
    frame = spark.createDataFrame([(one,) for one in numbers], "x bigint").coalesce(1)
    named = called("n -> " + let("twice", "n + n", "twice * twice - n"), F.col("x"))
    assert frame.select(named).collect() == frame.selectExpr("(x + x) * (x + x) - x").collect()


def test_a_named_value_is_computed_once(spark: SparkSession) -> None:
    assert spark.range(20).where(F.expr(let("r", "rand(1)", "r = r"))).count() == 20
