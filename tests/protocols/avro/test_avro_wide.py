"""Decimals of more than 38 digits, which are folded in Spark, as Python's own whole numbers are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from strategies import drawn

from tidecast.protocols.avro import _wide

DIGITS = 65
NUMBERS = st.integers(1, DIGITS).flatmap(lambda digits: st.integers(-(10**digits) + 1, 10**digits - 1))
EDGES = st.integers(1, 215).flatmap(lambda bits: st.integers(-2, 2).map(lambda near: (1 << bits) + near))


def as_bytes(number: int) -> bytes:
    """Return the shortest two's complement."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


@pytest.mark.parametrize("scale", [0, 1, 30])
def test_wide_decimals_are_pythons_whole_numbers(spark: SparkSession, scale: int) -> None:
    numbers = drawn(NUMBERS | EDGES | EDGES.map(lambda n: -n), 200)
    texts = [format(Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)), "f") for n in numbers]
    frame = spark.createDataFrame([(t, as_bytes(n)) for t, n in zip(texts, numbers, strict=True)], "t string, b binary")
    rows = frame.coalesce(1).select(_wide.bytes_of(F.col("t")), _wide.text_of(F.col("b"), scale)).collect()
    assert [(row[0] and bytes(row[0]), row[1]) for row in rows] == [
        (as_bytes(n), t) for n, t in zip(numbers, texts, strict=True)
    ]
