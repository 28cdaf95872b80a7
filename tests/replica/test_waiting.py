"""Tables that are told of and have no rows: they are made empty, once, and follow their schema to the first row."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpointed import Replica
from crash_points import CrashPoints, Killed
from full import FULL, full
from growing_topic import ID, PRIMARY, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast._errors import TableRefused
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_N = {**ID, "name": "n", "nullable": True}
_TEXT = {**_N, "dataType": {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 20}}


def _create(name: str = "t", at: int = 0, *columns: Said, database: str = "d", sql: str = "") -> Said:
    said = table(_T0 + at, *(columns or (ID, _N)), name=name, database=database)
    return ddl(sql or f"CREATE TABLE `{database}`.`{name}` (`id` INT)", _T0 + at, said)


def _alter(at: int, *columns: Said, name: str = "t", **more: Any) -> Said:
    said = table(_T0 + at, *columns, name=name) | more
    return ddl(f"ALTER TABLE `d`.`{name}` ADD COLUMN `c` INT", _T0 + at, said)


def _drop(at: int, name: str = "t") -> Said:
    return ddl(f"DROP TABLE `d`.`{name}`", _T0 + at, table(_T0, ID, _N, name=name)) | {"type": "ERASE"}


def _rename(at: int, old: str, new: str) -> Said:
    return ddl(f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", _T0 + at, table(_T0 + at, ID, _N, name=new))


def _row(at: int, n: int, version: int = 0, name: str = "t", **more: Any) -> Said:
    return row(_T0 + at, _T0 + version, name=name, id=n, **{"n": n, **more})


def _bootstrap(name: str, at: int) -> Said:
    return {
        "version": 1,
        "type": "BOOTSTRAP",
        "commitTs": 0,
        "buildTs": 1,
        "tableSchema": table(_T0 + at, ID, name=name),
    }


_DROP_E = ddl("DROP DATABASE `e`", _T0 + 20, {}) | {"type": "QUERY", "tableSchema": None}


def _tables(replica: Replica) -> dict[str, list[str]]:
    """The tables that there are, and their columns; that none has a row, `prove` tells besides."""
    folders = sorted(Path(replica.to, "d").glob("*/_delta_log"))
    found = {log.parent.name: replica.spark.read.format("delta").load(str(log.parent)) for log in folders}
    assert all(verdict == "equal" for verdict in replica.proven().values())
    assert {name.partition(".")[2] for name in replica.proven()} == set(found)
    return {name: frame.columns for name, frame in found.items()}


def _version(replica: Replica, name: str = "t") -> int:
    return len(list(Path(replica.to, "d", name, "_delta_log").glob("*.json")))


_METADATA = {
    "current": [],
    "soft-delete": ["_commit_ts", "_deleted"],
    "history": ["_valid_from", "_valid_to"],
    "log": ["_commit_ts", "_offset", "_op", "_partition", "_timestamp", "_topic", "_verdict"],
}


@pytest.mark.parametrize("mode", [pytest.param(m, marks=() if m == "current" else full) for m in _METADATA])
def test_what_is_told_of_is_there(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    replica = Replica(spark, tmp_path, mode=mode, ddl="lenient", resolved_only=True)
    plain = _create("plain") | {"tableSchema": table(_T0, _N, name="plain") | {"indexes": []}}
    others = [
        _create("copy", 1, sql="CREATE TABLE `d`.`copy` LIKE `d`.`t`"),
        _create("v", 1, sql="CREATE VIEW `d`.`v` AS SELECT 1"),
        _create("tmp", 1, sql="CREATE GLOBAL TEMPORARY TABLE `d`.`tmp` (`id` INT) ON COMMIT DELETE ROWS"),
        _create("seq", 1, sql="CREATE SEQUENCE `d`.`seq`"),
        _bootstrap("there", 1),
    ]
    told = [_create(), plain, *others, watermark(_T0 + 5)]
    replica.run(told)
    made = _METADATA[mode]
    expected = {"copy": ["id", "n", *made], "plain": ["n", *made], "t": ["id", "n", *made], "there": ["id", *made]}
    assert {name: sorted(columns) for name, columns in _tables(replica).items()} == {
        name: sorted(columns) for name, columns in expected.items()
    }
    assert tidecast.compare(replica.topic.uri, replica.to, spark=spark).ok
    snapshot = tidecast.snapshot(replica.to, _T0 + 5, spark=spark)
    assert snapshot.table("d.copy").count() == 0
    replica.run(told)
    assert {_version(replica, name) for name in expected} == {1}
    rows = [_row(11, 1), row(_T0 + 12, _T0, name="plain", n=1), _row(13, 1, 1, name="copy")]
    replica.run([*rows, watermark(_T0 + 20)])
    replica.run([_row(21, 2), row(_T0 + 22, _T0, name="plain", n=2), watermark(_T0 + 30)])
    assert [len(replica.rows(f"d/{name}")) for name in expected] == [1, 2, 2, 0]
    assert set(replica.proven().values()) == {"equal"}
    assert tidecast.compare(replica.topic.uri, replica.to, spark=spark).ok


@full
def test_it_follows_any_change_until_its_first_row(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run([_create(), _create("k")])
    other_key = {"indexes": [{**PRIMARY, "columns": ["k"]}]}
    changes = [_alter(10, ID, _TEXT), _alter(10, {**ID, "name": "k"}, _TEXT, name="k", **other_key)]
    assert replica.run(changes).warnings == ()
    replica.run([_create(), *changes[:1]], [_create(), _alter(5, ID, name="t")])  # older ones change nothing
    assert _tables(replica) == {"k": ["k", "n"], "t": ["id", "n"]}
    replica.run([_alter(20, ID, name="k", indexes=[])])
    replica.run([_row(21, 1, 10), row(_T0 + 22, _T0 + 20, name="k", id=3)], [_create("k"), _row(12, 2, 10)])
    replica.run([row(_T0 + 23, _T0 + 20, name="k", id=3)])
    assert (replica.rows("d/t"), replica.rows("d/k")) == ([(1, "1"), (2, "2")], [(3,), (3,)])
    assert set(replica.proven().values()) == {"equal"}
    with pytest.raises(TableRefused, match="its schema changed"):
        replica.run([_alter(30, ID, _N)])


@full
def test_a_delete_may_come_before_the_first_row(spark: SparkSession, tmp_path: Path) -> None:
    for mode in ("history", "current") if FULL else ("history",):
        replica = Replica(spark, tmp_path / mode, mode=mode)
        replica.run([_create()])
        replica.run([row(_T0 + 20, _T0, kind="DELETE", id=1, n=1)])
        replica.run([], [_row(10, 1), _row(11, 2)])
        rows = {"current": [(2, 2)], "history": [(1, 1, _T0 + 10, _T0 + 20), (2, 2, _T0 + 11, None)]}
        assert sorted(replica.rows("d/t")) == rows[mode]
        assert replica.proven() == {"d.t": "equal"}


def test_what_comes_again_brings_no_table_back(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="try_evolve")
    told = [_create(), _create("old"), _create("gone"), _bootstrap("gone", 0)]
    replica.run(told)
    replica.run([_drop(20), _rename(20, "old", "new"), _DROP_E])
    assert _tables(replica) == {"gone": ["id", "n"], "new": ["id", "n"]}
    replica.run([_drop(20, "gone")], [*told, _drop(20), _create("late", database="e")])
    replica.run([], [*told, _alter(5, ID, name="gone"), _alter(30, ID, name="gone"), _rename(20, "old", "new")])
    assert _tables(replica) == {"new": ["id", "n"]}
    assert not Path(replica.to, "e").exists()
    replica.run([_create("gone", 40, ID), _drop(20, "gone")], [_drop(20, "gone"), _create("gone", 40, ID)])
    replica.run([*told, _drop(20, "gone")])
    assert _tables(replica) == {"gone": ["id"], "new": ["id", "n"]}
    replica.run([_row(41, 1, 20, "new")])
    assert replica.rows("d/new") == [(1, 1)]
    once = str(tmp_path / "once")
    replica.run(to=once, checkpoint=None)
    assert sorted(folder.name for folder in Path(once, "d").iterdir()) == ["gone", "new"]


def test_what_comes_again_brings_no_table_back_where_nothing_is_carried_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    replica = Replica(spark, tmp_path, ddl="ignore")
    told = [_create(), _create("old")]
    replica.run([_rename(20, "old", "new"), _drop(20)], told)
    replica.run(told, [_alter(30, ID, name="new"), _bootstrap("new", 20), _bootstrap("t", 0)])
    assert not Path(replica.to, "d").exists()
    replica.run([_create(at=40)])
    assert _tables(replica) == {"t": ["id", "n"]}
    replica.run([_drop(50), _create(at=60, name="t")], told)  # of a table that waits, too
    assert _version(replica) == 2


def test_a_table_that_somebody_else_filled_is_one_as_any(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run([_create()])
    spark.sql(f"INSERT INTO delta.`{replica.to}/d/t` VALUES (7, 7)")
    replica.run([_alter(10, ID, _N, {**_N, "name": "c"}), _row(11, 1, 10, c=1)])
    assert replica.rows("d/t") == [(1, 1, 1), (7, 7, None)]
    assert replica.proven() == {"d.t": "differs"}


def test_the_word_for_new_tables_counts(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    with pytest.raises(TableRefused, match="it is new"):
        replica.run([_create()], ddl="create-table=exception")
    replica.run(ddl=["evolve", "create-table=ignore"])
    assert not Path(replica.to, "d").exists()


def test_shards_become_one_table_with_the_columns_of_all(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(
        '[[route]]\nmatcher = ["d.t*"]\ntarget-table = "all"\n'
        '[[mask]]\nmatcher = ["d.*"]\ncolumns = ["n"]\naction = "hash"\nsalt = "pepper"\n'
    )
    replica = Replica(spark, tmp_path / "run", ddl="lenient", config=config)
    replica.run([_create("t1"), _create("t2", 1, ID, _N, {**_N, "name": "c"}), _create("t3", 2)])
    assert _tables(replica) == {"all": ["id", "n", "c"]}
    assert spark.read.format("delta").load(f"{replica.to}/d/all").schema["n"].dataType.simpleString() == "string"
    replica.run([_row(10, 1, name="t1"), _row(10, 2, 1, name="t2", c=2)])
    assert [(id_, c) for id_, _, c in replica.rows("d/all")] == [(1, None), (2, 2)]


def test_a_name_that_no_place_can_have_stops_only_evolve(spark: SparkSession, tmp_path: Path) -> None:
    replica, name = Replica(spark, tmp_path, ddl="lenient"), "x" * 256
    (warning,) = replica.run([_create(), _create(name)]).warnings
    assert warning.startswith(f"d.{name}: it is not made without a row: no folder can have a name of 256 bytes")
    assert _tables(replica) == {"t": ["id", "n"]}
    with pytest.raises(TableRefused, match="no folder can have a name of 256 bytes"):
        Replica(spark, tmp_path / "evolve").run([_create(name)])


@pytest.mark.parametrize("format_", ["iceberg", pytest.param("delta", marks=full)])
def test_in_a_catalog(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    catalog = {"iceberg": "waiting", "delta": "spark_catalog"}[format_]
    if format_ == "iceberg":
        setting = f"spark.sql.catalog.{catalog}"
        for name, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}.items():
            spark.conf.set(setting + name, value)
        spark.conf.set(f"{setting}.warehouse", str(tmp_path / "lake"))
    replica = Replica(spark, tmp_path, to=catalog, dead_letters=tmp_path / "letters")
    replica.to = catalog
    log = _create("log", database="w") | {"tableSchema": table(_T0, _N, name="log", database="w") | {"indexes": []}}
    try:
        replica.run([_create(database="w"), log, _create("old", database="w")])
        names = {one.tableName for one in spark.sql(f"SHOW TABLES IN {catalog}.w").collect()}
        assert (names, set(replica.proven().values())) == ({"t", "log", "old"}, {"equal"})
        text = _alter(10, ID, _TEXT)
        text["tableSchema"]["schema"] = "w"
        named = ddl("RENAME TABLE `w`.`old` TO `w`.`new`", _T0 + 10, table(_T0, ID, name="new", database="w"))
        replica.run([text, named])
        assert spark.table(f"{catalog}.w.t").schema["n"].dataType.simpleString() == "string"
        assert not spark.catalog.tableExists(f"{catalog}.w.old")
        rows = [row(_T0 + 21, _T0 + 10, database="w", id=1, n=1), row(_T0 + 22, _T0, database="w", name="log", n=1)]
        replica.run(rows)
        replica.run([row(_T0 + 23, _T0 + 10, database="w", id=2, n=2)])
        found = (sorted(map(tuple, spark.table(f"{catalog}.w.{name}").collect())) for name in ("t", "log"))
        assert list(found) == [[(1, "1"), (2, "2")], [(1,)]]
        assert set(replica.proven().values()) == {"equal"}
    finally:
        for database in ("w", "_tidecast") if format_ == "delta" else ():
            spark.sql(f"DROP DATABASE IF EXISTS {catalog}.{database} CASCADE")


@full  # tests/faults does so with such tables among others
def test_a_kill_does_not_show(spark: SparkSession, tmp_path: Path) -> None:
    clean, run = tmp_path / "clean", tmp_path / "run"
    replica = Replica(spark, run)
    batches = [
        [_create(), _create("old"), _create("k")],
        [_alter(10, ID, _TEXT), _rename(10, "old", "new"), _drop(10, "k"), _create("k", 20, ID)],
        [_row(21, 1, 10), _create(), _create("old"), _create("k", 20, ID)],
    ]
    expected = [{"t": 0, "old": 0, "k": 0}, {"t": 0, "new": 0, "k": 0}, {"t": 1, "new": 0, "k": 0}]
    for batch, tables in zip(batches, expected, strict=True):
        replica.topic.deliver((0, one) for one in batch)
        shutil.rmtree(clean, ignore_errors=True)
        shutil.copytree(run, clean)
        with CrashPoints(run).watching() as watched:
            replica.run()
        points = [p for p in watched.points if "/d/" in p[0] or "/proof/" in p[0] or "_tidecast" in p[0]]
        points = [p for p in points if p[0].startswith(("sql", "create", "save", "rmtree", "rename", "append"))]
        for point in points:
            for name in ("tables", "checkpoint"):
                shutil.rmtree(run / name, ignore_errors=True)
                if (clean / name).exists():
                    shutil.copytree(clean / name, run / name)
            with CrashPoints(run, point).watching(), pytest.raises(Killed):
                replica.run()
            replica.run()
            assert {name: len(replica.rows(f"d/{name}")) for name in _tables(replica)} == tables, point


def test_what_was_told_before_the_first_row_counts_for_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Statements come to every partition, rows to one, which may be behind."""
    replica, columns = Replica(spark, tmp_path, ddl="try_evolve"), {name: {**_N, "name": name} for name in "abcx"}

    def altered(at: int, sql: str, *names: str, **defaults: str) -> Said:
        shown = ({**columns[name], "default": defaults.get(name)} for name in names)
        return ddl(f"ALTER TABLE `d`.`t` {sql}", _T0 + at, table(_T0 + at, ID, *shown))

    create = ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, columns["a"], columns["b"]))
    told = [
        create,
        altered(10, "RENAME COLUMN `a` TO `x`", "x", "b"),
        altered(20, "RENAME COLUMN `b` TO `a`", "x", "a"),
        altered(30, "RENAME COLUMN `x` TO `b`", "b", "a"),
        altered(40, "ADD COLUMN `c` INT DEFAULT 5", "b", "a", "c", c="5"),
        altered(50, "ALTER COLUMN `c` SET DEFAULT 7", "b", "a", "c", c="7"),
    ]
    replica.run(told[:3])
    replica.run(told[3:])
    assert _tables(replica) == {"t": ["id", "b", "a", "c"]}
    late = row(_T0 + 1, _T0, id=1, a=1, b=2)
    assert replica.run([], [create, late]).warnings == ()
    replica.run([], [*told[1:], row(_T0 + 51, _T0 + 50, id=2, a=3, b=4, c=6)])
    found = spark.read.format("delta").load(f"{replica.to}/d/t").select("id", "a", "b", "c")
    assert sorted(found.collect()) == [(1, 2, 1, 5), (2, 3, 4, 6)]
    assert replica.proven() == {"d.t": "equal"}


def test_a_key_that_was_told_before_the_first_row_comes_with_its_own(spark: SparkSession, tmp_path: Path) -> None:
    replica, other = Replica(spark, tmp_path), {**_N, "nullable": False}
    create = ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, other))
    by_n = {"indexes": [{**PRIMARY, "columns": ["n"]}]}
    sql = "ALTER TABLE `d`.`t` DROP PRIMARY KEY, ADD PRIMARY KEY (`n`)"
    key = ddl(sql, _T0 + 10, table(_T0 + 10, ID, other) | by_n)
    replica.run([create, key])
    replica.run([], [create, row(_T0 + 1, _T0, id=1, n=5)])
    assert replica.rows("d/t") == [(1, 5)]
    replica.run([], [key, row(_T0 + 11, _T0 + 10, id=2, n=5), row(_T0 + 12, _T0 + 10, id=2, n=6)])
    assert replica.rows("d/t") == [(2, 5), (2, 6)]
