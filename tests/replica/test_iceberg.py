"""Iceberg tables of a Hadoop catalog, read by Spark and by pyiceberg, against Delta tables of the same topics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from full import full
from golden_data import Table
from golden_events import GoldenEvents
from growing_topic import ID, ChangingTable, Said, ddl, row, table, watermark
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import tidecast
from tidecast._errors import ConfigError, TableRefused, TerminalError
from tidecast.model import compose
from tidecast.replica.targets import parse_target
from tidecast.replica.targets.iceberg import IcebergTarget
from tidecast.replica.targets.iceberg._names import shown_name, stored_name
from tidecast.replica.targets.iceberg._table import is_promotion
from tidecast.spark import sql_name

_T0 = compose(1_700_000_000_000)
_numbers = count()

Row = dict[str, Any]


def column(name: str, kind: str = "int", length: int = 11, scale: int = 0, **more: Any) -> Said:
    data_type = {"mysqlType": kind, "charset": "binary", "collate": "binary", "length": length, "decimal": scale}
    return {"name": name, "dataType": data_type, "nullable": True, "default": None, **more}


def keyless(version: int, *columns: Said, name: str = "k") -> Said:
    """The schema of a table without a key."""
    return {**table(version, *columns, name=name), "tableID": 8, "indexes": []}


class Lake:
    """A catalog of Iceberg tables, and what its tables hold."""

    def __init__(self, spark: SparkSession, name: str, folder: Path) -> None:
        self.spark, self.name, self.folder = spark, name, folder
        setting = f"spark.sql.catalog.{name}"
        spark.conf.set(setting, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{setting}.type", "hadoop")
        spark.conf.set(f"{setting}.warehouse", str(folder))

    def sql_name(self, database: str = "d", name: str = "t") -> str:
        return ".".join(map(sql_name, (self.name, database, name)))

    def metadata(self, database: str = "d", name: str = "t") -> list[str]:
        """The metadata files of a table, one for each commit, the newest one last."""
        files = (self.folder / database / name / "metadata").glob("*.metadata.json")
        return sorted(map(str, files), key=lambda file: int(re.findall(r"v(\d+)\.", file)[-1]))

    def newest(self, database: str = "d", name: str = "t") -> Any:
        """The metadata of a table as they lie there."""
        return json.loads(Path(self.metadata(database, name)[-1]).read_text())

    def rows(self, database: str = "d", name: str = "t") -> list[Row]:
        """The rows of a table as Spark reads them, which must be those that pyiceberg reads."""
        found = in_order(self.spark.table(self.sql_name(database, name)).toArrow().to_pylist())
        static = StaticTable.from_metadata(self.metadata(database, name)[-1])
        assert in_order(static.scan().to_arrow().to_pylist()) == found
        return found

    def data_files(self, database: str = "d", name: str = "t") -> set[str]:
        """The files of rows that there are, needed or not."""
        files = (self.folder / database / name / "data").glob("*.parquet")
        return {file.name for file in files if not file.name.endswith("-deletes.parquet")}

    def kinds_of_files(self, database: str = "d", name: str = "t") -> set[int]:
        """0 for rows, 1 for position deletes, 2 for equality deletes."""
        files = self.spark.table(f"{self.sql_name(database, name)}.all_files").select("content").collect()
        return {file["content"] for file in files}


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(list(row.values())))


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, f"lake{next(_numbers)}", tmp_path / "lake")


class Replica(ChangingTable):
    """A growing topic, and the Iceberg tables that it becomes."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        super().__init__(folder / "topic", _T0)
        self._lake, self._folder = lake, folder

    def run(self, to: str = "", **options: Any) -> tidecast.Replicated:
        """Apply the topic to the catalog, or to Delta tables in a folder."""
        options.setdefault("dead_letters", str(self._folder / "letters"))
        to = str(self._folder / to) if to else self._lake.name
        return tidecast.replicate(self.topic.uri, to, spark=self._lake.spark, tz="UTC", **options)


@pytest.fixture
def replica(lake: Lake, tmp_path: Path) -> Replica:
    return Replica(lake, tmp_path)


# --- what tables hold -----------------------------------------------------------------------------------------------

_COLUMNS = (ID, {**ID, "name": "n", "nullable": True})
_FIRST = [
    ddl("CREATE TABLE t (id int primary key, n int)", _T0, table(_T0, *_COLUMNS)),
    ddl("CREATE TABLE k (id int, n int)", _T0, keyless(_T0, *_COLUMNS)),
    *(row(_T0 + n, _T0, id=n, n=1) for n in range(1, 7)),
    *(row(_T0 + n, _T0, id=n, n=1, name="k") for n in range(1, 4)),
]
_SECOND = [
    row(_T0 + 11, _T0, kind="DELETE", id=1, n=1),
    row(_T0 + 12, _T0, kind="DELETE", id=2, n=1),
    row(_T0 + 12, _T0, id=2, n=2),
    row(_T0 + 13, _T0, kind="UPDATE", id=3, n=3),
    row(_T0 + 14, _T0, id=7, n=7),
    row(_T0 + 15, _T0, kind="DELETE", id=7, n=7),
    row(_T0 + 16, _T0, id=8, n=8),
    row(_T0 + 17, _T0, id=4, n=4, name="k"),
]


@pytest.mark.parametrize(
    ("session", "mode"),
    [("false", "current"), pytest.param("true", "soft-delete", marks=full), pytest.param("true", "log", marks=full)],
    indirect=["session"],
)
def test_tables_hold_what_they_hold_in_delta(session: SparkSession, lake: Lake, replica: Replica, mode: str) -> None:
    """A topic that comes in two pieces, and then again, which leaves no commit; the Delta tables get it at once."""
    assert lake.spark is session
    replica.topic.grow(_FIRST)
    replica.run(mode=mode)
    replica.topic.grow(_SECOND)
    replica.run(mode=mode)
    before = {name: lake.metadata(name=name) for name in "tk"}
    done = replica.run(mode=mode)
    assert {name: lake.metadata(name=name) for name in "tk"} == before
    assert sum(t.upserted + t.deleted for t in done.tables) == 0

    replica.run("delta", mode=mode)
    for name in "tk":
        folder = replica._folder / "delta" / "d" / name
        expected = lake.spark.read.format("delta").load(str(folder)).toArrow().to_pylist()
        stored = [{stored_name(key): value for key, value in found.items()} for found in expected]
        assert lake.rows(name=name) == in_order(stored)
    assert lake.kinds_of_files() == ({0} if mode == "log" else {0, 1})
    assert lake.newest()["format-version"] == 2


@full
def test_tables_are_truncated_dropped_and_made_again(
    spark: SparkSession, lake: Lake, replica: Replica, tmp_path: Path
) -> None:
    soft = Lake(spark, f"lake{next(_numbers)}", tmp_path / "soft")
    whole = (table(_T0, *_COLUMNS), keyless(_T0, *_COLUMNS))
    truncated = [ddl(f"TRUNCATE TABLE `d`.`{t['table']}`", _T0 + 10, t) for t in whole]
    kept: dict[str, Any] = {"mode": "soft-delete", "dead_letters": str(tmp_path / "letters"), "ddl": "evolve"}
    checkpoint = str(tmp_path / "checkpoint")
    for messages in (_FIRST, [*truncated, *_SECOND]):
        replica.topic.grow(messages)
        replica.run(checkpoint=checkpoint, ddl="evolve")
        tidecast.replicate(replica.topic.uri, soft.name, spark=spark, **kept)
    assert lake.rows() == [{"id": n, "n": n} for n in (2, 3, 8)]
    assert lake.rows(name="k") == [{"id": 4, "n": 4}]
    live = spark.table(soft.sql_name()).where("NOT `_deleted_`")
    assert sorted(row.id for row in live.collect()) == [2, 3, 8]
    gone = spark.table(soft.sql_name()).where(f"`_deleted_` AND _commit_ts = {_T0 + 10}")
    assert sorted(row.id for row in gone.collect()) == [4, 5, 6]
    again = table(_T0 + 40, {**ID, "name": "s", "nullable": True}, ID)
    dropped = ddl("DROP TABLE `d`.`t`", _T0 + 30, table(_T0, *_COLUMNS)) | {"type": "ERASE"}
    replica.topic.grow([dropped, ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0 + 41, again)])
    replica.topic.grow([row(_T0 + 42, _T0 + 40, id=1, s=5)])
    replica.run(checkpoint=checkpoint, ddl="evolve")
    assert lake.rows() == [{"s": 5, "id": 1}]
    ordered = table(_T0 + 50, ID, {**ID, "name": "s", "nullable": True})
    replica.topic.grow([ddl("ALTER TABLE `d`.`t` MODIFY COLUMN `id` INT FIRST", _T0 + 50, ordered)])
    renamed = table(_T0 + 50, ID, {**ID, "name": "s", "nullable": True}, name="u")
    replica.topic.grow([ddl("RENAME TABLE `d`.`t` TO `d`.`u`", _T0 + 60, renamed)])
    (warning,) = replica.run(checkpoint=checkpoint, ddl="try_evolve").warnings
    assert "the catalog renames no table" in warning
    assert [list(found.items()) for found in lake.rows()] == [[("id", 1), ("s", 5)]]
    assert tidecast.prove(lake.name, spark=spark).ok


_GOLDEN: set[Table] = {
    *(("orc", name) for name in ("t_all", "t_num", "t_vec", "t_zero", "t_pk_mix", "t_uk_null")),
    ("o-r c.2", "odd té名.1"),
}


@full
def test_every_type_of_mysql(spark: SparkSession, lake: Lake, decoded: GoldenEvents, tmp_path: Path) -> None:
    events = replace(decoded("simple-json").only(_GOLDEN), ddl=(), bootstraps=())
    tidecast.replicate(events, str(tmp_path / "delta"))
    done = tidecast.replicate(events, lake.name, dead_letters=str(tmp_path / "letters"))
    assert {(t.database, t.table) for t in done.tables} == _GOLDEN
    for database, name in _GOLDEN:
        rows = spark.read.format("delta").load(str(tmp_path / "delta" / database / name)).toArrow().to_pylist()
        assert lake.rows(database, name) == in_order(rows)
    assert {type(value) for found in lake.rows("orc", "t_all") for value in found.values()} > {bytes, Decimal, float}


# --- schema changes -------------------------------------------------------------------------------------------------


def test_what_is_metadata_touches_no_file(lake: Lake, replica: Replica) -> None:
    before = (ID, column("a"), column("b", default="5"), column("f", "float", 12), column("d", "decimal", 6, 2))
    first = replica.change("CREATE TABLE `d`.`t`", *before)
    replica.put(first, id=1, a=10, b=100, f="1.5", d="12.34")
    replica.run(ddl="evolve")
    files = lake.data_files()
    after = [ID, column("aa", "bigint"), column("f", "double"), column("d", "decimal", 9, 2), column("b")]
    sql = "ALTER TABLE `d`.`t` RENAME COLUMN `a` TO `aa`, DROP COLUMN `b`"
    replica.change(sql, *after[:-1])
    last = replica.change("ALTER TABLE `d`.`t` ADD COLUMN `b` INT", *after)
    replica.run(ddl="evolve")
    old = {"id": 1, "aa": 10, "f": 1.5, "d": Decimal("12.34"), "b": None}
    assert lake.rows() == [old]
    assert lake.data_files() == files
    replica.put(last, id=2, aa=2**40, f="0.1", d="1234567.89", b=7)
    replica.put(first, id=3, a=30, b=300, f="2", d="1")
    for _ in range(2):
        replica.run(ddl="evolve")
        new = {"id": 2, "aa": 2**40, "f": 0.1, "d": Decimal("1234567.89"), "b": 7}
        late = {"id": 3, "aa": 30, "f": 2.0, "d": Decimal("1.00"), "b": None}
        assert lake.rows() == [old, new, late]
        commits = lake.metadata()
    assert lake.metadata() == commits
    assert files < lake.data_files()

    # What Iceberg has no metadata for: another scale, and a default for the rows that are there.
    after = [*after[:3], column("d", "decimal", 12, 3), column("b"), column("e", default="9")]
    replica.put(
        replica.change("ALTER TABLE `d`.`t` ADD COLUMN `e` INT DEFAULT 9", *after),
        id=3,
        aa=31,
        f="2",
        d="1.125",
        b=1,
        e=1,
    )
    replica.run(ddl="evolve")
    assert lake.rows() == [{**old, "e": 9}, {**new, "e": 9}, {**late, "aa": 31, "d": Decimal("1.125"), "b": 1, "e": 1}]


def test_iceberg_takes_the_promotions_that_are_said_to_be_some(lake: Lake) -> None:
    numbers = [T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(), T.StringType()]
    kinds = [*numbers, *(T.DecimalType(*digits) for digits in ((9, 0), (12, 2), (20, 0), (23, 2), (23, 3)))]
    pairs = [(old, new) for old in kinds for new in kinds if old != new and is_promotion(old, new)]
    schema = T.StructType([T.StructField(f"c{n}", old) for n, (old, _) in enumerate(pairs)])
    place = parse_target(lake.name).table(lake.spark, "d", "t")
    place.create(lake.spark.createDataFrame([], schema), (), {})
    place.widen({f"c{n}": new for n, (_, new) in enumerate(pairs)})
    assert [field.dataType for field in place.read().schema] == [new for _, new in pairs]
    assert len(pairs) == 4


@full
def test_what_each_policy_makes_of_a_change(lake: Lake, replica: Replica) -> None:
    before = (ID, column("a"), column("b", default="5"), column("n", "bigint"))
    after = (ID, column("aa"), column("n"), column("x", default="9"))
    first = replica.change("CREATE TABLE `d`.`t`", *before)
    replica.put(first, id=1, a=10, b=100, n=7)
    replica.run()
    sql = "ALTER TABLE `d`.`t` RENAME COLUMN `a` TO `aa`, DROP COLUMN `b`, ADD COLUMN `x` INT DEFAULT 9"
    last = replica.change(sql, *after)
    replica.put(last, id=2, aa=20, n=8, x=80)
    commits = lake.metadata()
    with pytest.raises(TableRefused, match=r"d\.t: its schema changed: column a renamed to aa"):
        replica.run(ddl="exception")
    assert lake.metadata() == commits
    replica.run(ddl="ignore")
    assert lake.rows() == [{"id": 1, "a": 10, "b": 100, "n": 7}, {"id": 2, "a": None, "b": None, "n": 8}]
    replica.run(ddl="try_evolve")  # what was ignored is made up for
    assert lake.rows() == [{"id": 1, "aa": 10, "n": 7, "x": 9}, {"id": 2, "aa": 20, "n": 8, "x": 80}]
    kept = replica.change("ALTER TABLE `d`.`t` DROP COLUMN `n`", *after[:2], after[3])
    replica.put(kept, id=3, aa=30, x=1)
    assert "column n: kept, and null in new rows" in replica.run().tables[0].warnings[0]
    assert lake.rows()[2] == {"id": 3, "aa": 30, "n": None, "x": 1}
    journal = [(found["type"], found["outcome"]) for found in lake.rows("_tidecast", "schema_changes")]
    assert journal == [
        ("create table", "applied"),
        ("multi schema change", "ignored"),
        ("drop column", "applied"),
    ]


# --- runs that end halfway ------------------------------------------------------------------------------------------


class Crash(Exception):
    """A run that ends."""


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Let each run end before its commit of a number, counted from 0; after all of them with None."""
    left: list[int] = []

    def counted(name: str) -> None:
        real = getattr(IcebergTarget, name)

        def step(self: IcebergTarget, *given: Any) -> Any:
            if "_tidecast" not in self.name and left:
                left[0] -= 1
                if left[0] < 0:
                    raise Crash
            return real(self, *given)

        monkeypatch.setattr(IcebergTarget, name, step)

    for name in ("_alter", "rewrite", "_write"):
        counted(name)

    def at(commits: int | None) -> None:
        left[:] = [] if commits is None else [commits]

    return at


def test_each_run_goes_on_where_another_ended(
    lake: Lake, replica: Replica, crashing: Callable[[int | None], None]
) -> None:
    """Two columns exchange their names, another takes that of a dropped one; then one is added with a default.

    Each run makes one commit, so that one ends at each of them, and none does the work of another again.
    """
    before = (ID, column("a"), column("b"), column("c"), column("d"))
    first = replica.change("CREATE TABLE `d`.`t`", *before)
    replica.put(first, id=1, a=10, b=20, c=30, d=40)
    replica.run()
    files = lake.data_files()
    swapped = (ID, column("b"), column("a"), column("c"), column("d"))
    replica.change("ALTER TABLE `d`.`t` RENAME COLUMN `a` TO `b`, RENAME COLUMN `b` TO `a`", *swapped)
    replica.change("ALTER TABLE `d`.`t` DROP COLUMN `c`", *swapped[:3], column("d"))
    moved = replica.change("ALTER TABLE `d`.`t` CHANGE COLUMN `d` `c` INT", *swapped[:4])

    def finish(last: str) -> int:
        for ended in range(1, 15):
            crashing(1)
            try:
                replica.run(ddl="evolve")
            except Crash:
                continue
            finally:
                crashing(None)
            return ended
        raise AssertionError(last)

    assert finish("renames") == 7
    assert lake.rows() == [{"id": 1, "b": 10, "a": 20, "c": 40}]
    assert lake.data_files() == files
    replica.put(moved, id=2, b=11, a=21, c=41)
    sql = "ALTER TABLE `d`.`t` ADD COLUMN `e` INT DEFAULT 5"
    added = replica.change(sql, *swapped[:4], column("e", default="5"))
    replica.put(added, id=3, b=12, a=22, c=42, e=9)
    assert finish("rewrite") == 2
    assert lake.rows() == [
        {"id": 1, "b": 10, "a": 20, "c": 40, "e": 5},
        {"id": 2, "b": 11, "a": 21, "c": 41, "e": 5},
        {"id": 3, "b": 12, "a": 22, "c": 42, "e": 9},
    ]


def test_rows_without_a_key_are_appended_once(
    lake: Lake, replica: Replica, crashing: Callable[[int | None], None]
) -> None:
    """Whatever a run did, and whoever expired the snapshots that tell of it."""
    replica.topic.grow([_FIRST[1], *_FIRST[8:]])
    crashing(0)
    with pytest.raises(Crash):  # the table is made, without rows
        replica.run()
    assert lake.rows(name="k") == []
    crashing(1)
    with pytest.raises(Crash):  # the rows are there; the property that tells so is not
        replica.run()
    crashing(None)
    expected = [{"id": n, "n": 1} for n in (1, 2, 3)]
    commits = lake.metadata(name="k")
    replica.run()
    assert (lake.rows(name="k"), lake.metadata(name="k")) == (expected, commits)

    # The table is written anew, which no snapshot before it leads to, with rows that no property tells of.
    wide = (*_COLUMNS, {**ID, "name": "m", "nullable": False, "default": "5"})
    replica.topic.grow([ddl("ALTER TABLE k ADD COLUMN m int NOT NULL DEFAULT 5", _T0 + 20, keyless(_T0 + 20, *wide))])
    replica.topic.grow([row(_T0 + 21, _T0 + 20, id=4, n=4, m=4, name="k")])
    replica.run()
    expected = [{**found, "m": 5} for found in expected] + [{"id": 4, "n": 4, "m": 4}]
    assert lake.rows(name="k") == expected

    # Somebody else adds rows, and removes all snapshots but the newest.
    lake.spark.sql(f"INSERT INTO {lake.sql_name(name='k')} VALUES (9, 9, 9)")
    later = "older_than => TIMESTAMP '2999-01-01 00:00:00'"
    lake.spark.sql(f"CALL {lake.name}.system.expire_snapshots(table => 'd.k', {later})").collect()
    assert len(lake.newest(name="k")["snapshots"]) == 1
    replica.topic.grow([row(_T0 + 22, _T0 + 20, id=5, n=5, m=5, name="k")])
    for _ in range(2):
        replica.run()
        assert lake.rows(name="k") == [*expected, {"id": 5, "n": 5, "m": 5}, {"id": 9, "n": 9, "m": 9}]


# --- a replica that goes on -----------------------------------------------------------------------------------------


@full
def test_the_ledger_names_versions_and_small_files_become_large_ones(
    lake: Lake, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidecast.replica.targets.iceberg._table._EXPIRE_AFTER", 2)
    replica.topic.grow(_FIRST)
    for number in range(5):
        replica.topic.grow([row(_T0 + 20 + number, _T0, id=number, n=number), watermark(_T0 + 20 + number)])
        replica.run(checkpoint=str(replica._folder / "checkpoint"), compact_every=2)
        if number == 0:  # as if an older version had written it
            lake.spark.sql(f"ALTER TABLE {lake.sql_name('_tidecast', 'batches')} DROP COLUMN lost")
    name = lake.sql_name()
    batches = sorted(lake.rows("_tidecast", "batches"), key=lambda batch: batch["batch"])
    assert [batch["batch"] for batch in batches] == [1, 2, 3, 4, 5]
    for number, batch in enumerate(batches):
        (made,) = (found for found in batch["tables"] if found["table"] == "t")
        rows = lake.spark.sql(f"SELECT n FROM {name} VERSION AS OF {made['version']} WHERE id = {number}").collect()
        assert [found["n"] for found in rows] == [number]
    commits = lake.spark.table(f"{name}.snapshots").where("operation != 'replace'").orderBy("committed_at").collect()
    told = [json.loads(snapshot["summary"]["tidecast.batch"]) for snapshot in commits]
    assert [said["batch"] for said in told] == [1, 3, 4, 5]  # the second changed nothing
    assert [said["offsets"] for said in told] == [dict(batches[said["batch"] - 1]["offsets"]) for said in told]
    ones = dict.fromkeys(range(7), 1)
    assert {found["id"]: found["n"] for found in lake.rows()} == {**ones, **{n: n for n in range(5)}}
    then = tidecast.snapshot(lake.name, _T0 + 22, spark=lake.spark).table("d.t").collect()
    assert {found["id"]: found["n"] for found in then} == {**ones, **{n: n for n in range(3)}}
    for written in (name, lake.sql_name("_tidecast", "batches")):
        operations = lake.spark.table(f"{written}.snapshots").where("operation = 'replace'").count()
        assert operations >= 2
        assert lake.spark.table(f"{written}.files").where("content = 0").count() <= 2
    assert lake.newest()["properties"]["tidecast.compacted"] == b"2 6".hex()


# --- names ----------------------------------------------------------------------------------------------------------


@full
def test_hostile_names(lake: Lake, replica: Replica) -> None:
    """Names that paths, SQL, Iceberg or Spark's hiding of secrets give a meaning; those of columns may be renamed."""
    names = ["../a:b'`\"\\${env:HOME}", "_tidecast", "snapshots"]
    columns = ["_deleted", "_pos", "_pos_", "_File", "a.b", "url", "password", "q'`\"", "${env:HOME}", ";{}()= \n"]
    for number, name in enumerate(names):
        version = _T0 + number
        shape = [ID, *map(column, columns)]
        said = table(version, *shape, database=name, name=name)
        said["indexes"] = [{**said["indexes"][0], "columns": ["id", "url"]}]
        said["columns"] = [{**c, "nullable": False} if c["name"] == "url" else c for c in said["columns"]]
        replica.topic.grow([ddl("CREATE TABLE", version, said)])
        values: dict[str, Any] = {name: n for n, name in enumerate(columns)}
        replica.topic.grow([row(version + 1, version, database=name, name=name, id=1, **values)])
        replica.topic.grow([row(version + 1, version, database=name, name=name, id=2, **values)])
    assert replica.run().dead_letters == {}
    for number, name in enumerate(names):
        changed: dict[str, Any] = {**values, "_pos": 70, "_File": 71}
        replica.topic.grow([row(_T0 + 10, _T0 + number, kind="UPDATE", database=name, name=name, id=1, **changed)])
    for _ in range(2):
        done = replica.run()
        assert done.dead_letters == {}
        for name in names:
            place = parse_target(lake.name).table(lake.spark, name, name)
            assert in_order([found.asDict() for found in place.read().collect()]) == [
                {"id": 1, **changed},
                {"id": 2, **values},
            ]
    assert sum(t.upserted for t in done.tables) == 0
    folders = {str(file.parent.relative_to(lake.folder)) for file in lake.folder.glob("*/*/metadata")}
    assert {"%5Ftidecast/%5Ftidecast", "_tidecast/schema_changes"} <= folders
    assert not list(lake.folder.parent.glob("a*"))
    assert any(folder.startswith("%2E.%2Fa%3Ab") for folder in folders)
    found = lake.rows("snapshots", "snapshots")
    assert found[0] == {"id": 1, **{stored_name(name): value for name, value in changed.items()}}


@pytest.mark.unit
def test_no_two_columns_become_one() -> None:
    names = [f"{name}{'_' * n}" for name in ("_pos", "_POS", "_file", "pos", "_position", "_row_id") for n in range(3)]
    stored = list(map(stored_name, names))
    assert len(set(stored)) == len(names)
    assert list(map(shown_name, stored)) == names
    assert not {"_pos", "_file", "_row_id", "_POS"} & set(stored)


# --- catalogs that cannot be ----------------------------------------------------------------------------------------


def test_a_catalog_that_spark_cannot_open(spark: SparkSession, replica: Replica) -> None:
    for name, kind, more, error, said in (
        ("nojar", "NoSuchClass", {}, ConfigError, "lacks Iceberg's jar for 'nojar'"),
        ("nowhere", "SparkCatalog", {"type": "hadoop"}, ConfigError, "cannot open catalog 'nowhere': .*warehouse"),
        ("silent", "SparkCatalog", {"type": "rest", "uri": "http://127.0.0.1:1"}, TerminalError, "cannot open"),
    ):
        spark.conf.set(f"spark.sql.catalog.{name}", f"org.apache.iceberg.spark.{kind}")
        for setting, value in more.items():
            spark.conf.set(f"spark.sql.catalog.{name}.{setting}", value)
        with pytest.raises(error, match=said) as caught:
            tidecast.replicate(replica.topic.uri, name, spark=spark, dead_letters="letters")
        assert type(caught.value) is error
