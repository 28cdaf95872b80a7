"""Schema changes of a topic on the tables that are there: which files they touch, and what every reader sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from delta_log import DeltaLog
from deltalake import DeltaTable
from growing_topic import ID, GrowingTopic, ddl, row, table
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import tidecast
from tidecast.replica._target import DeltaTarget, is_widening

Said = dict[str, Any]


def column(name: str, kind: str = "int", length: int = 11, scale: int = 0, **more: Any) -> Said:
    data_type = {"mysqlType": kind, "charset": "binary", "collate": "binary", "length": length, "decimal": scale}
    return {"name": name, "dataType": data_type, "nullable": True, "default": None, **more}


class Replica:
    """A growing topic of the table `d.t`, and the tables that it becomes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.topic = GrowingTopic(folder / "topic")
        self.letters = folder / "to" / "_dead_letters"
        self._ts = 0

    def change(self, sql: str, *columns: Said, **more: Any) -> int:
        """Send a schema change; return the version that it makes."""
        self._ts += 10
        self.topic.grow([ddl(sql, self._ts, table(self._ts, *columns, **more))])
        return self._ts

    def put(self, version: int, **data: Any) -> None:
        self._ts += 1
        self.topic.grow([row(self._ts, version, **data)])

    def run(self, to: str = "to", **options: Any) -> tidecast.Replicated:
        """Apply the whole topic."""
        return tidecast.replicate(self.topic.uri, str(self._folder / to), spark=self._spark, tz="UTC", **options)

    def log(self, to: str = "to", name: str = "t") -> DeltaLog:
        return DeltaLog(self._folder / to / "d" / name)

    def rows(self, to: str = "to", name: str = "t") -> list[Said]:
        """The table's rows as Spark reads them, which must be those that its log and files say."""
        frame = self._spark.read.format("delta").load(str(self._folder / to / "d" / name))
        found = sorted((r.asDict() for r in frame.collect()), key=lambda r: str(next(iter(r.values()))))
        assert found == self.log(to, name).rows()
        return found

    def refused(self) -> list[str]:
        """The causes of the dead letters."""
        lines = [line for file in self.letters.glob("*.jsonl") for line in file.read_text().splitlines()]
        return [json.loads(line)["detail"] for line in lines]

    def path(self, to: str = "to") -> str:
        return str(self._folder / to / "d" / "t")


@pytest.fixture
def replica(spark: SparkSession, tmp_path: Path) -> Replica:
    return Replica(spark, tmp_path)


# --- added columns and wider types ----------------------------------------------------------------------------------


def test_added_columns_touch_no_file(replica: Replica) -> None:
    first = replica.change("CREATE TABLE `d`.`t`", ID)
    replica.put(first, id=1)
    replica.run()
    (file,) = replica.log().files
    second = replica.change("ALTER TABLE `d`.`t` ADD COLUMN `a` INT", ID, column("a"))
    replica.put(second, id=2, a=20)
    for _ in range(2):
        replica.run()
        assert replica.rows() == [{"id": 1, "a": None}, {"id": 2, "a": 20}]
    assert file in replica.log().files
    assert len(replica.log().ever) == 2
    assert DeltaTable(replica.path()).to_pyarrow_table().num_rows == 2


def test_a_column_with_a_default_is_written_into_older_rows(replica: Replica) -> None:
    first = replica.change("CREATE TABLE `d`.`t`", ID)
    replica.put(first, id=1)
    replica.run()
    replica.put(replica.change("ALTER …", ID, column("a", default="7"), column("b")), id=2, a=20)
    replica.run()
    assert replica.rows() == [{"id": 1, "a": 7, "b": None}, {"id": 2, "a": 20, "b": None}]


@pytest.mark.parametrize("session", ["true", "false"], indirect=True, ids=["ansi", "no-ansi"])
def test_wider_types_touch_no_file(session: SparkSession, replica: Replica) -> None:
    narrow = (ID, column("a"), column("d", "decimal", 6, 2), column("f", "float", 12), column("n", "int"))
    wide = (
        ID,
        column("a", "bigint"),
        column("d", "decimal", 9, 3),
        column("f", "double"),
        column("n", "decimal", 12, 1),
    )
    replica.put(replica.change("CREATE …", *narrow), id=1, a=2**31 - 1, d="12.34", f="1.5", n="-4")
    replica.run()
    (file,) = replica.log().files
    replica.put(replica.change("ALTER …", *wide), id=2, a=2**40, d="123456.789", f="0.1", n="1.5")
    for _ in range(2):
        replica.run()
        assert replica.rows() == [
            {"id": 1, "a": 2**31 - 1, "d": Decimal("12.340"), "f": 1.5, "n": Decimal("-4.0")},
            {"id": 2, "a": 2**40, "d": Decimal("123456.789"), "f": 0.1, "n": Decimal("1.5")},
        ]
    assert file in replica.log().files
    assert replica.log().types()["a"] == "long"


def test_the_owner_of_a_table_can_forbid_type_widening(spark: SparkSession, replica: Replica) -> None:
    replica.put(replica.change("CREATE …", ID, column("a")), id=1, a=1)
    replica.run()
    spark.sql(f"ALTER TABLE delta.`{replica.path()}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'false')")
    replica.put(replica.change("ALTER …", ID, column("a", "bigint")), id=2, a=2**40)
    replica.run()
    assert DeltaTable(replica.path()).to_pyarrow_table().sort_by("id").to_pylist() == [
        {"id": 1, "a": 1},
        {"id": 2, "a": 2**40},
    ]


TYPES: list[T.DataType] = [
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.StringType(),
    T.DecimalType(9, 0),
    T.DecimalType(10, 0),
    T.DecimalType(12, 2),
    T.DecimalType(19, 0),
    T.DecimalType(20, 0),
    T.DecimalType(23, 3),
]


def test_delta_takes_the_widenings_that_are_said_to_be_some(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [(old, new) for old in TYPES for new in TYPES if old != new and is_widening(old, new)]
    schema = T.StructType([T.StructField(f"c{n}", old) for n, (old, _) in enumerate(pairs)])
    place = DeltaTarget(spark, f"delta.`{tmp_path}/t`", tmp_path / "t")
    place.create(spark.createDataFrame([], schema), (), {})
    place.widen({f"c{n}": new for n, (_, new) in enumerate(pairs)})
    assert [field.dataType for field in place.read().schema] == [new for _, new in pairs]
    assert len(pairs) > 10


# --- runs that end halfway ------------------------------------------------------------------------------------------


class Crash(Exception):
    """A run that ends."""


def crashing(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], int]:
    """Let the run end before its n-th statement that alters or writes a table; return a counter of them."""
    seen = 0

    def counting(name: str) -> None:
        real = getattr(DeltaTarget, name)

        def step(self: DeltaTarget, *given: Any, **named: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen > after:
                raise Crash
            return real(self, *given, **named)

        monkeypatch.setattr(DeltaTarget, name, step)

    for name in STEPS:
        counting(name)
    return lambda: seen


STEPS = ("remember", "add", "widen", "rewrite")


@pytest.mark.parametrize("default", [None, "7"], ids=["metadata", "rewritten"])
@pytest.mark.parametrize("late", [False, True], ids=["the same topic again", "an older row first"])
def test_a_half_done_change_is_completed(
    replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: str | None, late: bool
) -> None:
    """After whichever step a run ends, the next one comes to the same table."""
    before, after = (ID, column("w")), (ID, column("w", "bigint"), column("a", default=default))
    first = replica.change("CREATE …", *before)
    replica.put(first, id=1, w=1)
    changed = Replica(replica._spark, tmp_path / "changed")
    changed.change("CREATE …", *before)
    changed.put(first, id=1, w=1)
    changed.put(changed.change("ALTER …", *after), id=2, w=2**40, a=5)
    expected = [{"id": 1, "w": 1, "a": default and int(default)}, {"id": 2, "w": 2**40, "a": 5}]

    for ended in range(9):
        to = str(tmp_path / f"to-{ended}")
        replica.run(to)
        with monkeypatch.context() as patch:
            steps = crashing(patch, ended)
            try:
                changed.run(to)
            except Crash:
                pass
            else:
                break
        if late:
            replica.run(to)
        changed.run(to)
        assert changed.rows(to) == expected
    else:
        pytest.fail("it never ended")
    assert steps() >= 2
