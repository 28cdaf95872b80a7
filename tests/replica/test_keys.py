"""Tables whose key the messages do not name, and the file of `--config` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from growing_topic import GrowingTopic, Said
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import Column, DataType, Index, TableSchema, compose
from tidecast.protocols.canal_json._parse import Said as Said_
from tidecast.protocols.canal_json._parse import parse
from tidecast.replica.tables._keys import KeyedTable, Keys

_T0 = compose(1_700_000_000_000)
_PRIMARY = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))


def _several(kind: str, at: int, *data: dict[str, str], old: list[dict[str, str]] | None = None) -> Said:
    """A message of several rows."""
    return _canal(kind, at, data[0]) | {"data": [*data], "old": old}


def _canal(kind: str, at: int, data: dict[str, str], old: dict[str, str] | None = None) -> Said:
    """A message as connectors other than TiCDC write it: it names no primary key."""
    types = {"sqlType": {"id": 4, "n": 4}, "mysqlType": {"id": "int", "n": "int"}}
    head = {"id": 0, "database": "d", "table": "t", "pkNames": None, "isDdl": False, "type": kind, "sql": ""}
    time = {"es": 1_700_000_000_000 + at, "ts": 1, "_tidb": {"commitTs": _T0 + (at << 18)}}
    return {**head, **time, **types, "data": [data], "old": [old] if old is not None else None}


_MESSAGES = [
    _canal("INSERT", 1, {"id": "1", "n": "1"}),
    _canal("INSERT", 2, {"id": "2", "n": "2"}),
    _canal("UPDATE", 3, {"id": "1", "n": "5"}, {"n": "1"}),
    _canal("DELETE", 4, {"id": "2", "n": "2"}),
    _canal("UPDATE", 5, {"id": "7", "n": "5"}, {"id": "1"}),
]


def test_rows_of_a_table_with_a_key_from_the_file_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    topic, config = GrowingTopic(tmp_path / "topic"), tmp_path / "config.toml"
    config.write_text('[[tables]]\nmatcher = ["d.*"]\nkey = ["id"]\n')
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "config": str(config), "spark": spark}
    uri, to = topic.uri.replace("simple", "canal-json"), str(tmp_path / "tables")
    for batch in (_MESSAGES[:2], _MESSAGES[2:], _MESSAGES):  # the last ones are sent again
        topic.grow(batch)
        report = tidecast.replicate(uri, to, **options)
        assert not report.dead_letters
    rows = spark.read.format("delta").load(f"{to}/d/t").collect()
    assert [tuple(row) for row in rows] == [(7, 5)]
    assert [str(one.verdict) for one in tidecast.prove(to, spark=spark).tables] == ["equal"]


def test_changes_that_a_table_without_a_key_cannot_follow_are_told(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(tmp_path / "topic")
    topic.grow(_MESSAGES)
    uri = topic.uri.replace("simple", "canal-json")
    (table,) = tidecast.replicate(uri, str(tmp_path / "tables"), spark=spark).tables
    assert table.upserted == 4
    deleted, updated = table.warnings
    assert deleted == "1 deletes were not applied: the table has no key"
    assert updated.startswith("2 updates were appended as further rows: the table has no key")
    (log,) = tidecast.replicate(uri, str(tmp_path / "log"), mode="log", spark=spark).tables
    assert not log.warnings


def test_rows_of_one_message_are_different_rows(spark: SparkSession, tmp_path: Path) -> None:
    topic, config = GrowingTopic(tmp_path / "topic"), tmp_path / "config.toml"
    config.write_text('[[tables]]\nmatcher = ["d.*"]\nkey = ["id"]\n')
    uri = topic.uri.replace("simple", "canal-json")
    insert = _several("INSERT", 1, *({"id": str(n), "n": "1"} for n in range(5)))
    topic.grow([insert])
    appended = str(tmp_path / "appended")
    for _ in range(2):  # once more, from the beginning
        report = tidecast.replicate(uri, appended, checkpoint=str(tmp_path / "first"), spark=spark)
        assert not report.dead_letters
        topic.grow([insert])
    rows = spark.read.format("delta").load(f"{appended}/d/t").collect()
    assert sorted(map(tuple, rows)) == [(n, 1) for n in range(5)]
    topic.grow(
        [
            _several("DELETE", 2, {"id": "0", "n": "1"}, {"id": "1", "n": "1"}),
            _several("UPDATE", 3, {"id": "2", "n": "9"}, {"id": "3", "n": "9"}, old=[{"n": "1"}, {"n": "1"}]),
        ]
    )
    merged = str(tmp_path / "merged")
    report = tidecast.replicate(uri, merged, config=str(config), spark=spark)
    assert not report.dead_letters
    rows = spark.read.format("delta").load(f"{merged}/d/t").collect()
    assert sorted(map(tuple, rows)) == [(2, 9), (3, 9), (4, 1)]


_ONE, _TWO = {"id": "1", "n": "1"}, {"id": "2", "n": "2"}


@pytest.mark.parametrize(
    ("message", "different"),
    [
        (_several("INSERT", 1, _ONE, _TWO), True),
        (_several("DELETE", 1, _ONE, _TWO), True),
        (_several("INSERT", 1, _ONE, _ONE), False),
        (_several("UPDATE", 1, _ONE, _TWO, old=[{"n": "7"}, {"n": "7"}]), True),
        (_several("UPDATE", 1, _ONE, _TWO, old=[{"id": "3"}, {"id": "1"}]), False),
        (_several("INSERT", 1, _ONE, {"id": "1", "n": "2"}) | {"pkNames": ["id"]}, False),
        (_several("UPDATE", 1, _ONE, _TWO, old=[{"id": "3"}, {}]) | {"pkNames": ["id"]}, False),
        (_several("UPDATE", 1, _ONE, _TWO, old=[{"n": "3"}, {"n": "1"}]) | {"pkNames": ["id"]}, True),
    ],
)
def test_rows_that_may_be_the_same_one_are_refused(message: Said, different: bool) -> None:
    said = parse(json.dumps(message).encode())
    assert isinstance(said, Said_) is different
    if not isinstance(said, Said_):
        assert said[1] == "several rows that may be the same one"


def _schema(*indexes: Index) -> TableSchema:
    columns = tuple(Column(name, DataType("int", length=11)) for name in ("id", "n"))
    return TableSchema("d", "t", 1, 1, columns, indexes)


def test_the_first_match_counts_and_others_stay_as_they_are() -> None:
    keys = Keys([KeyedTable(matcher=("d.t",), key=("n",)), KeyedTable(matcher=("d.*",), key=("id",))])
    assert keys.schema(_schema()).handle_key == ("n",)
    other = TableSchema("e", "t", 1, 1, (), ())
    assert keys.schema(other) is other


def test_a_key_that_the_messages_name_is_checked() -> None:
    named = _schema(_PRIMARY)
    assert Keys([KeyedTable(matcher=("d.t",), key=("id",))]).schema(named) is named
    with pytest.raises(tidecast.ConfigError, match=r"d\.t: .*the key is \(n\), and the messages name \(id\)"):
        Keys([KeyedTable(matcher=("d.t",), key=("n",))]).schema(named)


def test_a_key_of_columns_that_are_not_there_is_refused() -> None:
    with pytest.raises(
        tidecast.ConfigError, match=r"d\.t: .*some messages of the table have no column x \(they have id, n, which is"
    ):
        Keys([KeyedTable(matcher=("d.t",), key=("id", "x"))]).schema(_schema())
    with pytest.raises(tidecast.ConfigError, match="a key has no columns"):
        Keys([KeyedTable(matcher=("d.t",), key=())])


def test_a_message_of_several_rows_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    topic, to = GrowingTopic(tmp_path / "topic"), tmp_path / "tables"
    topic.grow([_several("INSERT", 1, {"id": "1", "n": "1"}, {"id": "2", "n": "2"})])
    (to / "d" / "t").mkdir(parents=True)
    (to / "d" / "t" / "notes.txt").write_text("mine")
    report = tidecast.replicate(topic.uri.replace("simple", "canal-json"), str(to), spark=spark)
    assert report.dead_letters == {"table-refused": 1}
    assert [one.count for one in tidecast.list_dead_letters(str(to))] == [1]
