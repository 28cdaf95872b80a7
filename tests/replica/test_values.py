"""Values that a table's type cannot hold: null, text, or no row."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from growing_topic import ID, ddl, row, table
from pyspark.sql import SparkSession
from small_replica import SmallReplica

import tidecast
from tidecast.model import Column, DataType, compose
from tidecast.replica.plan._evolve import reconcile
from tidecast.replica.tables._columns import as_text, fill

_T0 = compose(1_700_000_000_000)


def _typed(name: str, mysql_type: str, **more: Any) -> dict[str, Any]:
    data_type = {**ID["dataType"], "mysqlType": mysql_type, "length": 0}
    return {**ID, "name": name, "nullable": True, "dataType": data_type, **more}


_COLUMNS = (ID, _typed("born", "date"), _typed("seen", "timestamp"))
_CREATE = ddl("CREATE TABLE t (id int primary key, born date, seen timestamp)", _T0, table(_T0, *_COLUMNS))


def _row(ts: int, **values: str) -> dict[str, Any]:
    said = row(_T0 + ts, _T0)
    # Simple shows a TIMESTAMP with the time zone in which it is written.
    seen = {"location": "Europe/Berlin", "value": values.pop("seen", "2024-06-01 12:00:00")}
    return {**said, "data": {**values, "seen": seen}}


_ROWS = [_row(1, id="1", born="0000-00-00"), _row(2, id="2", born="2021-02-30"), _row(3, id="3", born="2024-02-29")]


def test_text_keeps_what_a_date_cannot_hold(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, on_unrepresentable="string")
    replica.topic.grow([_CREATE, *_ROWS, _row(4, id="4", born="2024-02-29", seen="0000-00-00 00:00:00")])
    (done,) = replica.run().tables
    assert not done.unrepresentable
    assert replica.rows() == [
        (1, "0000-00-00", "2024-06-01 10:00:00"),
        (2, "2021-02-30", "2024-06-01 10:00:00"),
        (3, "2024-02-29", "2024-06-01 10:00:00"),
        (4, "2024-02-29", "0000-00-00 00:00:00"),
    ]
    version = replica.version()
    replica.run()
    assert replica.version() == version
    assert tidecast.compare(replica.topic.uri, str(replica.to), on_unrepresentable="string", spark=spark).ok
    with pytest.raises(tidecast.ConfigError, match=r"d\.t: the table was made with --on-unrepresentable string"):
        replica.run(on_unrepresentable="null")


def test_a_row_that_a_table_cannot_hold_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    replica = SmallReplica(spark, tmp_path, on_unrepresentable="fail")
    replica.topic.grow([_CREATE, *_ROWS])
    with pytest.raises(tidecast.DecodeError, match="the table cannot hold the value of born"):
        replica.run(on_error="fail")
    assert not (replica.to / "d").exists()
    without_key = _row(4, born="2024-02-29")
    replica.topic.grow([without_key])
    assert replica.run().dead_letters == {"bad-value": 3}
    assert replica.rows("id", "born") == [(3, dt.date(2024, 2, 29))]
    letters = spark.read.json(str(replica.to / "_dead_letters"))
    assert {r["detail"] for r in letters.collect()} == {
        "the table cannot hold the value of born",
        "NULL in the key: id",
    }
    with pytest.raises(tidecast.ConfigError, match="the table was made without --on-unrepresentable string"):
        replica.run(on_unrepresentable="string")


@pytest.mark.parametrize(
    ("data_type", "nullable", "default", "shown"),
    [
        (DataType("date"), False, None, "0000-00-00"),
        (DataType("datetime", decimal=3), False, None, "0000-00-00 00:00:00.000"),
        (DataType("datetime", decimal=3), True, "0000-00-00 00:00:00", "0000-00-00 00:00:00.000"),
        (DataType("timestamp"), False, "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
        (DataType("timestamp"), False, "CURRENT_TIMESTAMP", None),
    ],
)
def test_older_rows_have_the_text_of_a_default(
    data_type: DataType, nullable: bool, default: str | None, shown: str | None
) -> None:
    filled = fill(Column("a", as_text(data_type), nullable, default))
    assert (None if filled is None else filled.as_py()) == shown


def _decimal(length: int, scale: int) -> DataType:
    return DataType("decimal", length=length, decimal=scale)


def _time(digits: int) -> DataType:
    return DataType("time", length=10 + (digits and 1 + digits), decimal=digits)


@pytest.mark.parametrize(
    ("data_type", "nullable", "default", "shown"),
    [
        (_decimal(65, 30), True, "1.5", "1.5" + 29 * "0"),
        (_decimal(65, 30), True, "-2", "-2." + 30 * "0"),
        (_decimal(65, 30), False, None, "0." + 30 * "0"),
        (_decimal(50, 0), False, None, "0"),
        (_decimal(50, 2), True, "1e3", "1000.00"),
        (_decimal(50, 2), True, "-0", "0.00"),
        (_decimal(40, 30), True, "1" + 10 * "0", None),
        (_decimal(0, 0), True, "1.5", "1.5"),
        (_time(3), False, None, "00:00:00.000"),
        (_time(0), False, None, "00:00:00"),
        (_time(3), True, "-838:59:59", "-838:59:59.000"),
        (_time(6), True, "12:00:00.123", "12:00:00.123000"),
        (_time(3), True, "no time", "no time"),
    ],
)
def test_older_rows_have_all_digits_of_a_default(
    data_type: DataType, nullable: bool, default: str | None, shown: str | None
) -> None:
    filled = fill(Column("a", data_type, nullable, default))
    assert filled is not None
    assert filled.as_py() == shown


_OTHER_DIGITS = "column a has another number of digits after the point in its text"


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (_decimal(50, 2), _decimal(50, 4), _OTHER_DIGITS),
        (_time(0), _time(3), _OTHER_DIGITS),
        (_time(3), _time(0), "column a lost digits after the point"),
        (_decimal(50, 2), _decimal(60, 2), None),
        (_decimal(30, 2), _decimal(34, 4), None),
        (_decimal(0, 0), _decimal(50, 4), None),
        (DataType("time"), _time(3), None),
    ],
)
def test_another_number_of_digits_in_texts_is_refused_if_known(
    before: DataType, after: DataType, cause: str | None
) -> None:
    old, new = (
        tidecast.model.TableSchema("d", "t", 1, version, (Column("a", kind),))
        for version, kind in ((1, before), (2, after))
    )
    told = cause and f"{cause}, in rows too that no message shows"
    assert reconcile([old, new], None).refused.get(new) == told


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (DataType("date"), DataType("datetime"), "changed from date to datetime"),
        (DataType("datetime"), DataType("datetime", decimal=3), "has another number of digits after the point"),
        (DataType("date"), DataType("text", charset="utf8mb4"), "changed from date to text"),
    ],
)
def test_another_type_is_refused_although_both_are_text(before: DataType, after: DataType, cause: str) -> None:
    old, new = (
        tidecast.model.TableSchema("d", "t", 1, version, (Column("a", as_text(kind)),))
        for version, kind in ((1, before), (2, after))
    )
    assert cause in reconcile([old, new], None).refused[new]
