"""The row of each batch in the ledger, and the lock on the tables of a source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpointed import Replica
from crash_points import CrashPoints, Killed
from growing_topic import ID, GrowingTopic, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose
from tidecast.storage import locked, storage_path

_T0 = compose(1_700_000_000_000)


def test_each_batch_tells_what_it_brought_and_which_versions_it_made(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    to = tmp_path / "tables"

    def run() -> None:
        tidecast.replicate(topic.uri, str(to), checkpoint=str(tmp_path / "checkpoint"), spark=spark)

    topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID)), row(_T0 + 1, _T0, id=1)])
    run()
    topic.grow([row(_T0 + 3, _T0, id=2), row(_T0 + 2, _T0, id=1, kind="DELETE"), {"type": "?"}, watermark(_T0 + 4)])
    run()
    run()  # nothing new
    first, second = spark.read.format("delta").load(f"{to}/_tidecast/batches").orderBy("batch").collect()
    assert (first["batch"], first["resolved_ts"], first["dead_letters"]) == (1, None, {})
    assert (second["batch"], second["resolved_ts"], second["dead_letters"]) == (2, _T0 + 4, {"bad-message": 1})
    assert [list(batch["offsets"]) for batch in (first, second)] == [
        ["topic/000000000000.jsonl"],
        ["topic/000000000002.jsonl"],
    ]
    assert second["source"] == f"file://{tmp_path}/topic"
    (made,), (changed,) = first["tables"], second["tables"]
    assert (made["database"], made["table"], made["rows"], made["upserted"]) == ("d", "t", 1, 1)
    assert (changed["rows"], changed["upserted"], changed["deleted"], changed["checksums"]["none"]) == (2, 1, 1, 1)
    assert (changed["first_commit_ts"], changed["last_commit_ts"]) == (_T0 + 2, _T0 + 3)

    def at(version: int) -> list[int]:
        there = spark.read.format("delta").option("versionAsOf", version).load(f"{to}/d/t")
        return [found["id"] for found in there.collect()]

    assert (at(made["version"]), at(changed["version"])) == ([1], [2])
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{to}/d/t`").orderBy("version").collect()
    told = [json.loads(commit["userMetadata"]) for commit in commits]
    names = ("batch", "source", "checkpoint", "offsets", "resolved_ts")
    assert told == [{name: batch[name] for name in names} for batch in (first, second)]


def test_a_second_replica_of_a_topic_on_the_same_tables_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID)), row(_T0 + 1, _T0, id=1)])
    to = str(tmp_path / "tables")
    tidecast.replicate(topic.uri, to, checkpoint=str(tmp_path / "one"), spark=spark)
    (place,) = (tmp_path / "tables" / "_tidecast" / "sources").iterdir()
    with locked(place), pytest.raises(tidecast.TerminalError, match="another run applies this topic to these tables"):
        tidecast.replicate(topic.uri, to, checkpoint=str(tmp_path / "two"), spark=spark)


def test_a_checkpoint_goes_on_with_its_own_tables_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Others would lack all that it has applied, and nothing would tell."""
    replica = Replica(spark, tmp_path)
    replica.run([ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID)), row(_T0 + 1, _T0, id=1)])
    tidecast.replicate(replica.topic.uri, str(tmp_path / "others"), checkpoint=str(tmp_path / "other"), spark=spark)
    for others in (tmp_path / "gone", tmp_path / "others"):
        for options in ({}, {"dry_run": True}):  # also where nothing is new
            with pytest.raises(tidecast.ConfigError, match="after batches that were applied to other tables"):
                replica.run(to=str(others), **options)
    replica.topic.deliver([(0, row(_T0 + 2, _T0, id=2))])
    Path(replica.to).rename(tmp_path / "moved")
    noted = list((tmp_path / "moved/_tidecast/batches/_checkpoints").iterdir())
    replica.run(to=str(tmp_path / "moved"))
    assert replica.rows("d/t", str(tmp_path / "moved")) == [(1,), (2,)]
    noted[0].unlink()  # as of a ledger of before there were such files: its rows tell
    replica.run([row(_T0 + 3, _T0, id=3)], to=str(tmp_path / "moved"))
    assert replica.rows("d/t", str(tmp_path / "moved")) == [(1,), (2,), (3,)]
    assert noted == list((tmp_path / "moved/_tidecast/batches/_checkpoints").iterdir())
    noted[0].unlink()
    spark.sql(f"DELETE FROM delta.`{tmp_path}/moved/_tidecast/batches`")
    replica.topic.deliver([(0, row(_T0 + 4, _T0, id=4))])
    with pytest.raises(tidecast.ConfigError, match="after batches that were applied to other tables"):
        replica.run(to=str(tmp_path / "moved"))


def test_rows_that_a_killed_run_may_have_appended_do_not_wait_in_the_next(spark: SparkSession, tmp_path: Path) -> None:
    replica, put = Replica(spark, tmp_path), [row(_T0 + n, _T0, id=n) for n in range(40)]
    replica.run([ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID) | {"indexes": []}), put[1]])
    replica.topic.deliver([(0, put[10]), (0, put[20])])
    with CrashPoints(tmp_path, ("save /tables/_tidecast/batches", 1)).watching(), pytest.raises(Killed):
        replica.run()
    with pytest.raises(tidecast.ConfigError, match="run once without --resolved-only"):
        replica.run([put[12], watermark(_T0 + 15)], resolved_only=True)
    replica.run()
    replica.run([put[25], watermark(_T0 + 23)], resolved_only=True)
    replica.run([watermark(_T0 + 30)], resolved_only=True)
    assert replica.rows("d/t") == [(n,) for n in (1, 10, 12, 20, 25)]


def test_what_was_lost_stops_a_run_or_stands_in_the_ledger(spark: SparkSession, tmp_path: Path) -> None:
    folder, to, checkpoint = tmp_path / "topic", str(tmp_path / "tables"), str(tmp_path / "checkpoint")
    topic = GrowingTopic(folder)
    topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID)), row(_T0 + 1, _T0, id=1)])
    topic.grow([watermark(_T0 + 9)])
    tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark)
    (folder / "000000000000.jsonl").unlink()
    (folder / "000000000002.jsonl").unlink()
    topic = GrowingTopic(folder)
    topic.grow([row(_T0 + 3, _T0, id=3)])  # the file of this name had more
    with pytest.raises(tidecast.SourceChanged, match="--on-data-loss continue"):
        tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark)
    done = tidecast.replicate(topic.uri, to, checkpoint=checkpoint, on_data_loss="continue", spark=spark)
    assert "smaller than when it was read" in done.warnings[0]
    assert tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark).warnings == ()
    there = spark.read.format("delta").load(f"{to}/d/t")
    assert sorted(found["id"] for found in there.collect()) == [1, 3]  # below the old topic's watermark
    ledger = spark.read.format("delta").load(f"{to}/_tidecast/batches").orderBy("batch").collect()
    assert [bool(batch["lost"]) for batch in ledger] == [False, True]
    topic.grow([watermark(_T0 + 20)])
    tidecast.replicate(topic.uri, to, checkpoint=checkpoint, spark=spark)
    (source,) = tidecast.snapshot(to, _T0 + 30, spark=spark).sources
    assert (source.batch, source.resolved_ts) == (1, _T0 + 9)  # what came after the loss is at no time of the source


def test_keys_of_other_partitions_stay_where_one_lost_messages(spark: SparkSession, tmp_path: Path) -> None:
    folder, to, checkpoint = tmp_path / "topic", str(tmp_path / "tables"), str(tmp_path / "checkpoint")
    create = ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID, {**ID, "name": "n"}))
    whole = [create, row(_T0 + 1, _T0, id=1, n=1), row(_T0 + 5, _T0, id=1, n=5), watermark(_T0 + 6)]
    for name, messages in (("topic/a", whole), ("topic/b", whole[:1])):
        GrowingTopic(tmp_path / name).grow(messages)
    source = f"file://{tmp_path}/topic/x?protocol=simple&topics=.*"
    tidecast.replicate(source, to, checkpoint=checkpoint, spark=spark)
    (folder / "b" / "000000000000.jsonl").unlink()
    GrowingTopic(folder / "b").grow([watermark(_T0)])
    with (folder / "a" / "000000000009.jsonl").open("w") as more:
        more.write((folder / "a" / "000000000000.jsonl").read_text().splitlines(keepends=True)[1])
    done = tidecast.replicate(source, to, checkpoint=checkpoint, on_data_loss="continue", spark=spark)
    assert "file b/000000000000.jsonl" in done.warnings[0]
    assert [found["n"] for found in spark.read.format("delta").load(f"{to}/d/t").collect()] == [5]


def test_small_files_become_large_ones_while_the_replica_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(storage_path(str(tmp_path / "topic"), ""))
    topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID))])
    to, checkpoint = str(tmp_path / "tables"), str(tmp_path / "one")
    for number in range(5):
        topic.grow([row(_T0 + number, _T0, id=number)])
        tidecast.replicate(topic.uri, to, checkpoint=checkpoint, compact_every=3, spark=spark)
    there = spark.read.format("delta").load(str(tmp_path / "tables" / "d" / "t"))
    assert sorted(found["id"] for found in there.collect()) == list(range(5))
    assert len(there.inputFiles()) == 2
    ledger = spark.read.format("delta").load(str(tmp_path / "tables" / "_tidecast" / "batches"))
    assert ledger.count() == 5
    assert len(ledger.inputFiles()) == 2
    assert spark.conf.get("spark.databricks.delta.optimize.maxFileSize", None) is None
