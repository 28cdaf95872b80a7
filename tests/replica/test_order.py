"""Rows of a table without a key, and the newest change of each key."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidecast.replica.settle._order import newest, without_repeats

A, B = ("a",), ("b",)


@pytest.mark.parametrize("topic", ["t", "u"])
def test_equal_rows_of_two_transactions_are_two_rows(topic: str, spark: SparkSession) -> None:
    """What TiCDC sends again has its commit-ts; another transaction may insert the very same row."""
    rows = [
        (A, "t", 0, 0, 5),
        (B, "t", 0, 1, 5),
        (A, "t", 0, 2, 6),
        (A, topic, 1, 3, 5),  # sent again, in another partition; in another topic it is another table's
        (A, "t", 0, 0, 5),  # read twice
        (A, "t", 0, 4, None),
        (A, "t", 0, 5, None),
    ]
    kind = "row struct<x: string>, topic string, partition int, offset bigint, commit_ts bigint"
    found = without_repeats(spark.createDataFrame(rows, kind)).orderBy("offset").collect()
    again = topic == "t"
    assert [(row["offset"], row["repeats"]) for row in found] == [
        (0, 1 if again else 0),
        (1, 0),
        (2, 0),
        *([] if again else [(3, 0)]),
        (4, None),
        (5, None),
    ]


def test_the_newest_change_is_that_of_the_highest_commit_ts_whatever_its_offset(spark: SparkSession) -> None:
    changes = [
        (A, False, "old", "t", 0, 1, 5),
        (A, False, "new", "t", 0, 2, 7),
        (A, False, "old", "t", 1, 9, 5),  # sent again
        (B, False, "moved in", "t", 0, 3, 8),
        (B, True, None, "t", 1, 8, 8),  # a transaction deletes before it inserts
    ]
    kind = (
        "key struct<x: string>, deleted boolean, after string, topic string, partition int, offset bigint, "
        "commit_ts bigint"
    )
    found = newest(spark.createDataFrame(changes, kind), has_commit_ts=True).orderBy("key.x").collect()
    assert [(row["key"]["x"], row["deleted"], row["after"]) for row in found] == [
        ("a", False, "new"),
        ("b", False, "moved in"),
    ]
    assert (found[0]["first_place"]["partition"], found[0]["last_place"]["partition"]) == (0, 1)
