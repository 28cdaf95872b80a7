"""Tables that hold more than the rows as they are: deleted rows, every change, metadata columns."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from avro_topic import INT, NUMBER, AvroTopic
from full import full
from growing_topic import ID, ddl, row, table, watermark
from pyspark.sql import SparkSession
from small_replica import SmallReplica

import tidecast
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_TABLE = table(_T0, ID, {**ID, "name": "n", "nullable": True})
_HISTORY = [
    ddl("CREATE TABLE t (id int primary key, n int)", _T0, _TABLE),
    row(_T0 + 1, _T0, id=1, n=1),
    row(_T0 + 2, _T0, id=2, n=1),
    row(_T0 + 3, _T0, kind="DELETE", id=1, n=1),
    row(_T0 + 4, _T0, kind="DELETE", id=2, n=1),
    row(_T0 + 4, _T0, id=2, n=2),
]


def test_a_deleted_row_stays_and_is_marked(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="soft-delete")
    replica.topic.grow(_HISTORY[:3])
    replica.run()
    columns = ("id", "n", "_deleted", "_commit_ts")
    assert replica.rows(*columns) == [(1, 1, False, _T0 + 1), (2, 1, False, _T0 + 2)]
    replica.topic.grow(_HISTORY[3:])
    (done,) = replica.run().tables
    assert (done.upserted, done.deleted) == (1, 1)
    assert replica.rows(*columns) == [(1, 1, True, _T0 + 3), (2, 2, False, _T0 + 4)]
    version = replica.version()
    (again,) = replica.run().tables
    assert (again.unchanged, replica.version()) == (2, version)
    replica.topic.grow([row(_T0 + 5, _T0, id=1, n=7)])
    replica.run()
    assert replica.rows(*columns) == [(1, 7, False, _T0 + 5), (2, 2, False, _T0 + 4)]


def test_a_row_that_comes_and_goes_in_one_batch_is_kept_as_it_was_last(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="soft-delete")
    replica.topic.grow(_HISTORY[:2])
    replica.run()
    there = [row(_T0 + 2, _T0, kind="UPDATE", id=1, n=2), row(_T0 + 3, _T0, kind="DELETE", id=1, n=2)]
    new = [row(_T0 + 4, _T0, id=3, n=3), row(_T0 + 5, _T0, kind="DELETE", id=3, n=3)]
    replica.topic.grow([*there, *new])
    replica.run()
    assert replica.rows("id", "n", "_deleted", "_commit_ts") == [(1, 2, True, _T0 + 3), (3, 3, True, _T0 + 5)]
    version = replica.version()
    replica.run()
    assert replica.version() == version


@full
def test_metadata_columns_stay_when_the_table_gets_columns(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path)
    replica.topic.grow(_HISTORY)
    replica.run(metadata=["_commit_ts", "_verdict"])
    assert replica.rows() == [(2, 2, _T0 + 4, "none")]
    wider = table(_T0 + 6, ID, {**ID, "name": "n", "nullable": True}, {**ID, "name": "m", "default": "5"})
    replica.topic.grow([ddl("ALTER TABLE t ADD m int NOT NULL DEFAULT 5", _T0 + 6, wider)])
    replica.topic.grow([row(_T0 + 7, _T0 + 6, id=3, n=3, m=3)])
    replica.run(metadata=["_verdict", "_commit_ts"])
    assert replica.rows("id", "n", "m", "_commit_ts", "_verdict") == [
        (2, 2, 5, _T0 + 4, "none"),
        (3, 3, 3, _T0 + 7, "none"),
    ]


def test_a_log_has_each_change_once_however_often_it_comes(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="log", checkpoint=str(tmp_path / "checkpoint"))
    expected = [
        (1, 1, "c", _T0 + 1),
        (1, 1, "d", _T0 + 3),
        (2, 1, "c", _T0 + 2),
        (2, 1, "d", _T0 + 4),
        (2, 2, "c", _T0 + 4),
    ]
    for end in (3, 5, 6):
        replica.topic.grow([*_HISTORY[:end], watermark(_T0)])  # from the start each time
        result = replica.run()
        assert not result.warnings
        assert not result.tables[0].warnings
    assert replica.rows("id", "n", "_op", "_commit_ts") == expected
    assert replica.rows("_topic", "_partition", "_offset")[0] == ("topic", 0, 1)
    renamed = table(_T0 + 6, ID, {**ID, "name": "m", "nullable": True})
    replica.topic.grow([ddl("ALTER TABLE t RENAME COLUMN n TO m", _T0 + 6, renamed), row(_T0 + 7, _T0 + 6, id=3, m=3)])
    replica.run(ddl="evolve")
    expected.append((3, 3, "c", _T0 + 7))
    assert replica.rows("id", "m", "_op", "_commit_ts") == expected
    added = table(_T0 + 8, ID, {**ID, "name": "m", "nullable": True}, {**ID, "name": "l", "default": "5"})
    replica.topic.grow([ddl("ALTER TABLE t ADD COLUMN l int NOT NULL DEFAULT 5", _T0 + 8, added)])
    replica.topic.grow([row(_T0 + 9, _T0 + 8, id=4, m=4, l=4)])
    replica.run(ddl="evolve")
    replica.topic.grow([*_HISTORY[3:5], row(_T0 + 7, _T0 + 6, id=3, m=3)])  # from before the column was there
    replica.run(ddl="evolve")
    assert replica.rows("id", "m", "_op", "_commit_ts") == [*expected, (4, 4, "c", _T0 + 9)]


def test_deletes_have_no_value_in_a_column_that_comes_later(spark: SparkSession, tmp_path: Path) -> None:
    """Wherever a batch ends, and whether messages show whole rows of deletes or their keys alone."""
    replica = SmallReplica(spark, tmp_path, mode="log", checkpoint=str(tmp_path / "checkpoint"))
    wider = table(_T0 + 5, ID, {**ID, "name": "n", "nullable": True}, {**ID, "name": "m", "default": "7"})
    later = [ddl("ALTER TABLE t ADD COLUMN m int DEFAULT 7", _T0 + 5, wider), row(_T0 + 6, _T0 + 5, id=3, n=3, m=3)]
    replica.topic.grow(_HISTORY)
    replica.run()
    replica.topic.grow(later)
    replica.run()
    expected = [(1, "c", 7), (1, "d", None), (2, "c", 7), (2, "c", 7), (2, "d", None), (3, "c", 3)]
    assert replica.rows("id", "_op", "m") == expected
    at_once = SmallReplica(spark, tmp_path / "at_once", mode="log")
    at_once.topic.grow([*_HISTORY, *later])
    at_once.run()
    assert at_once.rows("id", "_op", "m") == expected


def test_a_log_takes_no_row_of_a_delete_that_its_columns_cannot_hold(spark: SparkSession, tmp_path: Path) -> None:
    """Also where no other row shows the change that the log cannot follow, and after that was undone."""
    replica = SmallReplica(spark, tmp_path, mode="log", checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([*_HISTORY, *(row(_T0 + 5, _T0, id=key, n=1) for key in (3, 4))])
    replica.run()
    before, number = replica.rows(), {**ID, "name": "n", "nullable": True}
    text = number | {"dataType": {"mysqlType": "text", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 65535}}
    for at, key, column, value in ((10, "3", text, "two"), (20, "4", number, "1")):
        changed = ddl("ALTER TABLE t MODIFY COLUMN n …", _T0 + at, table(_T0 + at, ID, column))
        deleted = row(_T0 + at + 1, _T0 + at, kind="DELETE") | {"old": {"id": key, "n": value}}
        replica.topic.grow([changed, deleted])
        assert replica.run().dead_letters == {"schema-change": 1}
    assert replica.rows() == before


@full
def test_a_log_that_was_dropped_gets_what_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="log", checkpoint=str(tmp_path / "checkpoint"))
    for said in (_HISTORY[:2], _HISTORY[2:], _HISTORY[:2], _HISTORY[2:]):
        replica.topic.grow(said)
        replica.run()
        if said is _HISTORY[2:] or len(replica.rows()) == 5:
            shutil.rmtree(tmp_path / "tables" / "d")
    assert not (tmp_path / "tables" / "d").exists()


def test_a_statement_adds_no_column_of_the_name_of_metadata(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="log")
    replica.topic.grow(_HISTORY)
    replica.run()
    clashing = table(_T0 + 6, ID, {**ID, "name": "_op"})
    replica.topic.grow([ddl("ALTER TABLE t ADD COLUMN _op int", _T0 + 6, clashing)])
    assert not replica.run().dead_letters
    assert len(replica.rows()) == 5


def test_a_log_tells_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """The query is the manual's."""
    replica = SmallReplica(spark, tmp_path, mode="log")
    replica.topic.grow(_HISTORY)
    (done,) = replica.run().tables
    manual = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    (query,) = (q for q in re.findall(r"```sql\n(.*?)```", manual, re.DOTALL) if "_op" in q)

    def as_of(commit_ts: int) -> list[tuple[Any, ...]]:
        asked = query.replace("out/log/shop/orders", done.where).replace("456789012345678901", str(commit_ts))
        return sorted(tuple(found) for found in spark.sql(asked).select("id", "n").collect())

    assert [as_of(_T0 + n) for n in range(5)] == [[], [(1, 1)], [(1, 1), (2, 1)], [(2, 1)], [(2, 2)]]


def test_avro_shows_the_key_of_a_deleted_row_in_a_log(spark: SparkSession, tmp_path: Path) -> None:
    topic = AvroTopic(spark, tmp_path)
    topic.register(1, id=INT)
    topic.register(2, id=INT, n=NUMBER)
    topic.put(1, 2, id=1, n=5, ts=7)
    topic.delete(1, id=1)
    topic.put(1, 2, id=1, n=6, ts=8)
    result = topic.replicate(mode="log")
    assert result.tables[0].upserted == 3
    rows = spark.read.format("delta").load(result.tables[0].where).orderBy("_offset")
    assert [tuple(r) for r in rows.select("id", "n", "_op", "_commit_ts", "_offset").collect()] == [
        (1, 5, "c", 7 << 18, 0),
        (1, None, "d", None, 1),
        (1, 6, "c", 8 << 18, 2),
    ]


def test_a_delete_before_any_row_of_a_log_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    topic = AvroTopic(spark, tmp_path)
    topic.register(1, id=INT)
    topic.delete(1, id=1)
    assert topic.replicate(mode="log").dead_letters == {"schema-change": 1}


def test_a_table_keeps_what_it_was_made_with(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path)
    replica.topic.grow(_HISTORY)
    replica.run()
    with pytest.raises(tidecast.ConfigError, match=r"d\.t: the table was made with --mode current"):
        replica.run(mode="soft-delete")
    assert replica.rows() == [(2, 2)]


def test_a_table_tells_the_options_that_it_was_made_with(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="history", metadata=["_verdict"])
    replica.topic.grow(_HISTORY)
    replica.run()
    with pytest.raises(tidecast.ConfigError, match=r"was made with --mode history --metadata _verdict \(use the same"):
        replica.run(mode="current", metadata=[])


def test_a_column_of_the_source_is_not_taken_for_metadata(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, mode="soft-delete")
    named = table(_T0, ID, {**ID, "name": "_DELETED"})
    replica.topic.grow([ddl("CREATE TABLE t (id int, _DELETED int)", _T0, named), row(_T0 + 1, _T0, id=1, _DELETED=1)])
    result = replica.run()
    assert result.dead_letters == {"table-refused": 1}
    assert "column _DELETED of the source has the name of a metadata column" in result.tables[0].warnings[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "upsert"}, "mode is 'upsert' .one of current, soft-delete, history, log"),
        ({"metadata": ["_offset"]}, "--metadata: no column '_offset' can be had with --mode current"),
    ],
)
def test_words_that_are_none_are_refused_before_spark_starts(options: dict[str, Any], words: str) -> None:
    with pytest.raises(tidecast.ConfigError, match=words):
        tidecast.replicate("./topic?protocol=simple", "./tables", **options)
