"""The topics that commands are measured on: all rows are sound, in every size and protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.orders import SCHEMA, table
from bench.runs import Runs
from bench.topics import write_topics
from tidecast.checksum import Verdict


def test_a_table_of_more_columns_begins_with_the_twelve() -> None:
    assert table(12) == SCHEMA
    wide = [column.name for column in table(26).columns]
    assert wide[:14] == [*(column.name for column in SCHEMA.columns), "id_1", "qty_1"]
    assert wide[24:] == ["id_2", "qty_2"]
    assert [column.name for column in table(12, version=3).columns[12:]] == ["qty_of_2", "qty_of_3"]


def test_every_row_of_every_version_and_table_matches_its_checksum(spark: SparkSession, tmp_path: Path) -> None:
    write_topics(spark, 7, tmp_path, tables=2, columns=14, versions=2)
    found = Runs(spark, tmp_path).verify()()
    assert found.dead_letters == {}
    assert found.tables == {"shop.orders": {Verdict.MATCH: 7}, "shop.orders1": {Verdict.MATCH: 7}}


@pytest.mark.parametrize(
    ("source", "verdict"),
    [("simple", Verdict.MATCH), ("debezium", Verdict.NONE), ("csv", Verdict.NONE), ("canal-json", Verdict.NONE)],
)
def test_other_protocols_have_the_same_rows(spark: SparkSession, tmp_path: Path, source: str, verdict: str) -> None:
    write_topics(spark, 5, tmp_path)
    runs = Runs(spark, tmp_path)
    found = runs.verify(source)()
    assert found.dead_letters == {}
    assert found.verdicts == {verdict: 5}
