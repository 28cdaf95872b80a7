"""Rows that wait for a watermark, and all tables at one time of their source."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from avro_topic import INT, NUMBER, AvroTopic
from full import full
from growing_topic import ID, GrowingTopic, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.cli import main
from tidecast.model import compose
from tidecast.replica import AppliedBatch, write_ledger

_MS = 1_700_000_000_000
_T0 = compose(_MS)
_N = {**ID, "name": "n", "nullable": True}


@pytest.fixture
def topic(tmp_path: Path) -> GrowingTopic:
    return GrowingTopic(tmp_path / "topic")


def replicate(spark: SparkSession, topic: GrowingTopic, folder: Path, **options: Any) -> tidecast.Replicated:
    """Apply what is new of a topic to the tables in a folder."""
    checkpoint = str(folder / "checkpoint")
    return tidecast.replicate(topic.uri, str(folder / "tables"), checkpoint=checkpoint, spark=spark, **options)


def ids(spark: SparkSession, folder: Path, name: str = "t") -> list[int]:
    """Return the ids of the rows in a table."""
    rows = spark.read.format("delta").load(str(folder / "tables" / "d" / name))
    return sorted(found["id"] for found in rows.collect())


def test_rows_and_schema_changes_wait_for_a_watermark(spark: SparkSession, tmp_path: Path, topic: GrowingTopic) -> None:
    create = ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID))
    topic.deliver([(0, create), (0, row(_T0 + 5, _T0, id=5)), (1, row(_T0 + 7, _T0, id=7))])
    first = replicate(spark, topic, tmp_path, resolved_only=True)
    assert first.tables == ()
    assert first.warnings == (f"2 rows wait for a resolved-ts in {tmp_path}/checkpoint",)

    topic.deliver([(0, watermark(_T0 + 6)), (1, watermark(_T0 + 6))])
    replicate(spark, topic, tmp_path, resolved_only=True)
    assert ids(spark, tmp_path) == [5]

    alter = ddl("ALTER TABLE t ADD COLUMN n int", _T0 + 9, table(_T0 + 9, ID, _N))
    topic.deliver([(0, alter), (0, row(_T0 + 10, _T0 + 9, id=10, n=1)), (1, row(_T0 + 8, _T0, id=5, kind="DELETE"))])
    topic.deliver([(0, watermark(_T0 + 8)), (1, watermark(_T0 + 8))])
    replicate(spark, topic, tmp_path, resolved_only=True)
    assert ids(spark, tmp_path) == [7]
    assert spark.read.format("delta").load(f"{tmp_path}/tables/d/t").columns == ["id"]

    topic.deliver([(0, watermark(_T0 + 12)), (1, watermark(_T0 + 12))])
    replicate(spark, topic, tmp_path, resolved_only=True)
    assert ids(spark, tmp_path) == [7, 10]
    journal = spark.read.format("delta").load(f"{tmp_path}/tables/_tidecast/schema_changes").orderBy("commit_ts")
    assert [(change["commit_ts"] - _T0, change["outcome"]) for change in journal.collect()] == [
        (0, "applied"),
        (9, "applied"),
    ]


@full
@pytest.mark.parametrize("log", [False, True])
def test_rows_without_a_key_and_logs_wait_and_come_once(
    spark: SparkSession, tmp_path: Path, topic: GrowingTopic, log: bool
) -> None:
    """A restart of the sender puts rows behind others that have waited longer; a run that is not to wait ends it."""
    schema = table(_T0, ID)
    create = ddl("CREATE TABLE t (id int)", _T0, schema if log else {**schema, "indexes": []})
    to, mode = str(tmp_path / "tables"), "log" if log else "current"

    def run(*, resolved_only: bool = True) -> list[int]:
        tidecast.replicate(
            topic.uri,
            to,
            checkpoint=str(tmp_path / "checkpoint"),
            resolved_only=resolved_only,
            mode=mode,
            on_error="fail",
            spark=spark,
        )
        return ids(spark, tmp_path)

    first, later = row(_T0 + 5, _T0, id=5), row(_T0 + 10, _T0, id=10)
    topic.grow([create, first, later, first, later, watermark(_T0 + 6)])
    assert run() == [5]
    topic.grow([row(_T0 + 9, _T0, id=9), row(_T0 + 15, _T0, id=15), watermark(_T0 + 12)])
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, tmp_path / "before")
    assert run() == [5, 9, 10]
    shutil.rmtree(checkpoint)
    (tmp_path / "before").rename(checkpoint)  # killed before anything of the batch was committed
    assert run() == [5, 9, 10]
    topic.grow([row(_T0 + 14, _T0, id=14)])
    assert run(resolved_only=False) == [5, 9, 10, 14, 15]


def test_what_waits_is_applied_by_a_run_that_need_not_wait(
    spark: SparkSession, tmp_path: Path, topic: GrowingTopic
) -> None:
    create = ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID))
    topic.grow([create, row(_T0 + 5, _T0, id=5)])
    replicate(spark, topic, tmp_path, resolved_only=True)
    topic.grow([row(_T0 + 6, _T0, id=6)])
    assert replicate(spark, topic, tmp_path).warnings == ()
    assert ids(spark, tmp_path) == [5, 6]


def test_tables_are_found_as_they_were_at_one_time(
    spark: SparkSession, tmp_path: Path, topic: GrowingTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch without `resolved_only` counts where a watermark ends it."""
    to = str(tmp_path / "tables")
    for name in ("t", "u"):
        topic.grow([ddl(f"CREATE TABLE {name} (id int primary key)", _T0, table(_T0, ID, name=name))])
    topic.grow([row(_T0 + 1, _T0, id=1), row(_T0 + 2, _T0, id=2, name="u"), watermark(_T0 + 2)])
    replicate(spark, topic, tmp_path)
    topic.grow([row(_T0 + 3, _T0, id=3), row(_T0 + 5, _T0, id=5, name="u"), watermark(_T0 + 4)])
    replicate(spark, topic, tmp_path)
    later = compose(_MS + 1000)
    topic.grow([row(_T0 + 6, _T0, id=1, kind="DELETE"), watermark(later)])
    replicate(spark, topic, tmp_path)

    def at(as_of: int | str) -> tuple[int, list[int], list[int]]:
        found = tidecast.snapshot(to, as_of, spark=spark)
        (source,) = found.sources
        one, other = (sorted(r["id"] for r in found.table(name).collect()) for name in ("d.t", "d.u"))
        return source.resolved_ts, one, other

    assert at(_T0 + 2) == at(_T0 + 4) == (_T0 + 2, [1], [2])  # in the second batch u is ahead of its resolved-ts
    time = dt.datetime.fromtimestamp(_MS / 1000 + 1, tz=dt.UTC)
    assert at(later) == at(time.isoformat()) == at(time.replace(tzinfo=None).isoformat()) == (later, [3], [2, 5])
    with pytest.raises(tidecast.TerminalError, match="no batch up to"):
        tidecast.snapshot(to, _T0 + 1, spark=spark)
    with pytest.raises(tidecast.ConfigError, match=r"there are: d\.t, d\.u"):
        tidecast.snapshot(to, later, spark=spark).table("d.x")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["tidecast", "snapshot", to, "--as-of", str(_T0 + 3), "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    said = json.loads(capsys.readouterr().out)
    assert (said["as_of"], said["sources"][0]["resolved_ts"]) == (_T0 + 3, _T0 + 2)
    assert [(t["table"], spark.sql(t["query"]).count()) for t in said["tables"]] == [("d.t", 1), ("d.u", 1)]


def test_a_batch_with_a_statement_beyond_its_watermark_is_at_no_time(
    spark: SparkSession, tmp_path: Path, topic: GrowingTopic
) -> None:
    topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, table(_T0, ID)), row(_T0 + 1, _T0, id=1)])
    topic.grow([watermark(_T0 + 2)])
    replicate(spark, topic, tmp_path)
    topic.grow([watermark(_T0 + 3), ddl("TRUNCATE TABLE t", _T0 + 5, table(_T0, ID))])
    replicate(spark, topic, tmp_path, ddl="evolve")
    assert ids(spark, tmp_path) == []
    found = tidecast.snapshot(str(tmp_path / "tables"), _T0 + 4, spark=spark)
    assert (found.sources[0].resolved_ts, found.table("d.t").count()) == (_T0 + 2, 1)


def test_a_table_that_was_made_anew_is_not_taken_for_the_one_before(
    spark: SparkSession, tmp_path: Path, topic: GrowingTopic
) -> None:
    """Both have the version 0."""
    for at in (0, 20):
        topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0 + at, table(_T0 + at, ID))])
        topic.grow([row(_T0 + at + 1, _T0 + at, id=at), watermark(_T0 + at + 2)])
        replicate(spark, topic, tmp_path, ddl="evolve")
        topic.grow([ddl("DROP TABLE t", _T0 + 10, table(_T0, ID)) | {"type": "ERASE"}])
    to = str(tmp_path / "tables")
    assert tidecast.snapshot(to, _T0 + 22, spark=spark).table("d.t").count() == 1
    with pytest.raises(tidecast.TerminalError, match="made anew since"):
        tidecast.snapshot(to, _T0 + 2, spark=spark)


def test_what_has_no_commit_ts_cannot_wait(spark: SparkSession, tmp_path: Path) -> None:
    """Deletes of Avro have none."""
    topic = AvroTopic(spark, tmp_path)
    topic.register(1, id=INT)
    topic.register(2, id=INT, n=NUMBER)
    topic.put(1, 2, id=1, n=1)
    with pytest.raises(tidecast.ConfigError, match="not every message tells its commit-ts"):
        topic.replicate(checkpoint=str(tmp_path / "checkpoint"), resolved_only=True)


def test_a_batch_counts_only_where_no_attempt_at_it_went_further(spark: SparkSession, tmp_path: Path) -> None:
    """It may have been cut otherwise before a crash, and tables show more than its resolved-ts says."""
    to = str(tmp_path)

    def ledger(checkpoint: str, batch: int, resolved_ts: int, begun_ts: int | None = None) -> None:
        done = AppliedBatch("s", checkpoint, batch, {}, resolved_ts, has_commit_ts=True, begun_ts=begun_ts)
        write_ledger(spark, to, done, tidecast.Replicated(()))

    def batch(as_of: int) -> int:
        (source,) = tidecast.snapshot(to, as_of, spark=spark).sources
        return source.batch

    ledger("one", 7, 100)
    ledger("one", 9, 300, begun_ts=500)
    ledger("one", 8, 200)  # by a machine whose clock is behind, or ahead
    ledger("one", 10, 600)
    assert [batch(ts) for ts in (150, 250, 550, 650)] == [7, 8, 8, 10]


@pytest.mark.parametrize("as_of", ["yesterday", "", "-1"])
def test_a_wrong_time_is_refused(as_of: str, tmp_path: Path) -> None:
    with pytest.raises(tidecast.ConfigError, match="--as-of cannot be"):
        tidecast.snapshot(str(tmp_path), as_of)
