"""Keys whose changes come again, cut by the ends of batches: none is set back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from checkpointed import Replica
from full import full
from growing_topic import ID, PRIMARY, GrowingTopic, ddl, table, watermark
from growing_topic import row as change
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import tidecast
from tidecast.model import compose
from tidecast.replica import AppliedKeys
from tidecast.replica.settle._order import newest
from tidecast.replica.state import _applied_keys
from tidecast.replica.state._applied_keys import TableKeys
from tidecast.sources import Progress
from tidecast.storage import storage_path
from tidecast.topics import Offsets

_BATCHES = 9
_DAY = 24 * 3600 * 1000
_KEY = T.StructType([T.StructField("id", T.IntegerType())])
_CHANGES = (
    "key struct<id: int>, deleted boolean, after int, topic string, partition int, offset bigint, commit_ts bigint"
)
_T0 = compose(1_700_000_000_000)


@dataclass
class Schedule:
    """What happened to one key, by number: its commit-ts, and whether it was a delete; and how TiCDC sent it.

    `sent` are the numbers in the order in which they came, each with its batch.
    """

    history: list[tuple[int, bool]]
    sent: list[tuple[int, int]]
    table: int | None = None
    last: int = -1
    reached: int = -1


def schedules(seed: int, count: int) -> Iterator[Schedule]:
    """Give schedules: TiCDC stops anywhere, and begins again anywhere before that, until all was sent."""
    rand = random.Random(seed)
    for _ in range(count):
        ts, present, history = rand.randrange(40), False, list[tuple[int, bool]]()
        for _ in range(rand.randint(1, 8)):
            deleted = present and rand.random() < 0.4
            # A transaction deletes before it inserts, both at its commit-ts.
            ts += 0 if history and history[-1][1] and rand.random() < 0.5 else rand.randint(1, 9)
            history.append((_T0 + ts, deleted))
            present = not deleted
        order, at = list[int](), 0
        for _ in range(rand.randint(0, 3)):
            end = rand.randint(at, len(history))
            order += range(at, end)
            at = rand.randint(0, end)
        order += range(at, len(history))
        batches = sorted(rand.randrange(_BATCHES) for _ in order)
        yield Schedule(history, list(zip(order, batches, strict=True)))


def batch_of(spark: SparkSession, every: list[Schedule], batch: int, *, has_commit_ts: bool) -> DataFrame:
    """Return what came of all schedules in one batch; each is a key of its own."""
    rows = []
    for key, schedule in enumerate(every):
        for offset, (number, when) in enumerate(schedule.sent):
            if when == batch:
                commit_ts, deleted = schedule.history[number]
                told = None if deleted and not has_commit_ts else commit_ts
                rows.append(((key,), deleted, None if deleted else number, "t", 0, offset, told))
    return spark.createDataFrame(rows, _CHANGES)


def apply(keys: TableKeys, changes: DataFrame, every: list[Schedule], *, has_commit_ts: bool) -> int:
    """Apply a batch to the schedules' tables, and remember it; return how many changes were left out."""
    found = newest(changes, has_commit_ts=has_commit_ts).persist()
    keys.tidy(changes.sparkSession)
    (asked,) = found.agg(*keys.of.asked()).collect()
    marked = keys.mark_repeated(found, asked)
    left = 0
    for row in (found if marked is None else marked).collect():
        schedule = every[row["key"]["id"]]
        if marked is None or not row["repeated"]:
            schedule.table = row["after"]
        else:
            left += 1
            schedule.table = None if row["after_delete"] else schedule.table
    keys.add(found, asked)
    found.unpersist()
    return left


def of_batch(folder: Path, batch: int, window: int = _DAY, covered: int = -1) -> TableKeys:
    return AppliedKeys(folder, batch, window, covered).of("d", "t", _KEY)


@pytest.mark.parametrize("has_commit_ts", [True, pytest.param(False, marks=full)])
def test_no_key_is_set_back_however_its_changes_are_repeated(
    has_commit_ts: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_applied_keys, "_MERGED_AT", 3)
    seed = random.randrange(1_000_000)
    every = list(schedules(seed, 3000))
    left = 0
    for batch in range(_BATCHES):
        changes = batch_of(spark, every, batch, has_commit_ts=has_commit_ts)
        left += apply(of_batch(tmp_path, batch), changes, every, has_commit_ts=has_commit_ts)
        for key, schedule in enumerate(every):
            sent = [number for number, when in schedule.sent if when == batch]
            if not sent:
                continue
            schedule.reached, schedule.last = max(schedule.reached, *sent), sent[-1]
            deleted = schedule.history[schedule.reached][1]
            right = {None if deleted else schedule.reached}
            if not has_commit_ts and schedule.last < schedule.reached:
                # A delete may be a new one, and the last row before one may be that after it.
                right |= {None, max(n for n in range(schedule.reached + 1) if not schedule.history[n][1])}
            assert schedule.table in right, f"seed {seed}, key {key}, batch {batch}: {schedule}"
    assert left > 100
    assert len(list(tmp_path.glob("*/*"))) < _BATCHES


def one(spark: SparkSession, *rows: tuple[int, bool, int]) -> DataFrame:
    """Return newest changes: a key, whether it was deleted, and its commit-ts."""
    changes = [
        ((key,), deleted, None if deleted else n, "t", 0, n, _T0 + ts) for n, (key, deleted, ts) in enumerate(rows)
    ]
    return newest(spark.createDataFrame(changes, _CHANGES), has_commit_ts=True)


def repeated(keys: TableKeys, changes: DataFrame) -> list[Any] | None:
    keys.tidy(changes.sparkSession)
    (asked,) = changes.agg(*keys.of.asked()).collect()
    marked = keys.mark_repeated(changes, asked)
    keys.add(changes, asked)
    return None if marked is None else sorted(row["key"]["id"] for row in marked.where("repeated").collect())


def test_a_key_is_forgotten_after_the_window(spark: SparkSession, tmp_path: Path) -> None:
    second = 1 << 18
    assert repeated(of_batch(tmp_path, 1, window=1000), one(spark, (1, False, 5))) is None
    assert repeated(of_batch(tmp_path, 2, window=1000), one(spark, (1, False, 4), (2, False, 4))) == [1]
    assert repeated(of_batch(tmp_path, 3, window=1000), one(spark, (3, False, 2000 * second))) is None
    assert repeated(of_batch(tmp_path, 4, window=1000), one(spark, (1, False, 4), (3, False, 6))) == [3]


def test_only_what_no_watermark_covers_is_remembered(spark: SparkSession, tmp_path: Path) -> None:
    """Rows up to the watermark of every partition are left out when they come again, before any key is looked at."""
    assert repeated(of_batch(tmp_path, 1, covered=_T0 + 5), one(spark, (1, False, 4), (2, False, 5))) is None
    assert not list(tmp_path.glob("*"))
    assert repeated(of_batch(tmp_path, 2, covered=_T0 + 5), one(spark, (1, False, 5), (2, True, 6))) is None
    assert repeated(of_batch(tmp_path, 3), one(spark, (1, False, 4), (2, False, 5))) == [2]


def test_the_lowest_watermark_of_all_partitions_covers_what_comes_later() -> None:
    """A partition that is behind, or tells nothing yet, may bring older rows of any key."""

    def covered(watermarks: dict[str, int], *ends: str, waiting: int = 0) -> int:
        offsets = Offsets(dict.fromkeys(ends, 9))
        return Progress(offsets, watermarks, None, 1, None, waiting, (), "kafka topic t").covered

    assert covered({"t/0": 60, "t/1": 30}, "t/0", "t/1") == 30
    assert covered({"t/0": 60}, "t/0", "t/1") == -1
    assert covered({"t/0": 60, "t/1": 30}, "t/0", "t/1", waiting=1) == -1
    assert covered({"": 60}, "t/a.jsonl") == 60
    assert covered({"t/0": 60}, "t/a.jsonl", "t/b.jsonl") == -1


def test_a_key_is_known_by_another_type(spark: SparkSession, tmp_path: Path) -> None:
    def keys(kind: str) -> TableKeys:
        schema = T._parse_datatype_string(f"id {kind}")
        assert isinstance(schema, T.StructType)
        return AppliedKeys(tmp_path, 1, _DAY).of("d", "t", schema)

    def changes(kind: str, ts: int) -> DataFrame:
        found = one(spark, (1, False, ts), (2, False, ts))
        return found.withColumn("key", F.struct(F.col("key.id").cast(kind).alias("id")))

    assert repeated(keys("int"), changes("int", 5)) is None
    assert repeated(keys("bigint"), changes("bigint", 4)) == [1, 2]
    assert repeated(keys("string"), changes("string", 3)) == ["1", "2"]
    other = changes("int", 3).withColumn("key", F.struct(F.to_date(F.lit("2024-01-01")).alias("id")))
    assert repeated(keys("date"), other) == []


def test_another_key_is_not_taken_for_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """A table may have been removed and made anew, with a column more in its key; a run may have ended in between."""
    assert repeated(of_batch(tmp_path, 1), one(spark, (1, False, 5))) is None
    keys = of_batch(tmp_path, 2)
    (tmp_path / keys.folder.name / f"{1:012}-{_T0 + 9:020}-0-00000000").mkdir()
    wider = TableKeys(keys.of, keys.folder, T.StructType([*_KEY.fields, T.StructField("x", T.IntegerType())]))
    changes = one(spark, (1, False, 4)).withColumn("key", F.struct("key.id", F.col("key.id").alias("x")))
    assert repeated(wider, changes) == []
    assert repeated(keys, one(spark, (1, False, 4))) == [1]


def test_a_refused_message_tells_no_time(spark: SparkSession, tmp_path: Path) -> None:
    """Its commit-ts may be damaged, and would make all that is remembered too old."""
    refused = F.col("time.commit_ts") > _T0 + 100
    changes = one(spark, (1, False, 5), (2, False, 1 << 62))
    changes = changes.withColumn("key", F.when(~refused, F.col("key")))
    assert repeated(of_batch(tmp_path, 1), changes) is None
    assert repeated(of_batch(tmp_path, 2), one(spark, (1, False, 4))) == [1]


def test_a_row_that_comes_again_in_a_later_run_sets_the_table_not_back(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    schema = table(_T0, ID, {**ID, "name": "n"})

    def run() -> list[tuple[int, ...]]:
        to, checkpoint = str(tmp_path / "tables"), str(tmp_path / "checkpoint")
        tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark)
        there = spark.read.format("delta").load(f"{to}/d/t").orderBy("id")
        return [tuple(row) for row in there.collect()]

    old, new = change(_T0 + 2, _T0, id=1, n=1), change(_T0 + 3, _T0, kind="UPDATE", id=1, n=2)
    there, gone = change(_T0 + 2, _T0, id=2, n=1), change(_T0 + 3, _T0, kind="DELETE", id=2, n=1)
    topic.grow([ddl("CREATE TABLE t (id int primary key, n int)", _T0, schema), watermark(_T0 + 1)])
    topic.grow([old, there, new, gone])
    assert run() == [(1, 2)]
    topic.grow([old, there])
    assert run() == [(1, 2)]
    topic.grow([new, gone, change(_T0 + 4, _T0, id=2, n=3), watermark(_T0 + 5)])
    assert run() == [(1, 2), (2, 3)]


def test_a_row_without_a_key_that_comes_again_in_a_later_run_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    schema = {**table(_T0, ID), "indexes": []}

    def run() -> list[int]:
        to, checkpoint = str(tmp_path / "tables"), str(tmp_path / "checkpoint")
        tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark)
        return sorted(row["id"] for row in spark.read.format("delta").load(f"{to}/d/t").collect())

    topic.grow([ddl("CREATE TABLE t (id int)", _T0, schema), watermark(_T0 + 1)])
    topic.grow([change(_T0 + 2, _T0, id=1), change(_T0 + 3, _T0, id=2)])
    assert run() == [1, 2]
    topic.grow([change(_T0 + 2, _T0, id=1)])
    assert run() == [1, 2]
    topic.grow([change(_T0 + 3, _T0, id=2), change(_T0 + 3, _T0, id=1), change(_T0 + 4, _T0, id=2)])
    assert run() == [1, 1, 2, 2]


def test_a_new_checkpoint_tells_that_rows_may_come_twice_whose_messages_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    schema = {**table(_T0, ID), "indexes": []}

    def warnings_with(checkpoint: str) -> list[str]:
        options: dict[str, Any] = {"checkpoint": str(tmp_path / checkpoint), "spark": spark}
        return [
            w for one in tidecast.replicate(topic.uri, str(tmp_path / "tables"), **options).tables for w in one.warnings
        ]

    topic.grow([ddl("CREATE TABLE t (id int)", _T0, schema)])
    topic.grow([change(_T0 + 2, _T0, id=1)])
    topic.grow([change(_T0 + 3, _T0, id=2)])
    assert not warnings_with("one")
    assert not warnings_with("two")  # the topic has the messages of all rows
    (tmp_path / "topic" / f"{1:012}.jsonl").unlink()
    topic.grow([change(_T0 + 4, _T0, id=3)])
    assert not warnings_with("one")  # this one remembers them
    (told,) = warnings_with("three")
    assert told.startswith("the table has rows of messages of topic/0 that were not found")
    assert not warnings_with("three")


def test_rows_without_a_key_that_differ_in_where_they_are_null_are_two_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's hash of a row passes over null."""
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    null = {**ID, "nullable": True}
    schema = {**table(_T0, {**null, "name": "a"}, {**null, "name": "b"}), "indexes": []}
    topic.grow([ddl("CREATE TABLE t (a int, b int)", _T0, schema)])
    for data in ({"a": 1, "b": None}, {"a": None, "b": 1}):
        said = change(_T0 + 2, _T0)
        said["data"] = {name: None if value is None else str(value) for name, value in data.items()}
        topic.grow([said])
        result = tidecast.replicate(
            topic.uri, str(tmp_path / "tables"), checkpoint=str(tmp_path / "checkpoint"), spark=spark
        )
        assert result.tables[0].upserted == 1


def test_a_delete_before_the_table_is_there_is_remembered(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    to, checkpoint = str(tmp_path / "tables"), str(tmp_path / "checkpoint")
    create = ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID))
    old, gone = change(_T0 + 1, _T0, id=1), change(_T0 + 2, _T0, kind="DELETE", id=1)
    for messages in ([create, gone], [watermark(_T0 + 2), old, change(_T0 + 3, _T0, id=2)], [gone]):
        topic.grow(messages)
        tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark)
    assert [row["id"] for row in spark.read.format("delta").load(f"{to}/d/t").collect()] == [2]


def test_deletes_before_the_first_row_are_remembered_whatever_the_keys_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A column of the key moves, and the deletes of both versions come before older rows of another partition."""
    replica = Replica(spark, tmp_path, ddl="try_evolve")
    a, b = ({**ID, "name": name} for name in "ab")
    first, second = (
        {**table(_T0 + n, *both), "indexes": [{**PRIMARY, "columns": ["a", "b"]}]}
        for n, both in ((10, (a, b)), (20, (b, a)))
    )
    create = ddl("CREATE TABLE `d`.`t` (`a` INT, `b` INT, PRIMARY KEY (`a`, `b`))", _T0 + 10, first)
    move = ddl("ALTER TABLE `d`.`t` MODIFY COLUMN `b` INT NOT NULL FIRST", _T0 + 20, second)
    gone = [change(_T0 + 18, _T0 + 10, kind="DELETE", a=3, b=4), change(_T0 + 25, _T0 + 20, kind="DELETE", a=1, b=2)]
    late = [change(_T0 + 12 + n, _T0 + 10, a=n, b=n + 1) for n in (1, 3, 5)]
    replica.run([create, gone[0], move, gone[1]], [create])
    replica.run([], [*late, move])
    assert replica.rows("d/t") == [(6, 5)]


def test_keys_are_known_after_their_columns_moved_and_were_renamed(spark: SparkSession, tmp_path: Path) -> None:
    """Those of before the first row by name, those of a table by their places, as earlier versions stored all."""

    def keys(batch: int, name: str, columns: str) -> TableKeys:
        fields = T.StructType([T.StructField(column, T.IntegerType()) for column in columns])
        return AppliedKeys(tmp_path, batch, _DAY).of("d", name, fields)

    def of(table: TableKeys, ts: int, *values: int) -> DataFrame:
        key = F.struct(*(F.lit(v).alias(n) for n, v in zip(table.key.names, values, strict=True)))
        return one(spark, (1, False, ts)).withColumn("key", key)

    for named, name in ((True, "waits"), (False, "is there")):
        stored = keys(1, name, "ba")
        changes = of(stored, 9, 2, 1)
        (asked,) = changes.agg(*stored.of.asked()).collect()
        stored.add(changes, asked, named=named)
        (written,) = (tmp_path / stored.folder.name).iterdir()
        assert (written.name.count("-") == 4) is named

        def known(columns: str, *values: int, name: str = name) -> bool:
            again = keys(2, name, columns)
            changes = of(again, 5, *values)
            (asked,) = changes.agg(*again.of.asked()).collect()
            marked = again.mark_repeated(changes, asked)
            return marked is not None and bool(marked.collect()[0]["repeated"])

        moved = [("ab", (1, 2)), ("AB", (1, 2)), ("ac", (1, 2)), ("ca", (2, 1)), ("xy", (2, 1))]
        assert [known(columns, *values) for columns, values in moved] == (
            [True] * 5 if named else [False, False, False, True, True]
        )
