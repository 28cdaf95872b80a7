"""What a topic of Avro messages may do to a table that is there: other keys, other types, other tables' rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from avro_topic import BIGINT, INT, NUMBER, TEXT, AvroTopic, column
from full import full
from pyspark.sql import SparkSession


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> AvroTopic:
    return AvroTopic(spark, tmp_path)


# --- deletes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "key", "type_name"), [(BIGINT, 2**32 + 5, "bigint"), (column("string", "TEXT"), "abc", "string")]
)
def test_a_delete_by_a_key_of_another_type_deletes_nothing(
    session: SparkSession, topic: AvroTopic, other: Any, key: Any, type_name: str
) -> None:
    """The table was dropped and made anew: as an INT the new key would be another row's, or none."""
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=TEXT)
    topic.register(3, id=other)
    topic.register(4, id=other, a=NUMBER)
    topic.put(1, 2, id=5, a="precious")
    topic.put(3, 4, id=key, a=6)
    topic.delete(3, id=key)
    topic.replicate()
    assert topic.rows() == [(5, "precious")]
    assert topic.dead_letters()[1] == (2, "schema-change", f"deletes by a key of another type: id is {type_name}")


def test_deletes_alone_that_have_their_commit_ts(topic: AvroTopic, tmp_path: Path) -> None:
    """They have no value of a schema, and yet one."""
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=TEXT)
    for n in range(3):
        topic.put(1, 2, ts=n + 1, id=n, a="x")
    topic.replicate(checkpoint=str(tmp_path / "checkpoint"))
    topic.delete(1, ts=4, id=0)
    topic.replicate(checkpoint=str(tmp_path / "checkpoint"))
    assert topic.rows() == [(1, "x"), (2, "x")]


def test_deletes_before_and_after_a_key_became_wider(topic: AvroTopic) -> None:
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=TEXT)
    topic.register(3, id=BIGINT)
    topic.register(4, id=BIGINT, a=TEXT)
    for n in range(4):
        topic.put(1, 2, id=n, a="x")
    topic.replicate()
    topic.delete(3, id=0)
    topic.delete(3, id=2**32 + 1)
    topic.replicate()
    assert topic.rows() == [(1, "x"), (2, "x"), (3, "x")]
    topic.delete(1, id=1)
    topic.put(3, 4, id=2**32 + 2, a="y")
    topic.delete(3, id=2)
    topic.replicate()
    assert topic.rows() == [(3, "x"), (2**32 + 2, "y")]
    assert topic.dead_letters() == []


def test_deletes_of_a_table_that_takes_no_rows(spark: SparkSession, topic: AvroTopic, tmp_path: Path) -> None:
    """The table there is somebody else's: nothing of the topic fits, and nothing is lost without a word."""
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/tables/d/t` (id INT, note STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{tmp_path}/tables/d/t` VALUES (2, 'mine')")
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=TEXT)
    topic.put(1, 2, id=1, a="x")
    topic.delete(1, id=2)
    (table,) = topic.replicate().tables
    assert topic.rows() == [(2, "mine")]
    assert topic.dead_letters() == [(n, "schema-change", "column note is gone or was renamed") for n in (0, 1)]
    assert (table.refused, table.warnings) == (2, ("refused: column note is gone or was renamed",))


# --- keys -----------------------------------------------------------------------------------------------------------


def test_a_message_without_a_key_leaves_the_table_its_key(topic: AvroTopic) -> None:
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=TEXT)
    topic.put(None, 2, id=0, a="stray")
    topic.put(1, 2, id=1, a="x")
    topic.put(1, 2, id=1, a="y", ts=1)
    topic.replicate()
    assert topic.rows() == [(1, "y")]
    assert topic.dead_letters() == [(0, "bad-message", "no key, which other rows of the same schema have")]


# --- tables of one name ---------------------------------------------------------------------------------------------


def test_tables_of_different_keyspaces_do_not_mix(topic: AvroTopic) -> None:
    for first, keyspace in ((1, "ks1"), (3, "ks2")):
        topic.register(first, keyspace=keyspace, id=INT)
        topic.register(first + 1, keyspace=keyspace, id=INT, a=TEXT)
    topic.put(1, 2, id=1, a="of ks1")
    topic.put(3, 4, id=2, a="of ks2")
    topic.delete(3, id=1)
    topic.replicate()
    topic.put(3, 4, id=1, a="of ks2")
    topic.replicate()
    assert topic.rows() == [(1, "of ks1")]
    dead_letters = {(offset, reason, detail[:60]) for offset, reason, detail in topic.dead_letters()}
    assert dead_letters == {
        (n, "foreign-schema", "of keyspace ks2, and the table there is of keyspace ks1: giv") for n in (1, 2, 3)
    }


@pytest.mark.parametrize("key", [pytest.param(True, marks=full), False])
def test_tables_whose_names_become_the_same_are_warned_of(topic: AvroTopic, key: bool) -> None:
    """MySQL's a-b and a_b are both a_b in Avro, but have topics of their own."""
    topic.register(1, "a_b", id=INT)
    topic.register(2, "a_b", id=INT, a=TEXT)
    topic.put(1 if key else None, 2, topic="d_a-b", id=1, a="of a-b")
    assert topic.replicate().tables[0].warnings == ()
    topic.put(1 if key else None, 2, topic="d_a_b", id=2, a="of a_b")
    (warning,) = topic.replicate().tables[0].warnings
    assert warning.startswith("messages of several topics are named d.a_b: d_a-b, d_a_b; if these are different tables")


# --- versions -------------------------------------------------------------------------------------------------------


def test_a_row_of_an_older_version_comes_again(topic: AvroTopic, tmp_path: Path) -> None:
    """TiCDC sends again what follows its checkpoint; another batch has it, and nothing of the newer version."""
    options = {"checkpoint": str(tmp_path / "state"), "on_error": "fail"}
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=TEXT)
    topic.register(3, id=INT, a=TEXT, c=NUMBER)
    topic.put(1, 2, id=1, a="x", ts=1)
    topic.put(1, 3, id=2, a="x", c=5, ts=3)
    topic.replicate(**options)
    topic.put(1, 2, id=1, a="x", ts=1)
    topic.put(1, 2, id=3, a="late", ts=2)
    assert topic.replicate(**options).tables[0].upserted == 1
    assert topic.rows() == [(1, "x", None), (2, "x", 5), (3, "late", None)]


def test_values_that_changed_between_two_batches(topic: AvroTopic) -> None:
    amount = column("bytes", "DECIMAL", null=True, logicalType="decimal", precision=14, scale=2)
    topic.register(1, id=INT)
    topic.register(2, id=INT, a=amount)
    topic.register(3, id=INT, a=NUMBER)
    topic.put(1, 2, id=1, a=Decimal("1.55"))
    topic.replicate()
    topic.put(1, 3, id=2, a=2)
    topic.replicate()
    assert topic.rows() == [(1, Decimal("1.55"))]
    ((_, _, cause),) = topic.dead_letters()
    assert cause == "column a lost digits after the point, in rows too that no message shows"
