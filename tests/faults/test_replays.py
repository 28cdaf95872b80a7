"""Deliveries that the delivery chaos found to go wrong, each as small as it can be."""

from __future__ import annotations

from pathlib import Path

from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_VALUE = {**ID, "name": "value", "nullable": True}
_SCHEMA = table(_T0, ID, _VALUE)
_CREATE = ddl("CREATE TABLE `d`.`t`", _T0, _SCHEMA)


def put(ts: int, value: int) -> Said:
    """The only key gets a value."""
    return row(_T0 + ts, _T0, id=1, value=value)


def replicated(spark: SparkSession, folder: Path, *batches: list[Said]) -> list[tuple[int, ...]]:
    """Return the rows of a table after a topic came in batches."""
    topic = GrowingTopic(folder / "topic")
    for batch in batches:
        topic.deliver((0, message) for message in batch)
        checkpoint = str(folder / "checkpoint")
        tidecast.replicate(topic.uri, str(folder / "tables"), checkpoint=checkpoint, tz="UTC", spark=spark)
    return sorted(map(tuple, spark.read.format("delta").load(str(folder / "tables" / "d" / "t")).collect()))


def test_a_replay_after_a_watermark_may_be_cut_by_the_end_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The rest of the replay, which the watermark covers, is left out, and so is what would set the key right."""
    old, new = put(1, 10), put(2, 20)
    batches = [_CREATE, old, new], [watermark(_T0 + 2), old], [new, watermark(_T0 + 3)]
    assert replicated(spark, tmp_path, *batches) == [(1, 20)]


def test_a_row_without_a_key_is_repeated_before_a_watermark_covers_it(spark: SparkSession, tmp_path: Path) -> None:
    create = ddl("CREATE TABLE `d`.`t`", _T0, _SCHEMA | {"indexes": []})
    batches = [create, watermark(_T0), put(1, 10)], [put(1, 10), watermark(_T0 + 1)]
    assert replicated(spark, tmp_path, *batches) == [(1, 10)]
