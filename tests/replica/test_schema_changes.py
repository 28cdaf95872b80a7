"""Schema changes of a topic on the tables that are there: which files they touch, and what every reader sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from delta_log import DeltaLog
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from full import FULL, full
from growing_topic import ID, ChangingTable, ddl, table
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import tidecast
from tidecast._errors import ConfigError, TableRefused
from tidecast._policy import DdlKind, DdlPolicy, OnDdl
from tidecast.model import Column, DataType, Index, TableSchema
from tidecast.replica.plan._applied_versions import AppliedVersions, steps
from tidecast.replica.plan._deletes import delete_objection
from tidecast.replica.plan._evolve import reconcile
from tidecast.replica.targets.delta import DeltaTarget
from tidecast.replica.targets.delta._table import is_widening

Said = dict[str, Any]


def column(name: str, kind: str = "int", length: int = 11, scale: int = 0, **more: Any) -> Said:
    data_type = {"mysqlType": kind, "charset": "binary", "collate": "binary", "length": length, "decimal": scale}
    return {"name": name, "dataType": data_type, "nullable": True, "default": None, **more}


class Replica(ChangingTable):
    """A growing topic of the table `d.t`, and the tables that it becomes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(folder / "topic")
        self._spark, self._folder = spark, folder
        self.letters = folder / "to" / "_dead_letters"

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

    def journal(self, to: str) -> list[tuple[str, str, str | None]]:
        """What became of each schema change."""
        rows = DeltaTable(self._folder / to / "_tidecast" / "schema_changes").to_pyarrow_table().sort_by("commit_ts")
        return [(row["type"], row["outcome"], row["cause"]) for row in rows.to_pylist()]

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


@pytest.mark.parametrize("session", ["true", pytest.param("false", marks=full)], indirect=True, ids=["ansi", "no-ansi"])
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


def test_a_table_may_get_its_first_time_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    """For which Delta wants a feature, that a new table has by itself: as metadata, and with new files."""
    time = T.TimestampNTZType()
    rows = spark.range(1)
    for way, later in (("add", {"at": time}), ("rewrite", rows.withColumn("at", F.lit(None).cast(time)))):
        place = DeltaTarget(spark, f"delta.`{tmp_path}/{way}`", tmp_path / way)
        place.create(rows, (), {})
        getattr(place, way)(later)
        place.add({"more": time})
        assert DeltaTable(tmp_path / way).to_pyarrow_table().to_pylist() == [{"id": 0, "at": None, "more": None}]


# --- runs that end halfway ------------------------------------------------------------------------------------------


class Crash(Exception):
    """A run that ends."""


def crashing(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], int]:
    """Let a run end before its n-th commit on a table that is there; return a counter of them."""
    seen = 0

    def counting(name: str) -> None:
        real = getattr(DeltaTarget, name)

        def step(self: DeltaTarget, *given: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen > after:
                raise Crash
            return real(self, *given)

        monkeypatch.setattr(DeltaTarget, name, step)

    for name in ("_alter", "rewrite"):
        counting(name)
    return lambda: seen


@pytest.mark.parametrize("default", [None, pytest.param("7", marks=full)], ids=["metadata", "rewritten"])
@pytest.mark.parametrize(
    "late", [pytest.param(False, marks=full), True], ids=["the same topic again", "an older row first"]
)
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

    for ended in range(9) if FULL else (1, 2):
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
        assert not FULL, "it never ended"
    assert steps() >= 2


@full
def test_half_done_renames_are_completed(replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns exchange their names, another one takes that of a column that is dropped, and the key has a new one.

    The rows come again, too, those of the old version by the old names.
    """
    before = (ID, column("a"), column("b"), column("c"), column("d"))
    after = ({**ID, "name": "k"}, column("b"), column("a"), column("c"))
    for topic, ddl_too in ((replica, False), (changed := Replica(replica._spark, tmp_path / "changed"), True)):
        first = topic.change("CREATE TABLE `d`.`t`", *before)
        topic.put(first, id=1, a=10, b=20, c=30, d=40)
        topic.put(first, id=2, a=11, b=21, c=31, d=41)
        if ddl_too:
            names = {"id": "k", "a": "b", "b": "a"}
            renames = ", ".join(f"RENAME COLUMN `{old}` TO `{new}`" for old, new in names.items())
            swapped = (after[0], column("b"), column("a"), column("c"), column("d"))
            topic.change(f"ALTER TABLE `d`.`t` {renames}", *swapped, key="k")
            topic.change("ALTER TABLE `d`.`t` DROP COLUMN `c`", *swapped[:3], column("d"), key="k")
            sql = "ALTER TABLE `d`.`t` CHANGE COLUMN `d` `c` INT"
            topic.put(topic.change(sql, *after, key="k"), k=2, b=12, a=22, c=42)
    expected = [{"k": 1, "b": 10, "a": 20, "c": 40}, {"k": 2, "b": 12, "a": 22, "c": 42}]

    for ended in range(12) if FULL else (2, 5, 8):
        to = str(tmp_path / f"to-{ended}")
        replica.run(to)
        (file,) = replica.log(to).files
        with monkeypatch.context() as patch:
            steps = crashing(patch, ended)
            try:
                changed.run(to, ddl="evolve")
            except Crash:
                pass
            else:
                break
        changed.run(to, ddl="evolve")
        assert changed.rows(to) == expected
        assert file in changed.log(to).ever
        assert len(changed.log(to).ever) == 2
    else:
        pytest.fail("it never ended")
    assert steps() == 8
    assert changed.rows(to) == expected


# --- dropped and renamed columns ------------------------------------------------------------------------------------


def test_dropped_and_renamed_columns_touch_no_file(replica: Replica) -> None:
    """By schema changes alone, without a row; rows of older versions come late, under the names that they had."""
    first = replica.change("CREATE TABLE `d`.`t`", ID, column("a"), column("b", default="5"))
    replica.put(first, id=1, a=10, b=100)
    replica.run(ddl="evolve")
    files = replica.log().files
    assert DeltaTable(replica.path()).protocol().min_reader_version == 1
    replica.change("ALTER TABLE `d`.`t` RENAME COLUMN `A` TO `aa`", ID, column("aa"), column("b", default="5"))
    replica.run(ddl="evolve")
    assert replica.rows() == [{"id": 1, "aa": 10, "b": 100}]
    replica.change("ALTER TABLE `d`.`t` DROP COLUMN `b`", ID, column("aa"))
    replica.run(ddl="evolve")
    assert replica.rows() == [{"id": 1, "aa": 10}]
    last = replica.change("ALTER TABLE `d`.`t` ADD COLUMN `b` INT", ID, column("aa"), column("b"))
    replica.run(ddl="evolve")
    assert replica.log().files == replica.log().ever == files
    replica.put(first, id=2, a=20, b=200)
    replica.put(last, id=3, aa=30, b=300)
    for _ in range(2):
        replica.run(ddl="evolve")
        assert replica.rows() == [
            {"id": 1, "aa": 10, "b": None},
            {"id": 2, "aa": 20, "b": None},
            {"id": 3, "aa": 30, "b": 300},
        ]
    assert replica.refused() == []
    with pytest.raises(DeltaProtocolError, match="columnMapping"):  # and no nulls
        DeltaTable(replica.path()).to_pyarrow_table()
    query = QueryBuilder().register("t", DeltaTable(replica.path())).execute("SELECT aa FROM t ORDER BY id")
    assert pa.table(query.read_all()).to_pydict() == {"aa": [10, 20, 30]}


def test_what_each_policy_makes_of_a_rename_and_a_drop(replica: Replica) -> None:
    before = (ID, column("a"), column("b", default="5"), column("n", "bigint"))
    after = (ID, column("aa"), column("n"), column("x", default="9"))
    replica.put(replica.change("CREATE TABLE `d`.`t`", *before), id=1, a=10, b=100, n=7)
    for to in ("lenient", "ignore", "exception", "try_evolve"):
        replica.run(to)
    sql = "ALTER TABLE `d`.`t` RENAME COLUMN `a` TO `aa`, DROP COLUMN `b`, ADD COLUMN `x` INT DEFAULT 9"
    last = replica.change(sql, *after)
    replica.put(last, id=2, aa=20, n=8, x=80)

    with pytest.raises(TableRefused, match=r"d\.t: its schema changed: column a renamed to aa"):
        replica.run("exception", ddl="exception")
    for _ in range(2):
        done = {to: replica.run(to, ddl=to) for to in ("lenient", "ignore", "try_evolve")}
        kept = {"id": 1, "a": 10, "b": 100, "n": 7, "aa": None, "x": 9}
        assert replica.rows("lenient") == [kept, {"id": 2, "a": None, "b": None, "n": 8, "aa": 20, "x": 80}]
        assert replica.rows("ignore") == [
            {"id": 1, "a": 10, "b": 100, "n": 7},
            {"id": 2, "a": None, "b": None, "n": 8},
        ]
        assert replica.rows("try_evolve") == [{"id": 1, "aa": 10, "n": 7, "x": 9}, {"id": 2, "aa": 20, "n": 8, "x": 80}]
    assert all(not one.dead_letters for one in done.values())
    # What was ignored is made up for when the topic is read again.
    replica.run("ignore", ddl="try_evolve")
    assert replica.rows("ignore") == replica.rows("try_evolve")

    wrong = replica.change("ALTER TABLE `d`.`t` MODIFY COLUMN `x` JSON", *after[:3], column("x", "json"))
    replica.put(wrong, id=3, aa=30, n=9, x=1)
    with pytest.raises(TableRefused, match="column x changed from int to"):
        replica.run("try_evolve", ddl="evolve")
    assert replica.run("try_evolve", ddl="try_evolve").dead_letters == {"schema-change": 1}

    made = ("create table", "applied", None)
    stay = "kept, and null in new rows: a, b"
    assert replica.journal("lenient") == [made, ("multi schema change", "applied", stay)]
    assert replica.journal("ignore") == [made, ("multi schema change", "ignored", "--ddl is ignore")]
    assert replica.journal("exception") == [made]
    refused = ("modify column", "refused", "column x changed from int to string")
    assert replica.journal("try_evolve") == [made, ("multi schema change", "applied", None), refused]


@pytest.mark.parametrize("word", ["try_evolve", "ignore"])
def test_a_refused_change_is_known_in_later_batches(replica: Replica, tmp_path: Path, word: str) -> None:
    """Also the rename that follows it, and a type that is as before afterwards: values were converted meanwhile."""
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "ddl": word}
    text, number = column("b", "varchar", 9), column("b", nullable=False, default="0")
    text["dataType"] |= {"charset": "utf8mb4", "collate": "utf8mb4_bin"}
    first = replica.change("CREATE TABLE t (id int, b varchar(9))", ID, text)
    replica.put(first, id=1, b=1)
    replica.run(**options)
    replica.change("ALTER TABLE t MODIFY b int NOT NULL DEFAULT 0", ID, number)
    second = replica.change("ALTER TABLE t RENAME COLUMN b TO c", ID, {**number, "name": "c"})
    replica.run(**options)
    replica.put(second, id=2, c=2)
    assert replica.run(**options).dead_letters == {"schema-change": 1}
    third = replica.change("ALTER TABLE t MODIFY c varchar(9)", ID, {**text, "name": "c"})
    replica.put(third, id=3, c=3)
    assert replica.run(**options).dead_letters == {"schema-change": 1}
    assert replica.rows() == [{"id": 1, "b": "1"}]


def test_a_rename_after_an_ignored_change_is_made_up_for(replica: Replica, tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "ddl": "try_evolve"}
    first = replica.change("CREATE TABLE t (id int, b int)", ID, column("b"))
    replica.put(first, id=1, b=1)
    replica.run(**options)
    wide = column("b", "bigint", 20, nullable=False, default="0")
    replica.change("ALTER TABLE t MODIFY b bigint NOT NULL DEFAULT 0", ID, wide)
    second = replica.change("ALTER TABLE t RENAME COLUMN b TO c", ID, {**wide, "name": "c"})
    replica.put(second, id=2, c=2)
    done = replica.run(**{**options, "ddl": ("try_evolve", "alter-column-type=ignore")})
    assert done.dead_letters == {"schema-change": 1}
    replica.put(second, id=3, c=1 << 40)
    assert replica.run(**options).dead_letters == {}
    assert replica.rows() == [{"id": 1, "c": 1}, {"id": 3, "c": 1 << 40}]


def test_renames_in_debezium_messages(spark: SparkSession, replica: Replica, tmp_path: Path) -> None:
    replica.put(replica.change("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY, `a` INT)", ID, column("a")), id=1, a=10)
    sql = "ALTER TABLE `d`.`t` CHANGE COLUMN `a` `aa` INT"
    replica.put(replica.change(sql, ID, column("aa")), id=2, aa=20)
    topic = f"file://{tmp_path}/debezium/topic?protocol=debezium"
    tidecast.convert(replica.topic.uri, topic, tz="UTC", spark=spark)
    for _ in range(2):
        tidecast.replicate(topic, str(tmp_path / "to"), tz="UTC", spark=spark, ddl="evolve")
        assert replica.rows() == [{"id": 1, "aa": 10}, {"id": 2, "aa": 20}]


def test_a_truncated_table_keeps_its_rows_and_tells(replica: Replica) -> None:
    first = replica.change("CREATE TABLE `d`.`t`", ID, column("a"))
    replica.put(first, id=1, a=1)
    replica._ts += 10
    replica.topic.grow([ddl("TRUNCATE TABLE `d`.`t`", replica._ts, table(first, ID, column("a")))])
    replica.put(first, id=2, a=3)
    for policy in ("lenient", "ignore"):
        (warning,) = replica.run(policy, ddl=policy).warnings
        assert "not carried out" in warning
        assert replica.rows(policy) == [{"id": 1, "a": 1}, {"id": 2, "a": 3}]
        assert replica.journal(policy)[1][:2] == ("truncate table", "ignored")
    with pytest.raises(TableRefused, match="TRUNCATE TABLE"):
        replica.run("exception", ddl="exception")


def test_each_kind_of_change_may_have_a_policy_of_its_own() -> None:
    first = TableSchema("d", "t", 1, 1, (_column("id"), _column("a"), _column("b")))
    last = TableSchema("d", "t", 1, 3, (_column("id", "bigint"), _column("aa"), _column("c")))
    renamed = {3: {"aa": "a"}}

    def columns(*said: str) -> list[str]:
        policy = DdlPolicy.parse(said)
        made = reconcile([first], None, on_ddl=policy)
        later = reconcile([last], made.shape, made.memory, renamed=renamed, on_ddl=policy)
        at_once = reconcile([first, last], None, renamed=renamed, on_ddl=policy)
        assert set(at_once.shape.columns) == set(later.shape.columns)
        assert later.refused.keys() == at_once.refused.keys()
        return [*sorted(later.shape.columns), *later.refused.values()]

    assert columns() == ["a", "aa", "b", "c", "id"]
    assert columns("evolve") == ["aa", "c", "id"]
    assert columns("evolve", "drop-column=lenient") == ["aa", "b", "c", "id"]
    assert columns("rename-column=evolve") == ["aa", "b", "c", "id"]
    assert columns("evolve", "rename-column=ignore") == ["aa", "c", "id"]  # what is not renamed is dropped, and added
    assert columns("evolve", "add-column=ignore") == ["aa", "id"]
    wider = "column id changed from int to bigint"
    assert columns("alter-column-type=ignore") == ["a", "b", "id", wider]
    kinds = [kind for kind, _ in reconcile([first, last], None, renamed=renamed).news if kind]
    assert sorted(kinds) == ["add-column", "add-column", "alter-column-type", "drop-column", "drop-column"]

    told = DdlPolicy.parse({"default": "ignore", "add-column": "evolve"}, ["add-column=exception", "try_evolve"])
    assert [told.of(kind) for kind in (DdlKind.ADD_COLUMN, DdlKind.DROP_TABLE, None)] == [
        "exception",
        "try_evolve",
        "try_evolve",
    ]
    assert told.told(DdlKind.ADD_COLUMN) == "--ddl add-column=exception"


def test_kinds_that_stop_and_new_tables_that_are_not_made(replica: Replica) -> None:
    first = replica.change("CREATE TABLE `d`.`t` (`id` INT)", ID)
    replica.put(first, id=1)
    with pytest.raises(TableRefused, match=r"it is new \(--ddl create-table=exception; with lenient the run goes on"):
        replica.run(ddl="create-table=exception")
    assert replica.run("none", ddl=["evolve", "create-table=ignore"]).dead_letters == {"table-refused": 1}
    replica.put(replica.change("ALTER TABLE `d`.`t` ADD COLUMN `a` INT", ID, column("a")), id=2, a=2)
    with pytest.raises(TableRefused, match=r"column a added \(--ddl add-column=exception"):
        replica.run(ddl=["lenient", "add-column=exception"])
    replica.run(ddl=["lenient", "add-column=ignore"])
    assert replica.rows() == [{"id": 1}, {"id": 2}]
    assert replica.journal("to")[1] == ("add column", "ignored", "left out of rows: a")


def _column(name: str, kind: str = "int") -> Column:
    return Column(name, DataType(kind, "binary", "binary", 11), nullable=True)


@pytest.mark.parametrize("word", ["add-colum=evolve", "truncate.table=evolve", "=evolve "])
def test_an_unknown_kind(tmp_path: Path, word: str) -> None:
    with pytest.raises(ConfigError, match="one of "):
        tidecast.replicate(f"{tmp_path}/topic?protocol=simple", str(tmp_path), ddl=["lenient", word])


def test_columns_get_the_order_that_they_have_at_the_source(replica: Replica) -> None:
    replica.put(replica.change("CREATE TABLE `d`.`t` (`id` INT)", ID, column("a")), id=1, a=1)
    replica.run(ddl="evolve")
    (file,) = replica.log().files
    replica.put(replica.change("ALTER TABLE `d`.`t` ADD COLUMN `b` INT FIRST", column("b"), ID, column("a")), id=2, b=2)
    replica.change("ALTER TABLE `d`.`t` MODIFY COLUMN `id` INT AFTER `a`", column("b"), column("a"), ID)
    for _ in range(2):
        replica.run(ddl="evolve")
        assert [list(found.items()) for found in replica.rows()] == [
            [("b", 2), ("a", None), ("id", 2)],
            [("b", None), ("a", 1), ("id", 1)],
        ]
    assert file in replica.log().files


def test_an_unknown_policy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ddl is .eager. .one of evolve, try_evolve, lenient, ignore, exception"):
        tidecast.replicate(f"{tmp_path}/topic?protocol=simple", str(tmp_path), ddl="eager")


def random_change(random: Random, columns: dict[str, int], last_id: int) -> tuple[dict[str, int], dict[str, str]]:
    """Return the ids of a table's columns after a statement, and those that it renames, the old name by the new one."""
    left = [name for name in columns if random.random() > 0.2]
    some = random.sample(left, random.randint(0, len(left)))
    free = [name for name in "abcdef" if name not in columns]
    now = dict(zip(some, random.sample([*some, *free], len(some)), strict=True))
    after = {now.get(name, name): columns[name] for name in left}
    added = [name for name in "abcdef" if name not in {*after, *columns} and random.random() < 0.2]
    return after | {n: last_id + i for i, n in enumerate(added, 1)}, {new: old for old, new in now.items()}


def random_versions(random: Random) -> tuple[list[TableSchema], list[dict[str, int]], dict[int, dict[str, str]]]:
    """Versions of a table, TiDB's ids of their columns, and what statements rename, by the number of the version."""
    ids, renamed = [{"k": 0, "a": 1}], dict[int, dict[str, str]]()
    for number in range(1, random.randint(2, 7)):
        columns, former = random_change(random, {n: i for n, i in ids[-1].items() if n != "k"}, number * 10)
        ids.append({"k": 0, **columns})
        renamed[number] = {new: old for new, old in former.items() if new != old}
    versions = [
        TableSchema("d", "t", 1, number, tuple(Column(name, DataType("int")) for name in columns))
        for number, columns in enumerate(ids)
    ]
    return versions, ids, renamed


def test_columns_keep_their_rows_through_any_renames() -> None:
    """TiDB's ids of columns are the plain twin: a table finds them by its moves, and takes the same steps."""
    random = Random(7)
    for _ in range(300):
        versions, ids, renamed = random_versions(random)
        done = reconcile(versions, None, renamed=renamed, on_ddl=DdlPolicy(OnDdl.EVOLVE))
        assert done.refused == {}
        last = {i: name for name, i in ids[-1].items()}
        for version, columns in zip(versions, ids, strict=True):
            assert done.lineage.names(version) == {name: last[i] for name, i in columns.items() if i in last}
        held = dict(ids[0])
        for old, new in steps(held, done.memory.moves):
            held |= {new: held.pop(old)}
            held.pop("", None)
        assert held == {last[i]: i for i in ids[0].values() if i in last}


def test_it_makes_no_difference_where_one_batch_ends() -> None:
    random = Random(11)
    for _ in range(300):
        versions, _, renamed = random_versions(random)
        cut = random.randint(1, len(versions) - 1)
        whole = reconcile(versions, None, renamed=renamed, on_ddl=DdlPolicy(OnDdl.EVOLVE))
        begun = reconcile(versions[:cut], None, renamed=renamed, on_ddl=DdlPolicy(OnDdl.EVOLVE))
        done = reconcile(versions[cut:], begun.shape, begun.memory, renamed=renamed, on_ddl=DdlPolicy(OnDdl.EVOLVE))
        assert done.refused == {}
        assert set(done.shape.columns) == set(whole.shape.columns)
        for version in versions:
            assert done.lineage.names(version) == whole.lineage.names(version)


def test_rows_of_before_a_tables_first_row_land_in_the_right_columns() -> None:
    """They come late: statements have told what became of their columns before the table had any row."""
    random, evolve = Random(13), DdlPolicy(OnDdl.EVOLVE)
    for _ in range(300):
        versions, ids, renamed = random_versions(random)
        cut = random.randint(1, len(versions) - 1)
        before, after = versions[:cut], versions[cut:]
        made = reconcile(after, None, renamed=renamed, on_ddl=evolve, earlier=before)
        assert set(made.shape.columns) == set(reconcile(after, None, renamed=renamed, on_ddl=evolve).shape.columns)
        late = random.sample(before, random.randint(1, len(before)))
        done = reconcile(late, made.shape, AppliedVersions.from_text(made.memory.text()), on_ddl=evolve)
        assert (done.refused, done.shape.columns.keys()) == ({}, made.shape.columns.keys())
        last = {i: name for name, i in ids[-1].items()}
        for version in late:
            columns = ids[version.version]
            assert done.lineage.names(version) == {name: last[i] for name, i in columns.items() if i in last}


def test_rows_land_in_the_right_columns_wherever_partitions_are_behind() -> None:
    """Statements come to both partitions, rows to one of them, and batches end anywhere.

    Of each row the table has TiDB's id of the column that a value was sent in; a column that is added has null.
    """
    random, evolve = Random(17), DdlPolicy(OnDdl.EVOLVE)
    for _ in range(300):
        versions, ids, renamed = random_versions(random)
        partitions = [[(version, False) for version in versions] for _ in range(2)]
        for version in random.choices(versions, k=5):
            partition = random.choice(partitions)
            partition.insert(partition.index((version, False)) + 1, (version, True))
        told, memory, present = list[TableSchema](), AppliedVersions(), None
        rows: list[tuple[int, dict[str, int | None]]] = []
        for batches_left in (3, 2, 1):
            cuts = [len(part) if batches_left == 1 else random.randint(0, len(part)) for part in partitions]
            batch = [message for part, cut in zip(partitions, cuts, strict=True) for message in part[:cut]]
            partitions = [part[cut:] for part, cut in zip(partitions, cuts, strict=True)]
            sent = [version for version, is_row in batch if is_row]
            shown = [version for version, is_row in batch if not is_row]
            told = shown if present else list(dict.fromkeys([*told, *shown]))
            if not sent and not (present and shown):
                continue
            first = min([*(v.version for v in sent), *([memory.newest.version] if memory.newest else [])])
            done = reconcile(
                [*sent, *(v for v in told if v.version >= first)],
                present,
                memory,
                renamed={v.version: renamed.get(v.version, {}) for v in told},
                on_ddl=evolve,
                earlier=[v for v in told if v.version < first],
            )
            assert done.refused == {}
            for _, row in rows:
                for old, new in steps(present.columns if present else (), done.moves):
                    row[new] = row.pop(old)
                    row.pop("", None)
                row.update({name: None for name in done.shape.columns if name not in row})
            for version in sent:
                names = {now: was for was, now in done.lineage.names(version).items()}
                of_version = ids[version.version]
                rows.append(
                    (version.version, {n: of_version[names[n]] if n in names else None for n in done.shape.columns})
                )
            present, memory = done.shape, AppliedVersions.from_text(done.memory.text())
        assert len(rows) == 5
        for number, row in rows:
            there = {*ids[number].values()}
            assert row == {name: i if i in there else None for name, i in ids[-1].items()}


def test_an_older_version_is_refused_whose_columns_were_renamed_since() -> None:
    first, second, third = int_table(1, "a", "b"), int_table(2, "a", "c"), int_table(3, "a", "c", "b")
    made = reconcile([second, third], None, on_ddl=DdlPolicy(OnDdl.EVOLVE))
    done = reconcile([first, second, third], made.shape, made.memory, renamed={2: {"c": "b"}})
    assert done.refused == {
        first: "a version from before those in the table, which does not fit them: b was renamed since"
    }
    assert done.shape == made.shape


def test_a_version_that_comes_with_ids_and_without_is_one() -> None:
    first, second = int_table(1, "a", "b"), int_table(2, "b", "a")
    with_ids = [
        replace(version, columns=tuple(replace(c, id=n) for n, c in enumerate(version.columns, 1)))
        for version in (first, second)
    ]
    for given in ([*with_ids, first, second], [first, second, *with_ids]):
        done = reconcile(given, None, renamed={2: {"a": "b", "b": "a"}}, on_ddl=DdlPolicy(OnDdl.EVOLVE))
        assert done.refused == {}
        assert [done.lineage.names(version)["a"] for version in (first, with_ids[0])] == ["b", "b"]
    other = int_table(3, a=DataType("varchar", "utf8mb4"), b=DataType("int"))
    twin = replace(other, columns=tuple(replace(c, id=n) for n, c in enumerate(other.columns, 1)))
    assert reconcile([first, other, twin], None).refused.keys() == {other, twin}


def test_a_name_that_differs_from_a_kept_columns_in_its_letters_is_refused() -> None:
    first, second, third = int_table(1, "B"), int_table(2), int_table(3, "b")
    done = reconcile([first, second, third], None)
    assert done.refused == {third: "column b is called like column B, which the table keeps"}
    assert reconcile([first, third], None, on_ddl=DdlPolicy(OnDdl.EVOLVE)).refused == {}  # it is only spelled anew


def int_table(version: int, *columns: str, **types: DataType) -> TableSchema:
    kinds = {"id": DataType("int"), **dict.fromkeys(columns, DataType("int")), **types}
    return TableSchema("d", "t", 1, version, tuple(Column(name, kind) for name, kind in kinds.items()))


def test_a_name_that_becomes_another_columns_is_not_taken_where_changes_are_ignored() -> None:
    swap = {2: {"a": "b", "b": "a"}}
    first, second, third = (int_table(number, "a", "b") for number in (1, 2, 3))
    done = reconcile([first, second, third], None, renamed=swap, on_ddl=DdlPolicy(OnDdl.IGNORE))
    assert done.refused == {second: "a is another column now", third: "a is another column now"}


def test_values_that_a_change_alters_are_not_taken_where_changes_are_ignored() -> None:
    """Nor what comes after it, although the type is as before."""
    versions = [int_table(n, at=DataType("datetime", decimal=digits)) for n, digits in enumerate((6, 0, 6))]
    done = reconcile(versions, None, on_ddl=DdlPolicy(OnDdl.IGNORE))
    told = "column at lost digits after the point, in rows too that no message shows"
    assert done.refused == dict.fromkeys(versions[1:], told)


@pytest.mark.parametrize("words", ["lenient", ("evolve", "rename-column=lenient")])
def test_a_renamed_column_that_is_added_has_no_default_in_older_rows(replica: Replica, words: Any) -> None:
    """They have the old column's value at the source. What is added later has its default in them all the same."""
    number: Said = {"nullable": False, "default": "8"}
    first = replica.change("CREATE TABLE t (id int, a int)", ID, column("a", **number))
    replica.put(first, id=1, a=3)
    replica.run(ddl=words)
    second = replica.change("ALTER TABLE t RENAME COLUMN a TO b", ID, column("b", **number))
    replica.put(second, id=2, b=4)
    (done,) = replica.run(ddl=words).tables
    assert "column b: null in rows that are older than it, as nothing tells their value" in done.warnings
    replica.put(replica.change("ALTER TABLE t ADD c int", ID, column("b", **number), column("c", **number)), id=3, b=5)
    for to in ("to", "at once"):
        replica.run(to, ddl=words)
        found = [(row["id"], row.get("a"), row["b"], row["c"]) for row in replica.rows(to)]
        assert sorted(found) == [(1, 3 if words == "lenient" else None, None, 8), (2, None, 4, 8), (3, None, 5, None)]


def test_a_type_that_the_table_has_no_room_for_keeps_out_no_rows_of_before() -> None:
    """The table keeps the room of a type that became narrower."""
    kinds = [DataType("bigint"), *(DataType("decimal", length=n, decimal=m) for n, m in ((12, 0), (14, 2)))]
    first, second, third = (int_table(n, a=kind) for n, kind in enumerate(kinds))
    told = {third: "column a changed from bigint to decimal(14,2)"}
    assert reconcile([first, second, third], None).refused == told
    made = reconcile([first, second], None)
    assert reconcile([second, third], made.shape, made.memory).refused == told


def test_a_kept_column_that_comes_again_is_told() -> None:
    versions = [int_table(1, "a"), int_table(2), int_table(3, "a")]
    assert reconcile(versions, None).again == ["a"]
    assert reconcile(versions[:2], None).again == []


_OF_BYTES = {name: DataType(name, length=length) for name, length in (("varbinary", 8), ("blob", 65535))}


def _text(kind: str, length: int) -> DataType:
    return DataType(kind, "utf8mb4", "utf8mb4_bin", length)


def _binary(length: int) -> DataType:
    return DataType("binary", length=length)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (_binary(4), _binary(8), "column a is 8 bytes long now, not 4"),
        (_binary(8), _binary(4), "column a is 4 bytes long now, not 8"),
        (DataType("char", length=4), _binary(8), "column a is 8 bytes long now, not 4"),
        (_OF_BYTES["varbinary"], _binary(8), "column a is always 8 bytes long now"),
        (_OF_BYTES["blob"], _binary(4), "column a is always 4 bytes long now"),
        (_text("varchar", 20), _text("char", 20), "column a lost the blanks at the ends of its texts"),
        (_text("text", 65535), _text("char", 20), "column a lost the blanks at the ends of its texts"),
    ],
)
def test_values_that_are_laid_out_anew_are_not_taken(before: DataType, after: DataType, cause: str) -> None:
    first, second = int_table(1, a=before), int_table(2, a=after)
    told = f"{cause}, in rows too that no message shows"
    assert reconcile([first, second], None).refused == {second: told}
    assert reconcile([first, second], None, on_ddl=DdlPolicy(OnDdl.IGNORE)).refused == {second: told}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_binary(8), _OF_BYTES["varbinary"]),
        (_OF_BYTES["varbinary"], DataType("varbinary", length=20)),
        (_OF_BYTES["varbinary"], _OF_BYTES["blob"]),
        (_OF_BYTES["blob"], DataType("longblob", length=2**32 - 1)),
        (_text("varchar", 20), _text("varchar", 50)),
        (_text("char", 10), _text("char", 20)),
        (_text("char", 10), _text("varchar", 10)),
        (_text("text", 65535), _text("longtext", 2**32 - 1)),
    ],
)
def test_other_lengths_that_change_no_value_are_taken(before: DataType, after: DataType) -> None:
    assert reconcile([int_table(1, a=before), int_table(2, a=after)], None).refused == {}


@pytest.mark.parametrize("unknown", [0, -1])
@pytest.mark.parametrize("known", [_binary(8), _text("char", 8), _OF_BYTES["varbinary"]])
def test_an_unknown_length_is_no_change(known: DataType, unknown: int) -> None:
    """A row may tell less of its type than the statement before it: another type of its kind, without a length."""
    names = ("binary", "varbinary", "blob") if known.kind.value == "binary" else ("char", "varchar", "text")
    for name in names:
        told = DataType(name, known.charset, known.collate, unknown)
        for versions in ([told, known], [known, told], [known, told, known]):
            tables = [int_table(n, a=kind) for n, kind in enumerate(versions, 1)]
            assert reconcile(tables, None).refused == {}


def test_rows_whose_binary_key_was_filled_up_are_dead_letters(replica: Replica) -> None:
    def key(length: int) -> Said:
        return {**column("id", "binary", length), "nullable": False}

    first = replica.change("CREATE TABLE `d`.`t` (`id` BINARY(4) PRIMARY KEY, `v` INT)", key(4), column("v"))
    replica.put(first, id="YQAAAA==", v=1)
    replica.run()
    longer = replica.change("ALTER TABLE `d`.`t` MODIFY `id` BINARY(8) NOT NULL", key(8), column("v"))
    replica.put(longer, id="YQAAAAAAAAA=", v=2)
    assert replica.run().dead_letters == {"schema-change": 1}
    assert replica.refused() == ["column id is 8 bytes long now, not 4, in rows too that no message shows"]
    assert replica.rows() == [{"id": b"a\0\0\0", "v": 1}]


def keyed(version: int, kind: DataType) -> TableSchema:
    primary = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))
    return TableSchema("d", "t", 1, version, (Column("id", kind, nullable=False),), (primary,))


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (_binary(4), _binary(8), "id is 8 bytes long now, not 4"),
        (DataType("bit", length=4), DataType("bit", length=12), "id is 2 bytes long now, not 1"),
        (_text("varchar", 20), _text("char", 20), "id lost the blanks at the ends of its texts"),
        (_binary(4), _binary(0), None),
        (_binary(8), _OF_BYTES["varbinary"], None),
        (_text("char", 20), _text("varchar", 20), None),
    ],
)
def test_deletes_by_keys_that_are_laid_out_anew_are_not_taken(
    before: DataType, after: DataType, cause: str | None
) -> None:
    """They would find no row, also where they come late, from before the table's newest version."""
    first, second = keyed(1, before), keyed(2, after)
    told = cause and f"deletes by a key of another type: {cause}"
    assert delete_objection(reconcile([first], None), second) == told
    assert delete_objection(reconcile([second], None), first) == told
