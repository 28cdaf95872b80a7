"""The order in which rows leave: a key's changes never overtake each other, wherever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from tidecast.publish._order import _row_sequence


class Row(NamedTuple):
    """A row that leaves: its table, operation, key and value; `moved` is the insert half of a split update."""

    table: int
    op: str
    key: int
    value: str | None
    commit_ts: int | None
    offset: int
    moved: bool = False
    partition: int = 0


def split(table: int, old: int, new: int, value: str, commit_ts: int | None, offset: int) -> list[Row]:
    """An update of a key as it leaves."""
    return [Row(table, "d", old, None, commit_ts, offset), Row(table, "c", new, value, commit_ts, offset, moved=True)]


def in_order(spark: SparkSession, rows: Sequence[Row], *, ordered: bool) -> list[Row]:
    """Return rows in the order in which they leave; they are spread over Spark's tasks beforehand."""
    place = "struct<topic:string,offset:bigint,partition:int,commit_ts:bigint>"
    kind = f"number int, op string, plan int, moved boolean, source {place}"
    given = [(n, r.op, r.table, r.moved, ("t", r.offset, r.partition, r.commit_ts)) for n, r in enumerate(rows)]
    frame = spark.createDataFrame(given[::-1], kind).repartition(3)
    sequence = _row_sequence(ordered=ordered, moved=any(r.moved for r in rows), alone=False)
    found = frame.select("number", sequence.alias("sequence")).orderBy("sequence").collect()
    assert len({row["sequence"] for row in found}) == len(rows)  # nothing is left to chance
    return [rows[row["number"]] for row in found]


def table(rows: Sequence[Row], number: int) -> dict[int, str | None]:
    """Return what rows make of a table, one after the other."""
    there: dict[int, str | None] = {}
    for row in rows:
        if row.table == number:
            there.pop(row.key, None)
            there |= {} if row.op == "d" else {row.key: row.value}
    return there


_YOUNGER = Row(1, "c", 1, "x", 10, 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([_YOUNGER, Row(2, "c", 7, "old", 5, 1), Row(2, "u", 7, "new", 6, 2)], {7: "new"}),
        ([_YOUNGER, Row(2, "c", 7, "old", 5, 1), Row(2, "d", 7, None, 6, 2)], {}),
        ([_YOUNGER, *split(2, 7, 8, "old", 5, 1), Row(2, "u", 8, "new", 6, 2)], {8: "new"}),
        ([Row(2, op, 7, "v", ts, n) for n, (op, ts) in enumerate([("c", 5), ("d", 10)] * 2)], {}),
        ([*split(2, 1, 2, "a", 5, 0), *split(2, 2, 1, "b", 5, 1)], {2: "a", 1: "b"}),
        ([*split(2, 1, 2, "a", 5, 0), *split(2, 2, 3, "b", 5, 1), Row(2, "u", 3, "c", 6, 2)], {2: "a", 3: "c"}),
        ([*split(2, 1, 2, "a", None, 0), Row(2, "u", 2, "b", None, 1)], {2: "b"}),
        ([Row(2, "c", 7, "v", 10, 0), Row(2, "d", 7, None, None, 1)], {}),
    ],
    ids=["update", "delete", "split", "replay", "swap", "shift", "no commit-ts", "some without"],
)
def test_rows_of_a_partition_keep_their_order(
    spark: SparkSession, rows: Sequence[Row], expected: dict[int, str]
) -> None:
    assert table(in_order(spark, rows, ordered=False), 2) == expected


def test_rows_leave_by_their_commit_ts(spark: SparkSession) -> None:
    """So all that a watermark, or a schema change, covers is before it; a row without one keeps its place."""
    rows = [_YOUNGER, Row(2, "c", 7, "v", 5, 1), Row(2, "u", 7, "w", None, 2), Row(1, "u", 1, "y", 11, 3)]
    assert [r.commit_ts for r in in_order(spark, rows, ordered=False)] == [5, 10, None, 11]


def test_an_insert_half_comes_behind_the_delete_in_another_partition(spark: SparkSession) -> None:
    rows = [Row(2, "c", 7, "a", 5, 0), Row(2, "c", 8, "b", 6, 1), Row(2, "d", 7, None, 5, 9, partition=1)]
    assert [(r.op, r.key) for r in in_order(spark, rows, ordered=False)] == [("d", 7), ("c", 7), ("c", 8)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*split(2, 1, 2, "a", None, 0), Row(2, "u", 2, "b", None, 1), Row(2, "c", 9, "z", None, 2)], {2: "b", 9: "z"}),
        ([*split(2, 1, 2, "a", None, 0), Row(2, "d", 2, None, None, 1), Row(2, "c", 9, "z", None, 2)], {9: "z"}),
        ([*split(2, 1, 2, "a", 5, 0), *split(2, 2, 1, "b", 5, 1), Row(2, "u", 1, "c", 6, 2)], {2: "a", 1: "c"}),
    ],
    ids=["no commit-ts", "no commit-ts, deleted", "swap"],
)
def test_rows_of_a_source_in_one_order_keep_it(
    spark: SparkSession, rows: Sequence[Row], expected: dict[int, str]
) -> None:
    assert table(in_order(spark, rows, ordered=True), 2) == expected
