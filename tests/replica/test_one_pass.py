"""Tables that share a pass: each gets what it would get alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from growing_topic import ID, PRIMARY, Said, ddl, row, table
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from small_replica import SmallReplica

from tidecast import DecodeError
from tidecast.model import compose
from tidecast.replica import _applying

_T0, _AT = compose(1_700_000_000_000), "2024-01-01 00:00:00.500"


def _column(name: str, kind: str, **more: Any) -> Said:
    charset = "utf8mb4" if kind == "varchar" else "binary"
    collate = "utf8mb4_bin" if kind == "varchar" else "binary"
    data_type = {"mysqlType": kind, "charset": charset, "collate": collate, "length": 10, **more}
    return {"name": name, "dataType": data_type, "nullable": name not in ("id", "part", "code"), "default": None}


_TABLES: dict[str, tuple[list[Said], list[str]]] = {
    "narrow": ([ID], ["id"]),
    "texts": ([_column("a", "varchar"), _column("code", "varchar"), _column("b", "varchar")], ["code"]),
    "mixed": (
        [
            _column("born", "date"),
            _column("part", "int"),
            _column("price", "decimal", decimal=2),
            _column("id", "bigint", unsigned=True),
            _column("at", "datetime", decimal=3),
        ],
        ["id", "part"],
    ),
    "keyless": ([_column("n", "int")], []),
}


def _messages() -> Iterator[Said]:
    for n, (name, (columns, key)) in enumerate(_TABLES.items()):
        said = table(_T0, *columns, name=name)
        indexes = [{**PRIMARY, "columns": key}] if key else []
        yield ddl(f"CREATE TABLE {name}", _T0, {**said, "tableID": n, "indexes": indexes})
    changes: list[tuple[str, int, str, dict[str, Any]]] = [
        ("narrow", 1, "INSERT", {"id": 1}),
        ("texts", 2, "INSERT", {"a": "x", "code": "1", "b": None}),
        ("mixed", 3, "INSERT", {"born": "2024-02-29", "part": 1, "price": "1.50", "id": 2**64 - 1, "at": None}),
        ("keyless", 4, "INSERT", {"n": 1}),
        ("narrow", 5, "INSERT", {"id": 2}),
        (
            "mixed",
            6,
            "INSERT",
            {"born": "2024-02-30", "part": 2, "price": "-0.01", "id": 1, "at": "2024-01-01 00:00:00.5"},
        ),
        ("texts", 7, "INSERT", {"a": "y", "code": "2", "b": "z"}),
        ("narrow", 8, "DELETE", {"id": 2}),
        ("keyless", 9, "INSERT", {"n": 1}),
    ]
    for name, ts, kind, values in changes:
        shown = {column: None if value is None else str(value) for column, value in values.items()}
        yield {**row(_T0 + ts, _T0, kind=kind, name=name), ("old" if kind == "DELETE" else "data"): shown}
    before, after = {"a": "y", "code": "2", "b": "z"}, {"a": "y", "code": "3", "b": "z"}
    yield {**row(_T0 + 10, _T0, kind="UPDATE", name="texts"), "data": after, "old": before}


_ROWS = {
    "d/narrow": [(1,)],
    "d/texts": [("x", "1", None), ("y", "3", "z")],
    "d/mixed": [
        (None, 2, Decimal("-0.01"), Decimal(1), datetime(2024, 1, 1, 0, 0, 0, 500_000)),
        (date(2024, 2, 29), 1, Decimal("1.50"), Decimal(2**64 - 1), None),
    ],
    "d/keyless": [(1,), (1,)],
}


def test_tables_of_many_types_get_their_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path)
    replica.topic.grow(_messages())
    done = replica.run()
    assert {name: replica.rows(table=name) for name in _ROWS} == _ROWS
    found = {one.table: (one.upserted, one.deleted, one.unchanged) for one in done.tables}
    assert found == {"narrow": (1, 0, 1), "texts": (2, 0, 1), "mixed": (2, 0, 0), "keyless": (2, 0, 0)}
    assert [one.unrepresentable for one in done.tables if one.table == "mixed"] == [{"born": 1}]
    version = {one.table: one.upserted for one in replica.run().tables}
    assert version == dict.fromkeys(found, 0)


@pytest.mark.parametrize("mode", ["soft-delete", "history"])
def test_modes_share_a_pass(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    replica = SmallReplica(spark, tmp_path, mode=mode)
    replica.topic.grow(_messages())
    replica.run()
    if mode == "history":
        versions = [(1, _T0 + 1, None), (2, _T0 + 5, _T0 + 8)]
        assert replica.rows("id", "_valid_from", "_valid_to", table="d/narrow") == versions
        assert replica.rows("code", "_valid_to", table="d/texts") == [("1", None), ("2", _T0 + 10), ("3", None)]
    else:
        rows = [(1, False, _T0 + 1), (2, True, _T0 + 8)]
        assert replica.rows("id", "_deleted", "_commit_ts", table="d/narrow") == rows
        assert replica.rows("code", "_deleted", table="d/texts") == [("1", False), ("2", True), ("3", False)]
    assert replica.rows("part", "price", table="d/mixed") == [(1, Decimal("1.50")), (2, Decimal("-0.01"))]


def test_where_the_pass_fails_each_table_has_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So only the table whose rows it fails at goes without."""

    def failing(*_: Any, **__: Any) -> Any:
        raise PySparkException("a task failed")

    replica = SmallReplica(spark, tmp_path)
    replica.topic.grow(_messages())
    monkeypatch.setattr(_applying, "newest_changes", failing)
    replica.run()
    assert {name: replica.rows(table=name) for name in _ROWS} == _ROWS


def test_a_refused_table_among_others_stops_the_run_by_its_message(spark: SparkSession, tmp_path: Path) -> None:
    replica, name = SmallReplica(spark, tmp_path, on_error="fail"), "y" * 256
    refused = [ddl("CREATE TABLE y", _T0, table(_T0, ID, name=name)), row(_T0 + 1, _T0, name=name, id=1)]
    replica.topic.grow([*refused, *_messages()])
    with pytest.raises(DecodeError, match="table-refused: no folder can have a name of 256 bytes"):
        replica.run()
    assert not replica.to.exists()
