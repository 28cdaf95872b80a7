"""Tables that the source truncates and drops, while rows of before and after come in any order."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from crash_points import CrashPoints, Killed
from full import FULL, full
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast._errors import TableRefused
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_CUT, _DROP, _AGAIN = _T0 + 20, _T0 + 30, _T0 + 40
_N = {**ID, "name": "n", "nullable": True}
_S = {**ID, "name": "s", "nullable": True}
_T, _NEW = (
    table(_T0, ID, _N),
    table(_AGAIN, _S, {**ID, "name": "k"})
    | {"indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["k"]}]},
)
_PLAIN = table(_T0, _N, name="plain") | {"indexes": []}
_CREATED = [ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, _T), ddl("CREATE TABLE `d`.`plain` (`n` INT)", _T0, _PLAIN)]
_TRUNCATED = [ddl(f"TRUNCATE TABLE `d`.`{t['table']}`", _CUT, t | {"tableID": 8}) for t in (_T, _PLAIN)]
_DROPPED = [ddl("DROP TABLE `d`.`t`", _DROP, _T) | {"type": "ERASE"}]

Placed = list[tuple[int, Said]]


def _put(at: int, **data: Any) -> Said:
    return row(_T0 + at, _T0, **data)


def _plain(at: int, n: int) -> Said:
    return row(_T0 + at, _T0, name="plain", n=n)


def _in(partition: int, *messages: Said) -> Placed:
    return [(partition, message) for message in messages]


_BEFORE = [_put(1, id=1, n=1), _plain(1, 1), _put(3, id=3, n=3)], [_put(2, id=2, n=2), _plain(2, 2), _put(4, id=4, n=4)]
_LAST = [_put(11, id=5, n=5)], [_put(12, id=6, n=6), _put(13, id=1, n=9), _plain(13, 3)]
_AFTER = [_put(21, id=1, n=10), _plain(22, 7)], [_put(23, id=7, n=7), row(_T0 + 24, _T0, kind="DELETE", id=7, n=7)]
_BATCHES: list[Placed] = [
    [*_in(0, *_CREATED, *_BEFORE[0]), *_in(1, *_CREATED, *_BEFORE[1])],
    # One partition comes to the statement in the middle of a batch, the other is behind.
    _in(0, *_LAST[0], *_TRUNCATED, *_AFTER[0]),
    # After a restart all of it comes again.
    [
        *_in(1, *_LAST[1], *_TRUNCATED, *_AFTER[1], *_BEFORE[1], *_LAST[1], *_TRUNCATED, *_AFTER[1]),
        *_in(0, *_LAST[0], *_TRUNCATED, *_AFTER[0], _put(25, id=8, n=8)),
    ],
]


class Replica:
    """A topic of two partitions, and its tables, with a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.to = spark, folder, str(folder / "tables")
        self.topic, self.options = GrowingTopic(folder / "topic"), {"ddl": "evolve", **options}

    def run(self, batch: Iterable[tuple[int, Said]] = (), **options: Any) -> tidecast.Replicated:
        if batch := list(batch):
            self.topic.deliver(batch)
        checkpoint = str(self.folder / "checkpoint")
        options = {"checkpoint": checkpoint, "to": self.to, **self.options, **options}
        return tidecast.replicate(self.topic.uri, spark=self.spark, **options)

    def rows(self, name: str = "t", to: str = "") -> list[tuple[Any, ...]]:
        there = self.spark.read.format("delta").load(f"{to or self.to}/d/{name}")
        return sorted((tuple(one) for one in there.collect()), key=str)

    def journal(self) -> list[tuple[str, str, str]]:
        rows = self.spark.read.format("delta").load(f"{self.to}/_tidecast/schema_changes").collect()
        return sorted((one["type"], one["table"], one["outcome"]) for one in rows)

    def proven(self) -> dict[str, str]:
        return {one.table: str(one.verdict) for one in tidecast.prove(self.to, spark=self.spark).tables}


_EQUAL = {"d.plain": "equal", "d.t": "equal"}
_SOFT = {1: (10, 21, False), 7: (7, 24, True), 8: (8, 25, False)}
_HISTORY: dict[int, list[Any]] = {1: [(1, 1, 13), (9, 13, 20), (10, 21, None)], 7: [(7, 23, 24)], 8: [(8, 25, None)]}
_ENDED: dict[int, list[Any]] = {n: [(n, n, 20)] for n in (2, 3, 4)} | {n: [(n, at, 20)] for n, at in ((5, 11), (6, 12))}
_EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "current": [(1, 10), (8, 8)],
    "soft-delete": [
        *((key, n, _T0 + at, deleted) for key, (n, at, deleted) in _SOFT.items()),
        *((n, n, _CUT, True) for n in (2, 3, 4, 5, 6)),
    ],
    "history": [
        (key, n, _T0 + since, until and _T0 + until)
        for key, versions in (_HISTORY | _ENDED).items()
        for n, since, until in versions
    ],
}


@pytest.mark.parametrize("mode", [pytest.param(m, marks=() if m == "current" else full) for m in _EXPECTED])
def test_what_is_older_than_a_truncation_goes_and_what_is_newer_stays(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    replica = Replica(spark, tmp_path, mode=mode)
    for batch in _BATCHES:
        applied = replica.run(batch)
        assert (applied.warnings, applied.dead_letters) == ((), {})
    assert replica.proven() == _EQUAL
    assert replica.rows() == sorted(_EXPECTED[mode], key=str)
    (*gone, last) = sorted(replica.rows("plain"))
    assert last[0] == 7
    assert [one[0] for one in gone] == ([] if mode == "current" else [1, 2, 3])
    assert all(_CUT in one for one in gone)
    if mode == "current":  # in which no schema comes with the statement
        topic, other = f"file://{tmp_path}/debezium/topic?protocol=debezium", str(tmp_path / "debezium-tables")
        tidecast.convert(f"{replica.topic.uri}", topic, tz="UTC", spark=spark)
        tidecast.replicate(topic, other, tz="UTC", spark=spark, ddl="evolve")
        assert replica.rows(to=other) == replica.rows()
    if mode == "history":  # in one go it comes to the same
        once = str(tmp_path / "once")
        replica.run(to=once, checkpoint=None)
        assert [replica.rows(name, once) for name in ("t", "plain")] == [replica.rows(name) for name in ("t", "plain")]
        assert tidecast.compare(replica.topic.uri, once, ddl="evolve", spark=spark).ok
    changes = [("create table", "applied"), ("truncate table", "applied")]
    assert replica.journal() == sorted((kind, name, done) for kind, done in changes for name in ("t", "plain"))


@pytest.mark.parametrize("at_once", [False, True])
def test_rows_are_marked_as_deleted_by_what_came_first_after_them(
    spark: SparkSession, tmp_path: Path, at_once: bool
) -> None:
    replica = Replica(spark, tmp_path, mode="soft-delete")
    first, second = (ddl("TRUNCATE TABLE `d`.`t`", _T0 + at, _T) for at in (10, 20))
    gone, late = (row(_T0 + at, _T0, kind="DELETE", id=number, n=number) for at, number in ((5, 6), (6, 7)))
    before = [_put(1, id=number, n=number) for number in (1, 6, 7)]
    after = [gone, first, _put(11, id=2, n=2), second, _put(21, id=3, n=3)]
    replica.run(_in(0, _CREATED[0], *before, *(after if at_once else ())))
    replica.run(_in(0, *(() if at_once else after)))
    replica.run(_in(1, _put(2, id=4, n=4), late, first, _put(12, id=5, n=5), second))
    told = [(number, at - _T0) for number, _, at, deleted in replica.rows() if deleted]
    assert told == [(1, 10), (2, 20), (4, 10), (5, 20), (6, 5), (7, 6)]
    assert replica.proven() == {"d.t": "equal"}


def test_a_dropped_table_goes_and_another_one_of_its_name_may_come(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run(_BATCHES[0])
    created = ddl("CREATE TABLE `d`.`t` (`id` INT)", _AGAIN + 1, _NEW)
    fresh = row(_AGAIN + 2, _AGAIN, k=1, s=1)
    replica.topic.deliver(_in(0, _put(25, id=8, n=8), *_DROPPED))
    # The table is gone then, and the journal says so: the next run finds nothing to do.
    with CrashPoints(tmp_path, ("save /tables/_tidecast/batches", 1)).watching(), pytest.raises(Killed):
        replica.run()
    replica.run()
    assert not Path(replica.to, "d", "t").exists()
    assert replica.proven() == {"d.plain": "equal"}
    replica.run(_in(1, *_BEFORE[1], _put(26, id=9, n=9)))  # of which nobody tells that it is late but the journal
    assert not Path(replica.to, "d", "t").exists()
    replica.run([*_in(1, *_DROPPED, created), *_in(0, created, fresh)])
    replica.run([*_in(0, *_BEFORE[0], *_DROPPED, created, fresh), *_in(1, row(_AGAIN + 3, _AGAIN, k=2, s=2))])
    assert replica.rows() == [(1, 1), (2, 2)]
    assert replica.spark.read.format("delta").load(f"{replica.to}/d/t").columns == ["s", "k"]
    assert replica.proven() == _EQUAL
    once = str(tmp_path / "once")
    replica.run(to=once, checkpoint=None)
    assert replica.rows(to=once) == replica.rows()
    assert ("drop table", "t", "applied") in replica.journal()


def test_a_table_that_was_made_again_without_a_row_equals_its_topic(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    again = ddl("CREATE TABLE `d`.`t` (`id` INT)", _AGAIN, table(_AGAIN, ID))
    replica.run(_in(0, _CREATED[0], _put(1, id=1, n=1)))
    replica.run(_in(0, *_DROPPED, again))
    assert replica.rows() == []
    assert tidecast.compare(replica.topic.uri, replica.to, ddl="evolve", spark=spark).ok
    spark.sql(f"INSERT INTO delta.`{replica.to}/d/t` VALUES (1)")
    assert not tidecast.compare(replica.topic.uri, replica.to, ddl="evolve", spark=spark).ok


def test_a_dropped_table_goes_where_no_new_one_is_made(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run(_in(0, _CREATED[0], _put(1, id=1, n=1), watermark(_DROP)))  # which may come before the statement
    created = ddl("CREATE TABLE `d`.`t` (`id` INT)", _AGAIN + 1, _NEW)
    fresh = row(_AGAIN + 2, _AGAIN, k=1, s=1)
    applied = replica.run(_in(0, *_DROPPED, created, fresh), ddl=["evolve", "create-table=ignore"])
    assert (applied.warnings, applied.dead_letters) == ((), {"table-refused": 1})
    assert not Path(replica.to, "d", "t").exists()


@full
def test_what_is_kept_and_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="lenient")
    replica.run(_BATCHES[0])
    first, _ = replica.run(_BATCHES[1]).warnings
    assert first == "not carried out on the tables: TRUNCATE TABLE `d`.`t` (not carried out, as --ddl is lenient)"
    before = replica.rows(), replica.rows("plain")
    # Rows that came after the statement are in the tables by now; of keys the checkpoint tells which these are.
    with pytest.raises(TableRefused, match="newer rows were appended already"):
        replica.run(_BATCHES[2], ddl="evolve")
    assert (replica.rows(), replica.rows("plain")) == before
    config = tmp_path / "ddl.toml"  # of which the command line says otherwise
    config.write_text('[ddl]\ndefault = "ignore"\ntruncate-table = "try_evolve"\n')
    (warning,) = replica.run(ddl=["lenient"], config=config).warnings
    assert "newer rows were appended already" in warning
    assert replica.rows() == [(1, 10), (8, 8)]
    assert replica.proven() == _EQUAL
    assert ("truncate table", "plain", "refused") not in replica.journal()
    assert ("truncate table", "t", "applied") in replica.journal()
    # Without a checkpoint nothing tells it of a table that is there.
    again = [ddl("TRUNCATE TABLE `d`.`t`", _T0 + 28, _T)]
    with pytest.raises(TableRefused, match="nothing tells which of its rows are older: replicate with one --checkp"):
        replica.run(_in(0, *again), checkpoint=None, ddl="evolve")
    log = str(tmp_path / "log")
    replica.run(to=log, checkpoint=None, ddl="evolve", mode="log")
    assert len(replica.rows("plain", log)) == 4


@pytest.mark.parametrize("at", [0, _CUT])
def test_a_truncation_is_refused_where_rows_have_no_commit_ts(spark: SparkSession, tmp_path: Path, at: int) -> None:
    rows = [row(0, _T0, id=number, n=number) for number in (1, 2, 3)]
    truncated = ddl("TRUNCATE TABLE `d`.`t`", at, _T)
    replica = Replica(spark, tmp_path)
    replica.run(_in(0, ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, _T), rows[0]))
    with pytest.raises(TableRefused, match="not every message has a commit-ts"):
        replica.run(_in(0, rows[1], truncated, rows[2]))
    (warning,) = replica.run(ddl="lenient").warnings
    assert warning.startswith("not carried out on the tables: TRUNCATE TABLE")
    assert replica.rows() == [(1, 1), (2, 2), (3, 3)]


def test_a_truncation_without_a_commit_ts_is_refused_alone_too(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    source = replica.topic.uri.replace("simple", "canal-json")
    named = {"database": "d", "table": "t", "es": 7, "ts": 8}
    shape = {"pkNames": ["id"], "sqlType": {"id": 4}, "mysqlType": {"id": "int"}}
    put = {**named, **shape, "isDdl": False, "type": "INSERT", "sql": "", "data": [{"id": "1"}], "old": None}
    options: Any = {"to": replica.to, "checkpoint": str(tmp_path / "checkpoint"), "ddl": "evolve", "spark": spark}
    replica.topic.deliver([(0, put)])
    tidecast.replicate(source, **options)
    replica.topic.deliver([(1, {**named, "isDdl": True, "type": "TRUNCATE", "sql": "TRUNCATE TABLE t"})])
    with pytest.raises(TableRefused, match="not every message has a commit-ts"):
        tidecast.replicate(source, **options)


@full
def test_a_kill_while_a_table_is_truncated_or_dropped_does_not_show(spark: SparkSession, tmp_path: Path) -> None:
    clean, run = tmp_path / "clean", tmp_path / "run"
    replica = Replica(spark, run)
    replica.run(_BATCHES[0])
    replica.topic.deliver([*_BATCHES[1], *_in(0, ddl("DROP TABLE `d`.`plain`", _DROP, _PLAIN) | {"type": "ERASE"})])
    shutil.copytree(run, clean)
    with CrashPoints(run).watching() as watched:
        replica.run()
    assert replica.rows() == [(1, 10)]
    assert tidecast.compare(replica.topic.uri, replica.to, ddl="evolve", spark=spark).ok  # in neither is `plain`
    points = [p for p in watched.points if "/d/" in p[0] or "/proof/" in p[0]]
    of_note = [p for p in points if p[0].startswith(("sql", "merge", "rename", "rmtree"))]
    assert [p for p in of_note if "DELETE FROM" in p[0]]
    (told,) = (p for p in of_note if "tidecast.truncated" in p[0] and "/d/t" in p[0])
    removed = next(p for p in points if p[0].startswith("rmtree") and "/d/plain" in p[0])
    for point in of_note if FULL else (told, removed):
        for name in ("tables", "checkpoint"):
            shutil.rmtree(run / name)
            shutil.copytree(clean / name, run / name)
        with CrashPoints(run, point).watching(), pytest.raises(Killed):
            replica.run()
        replica.run()
        assert (replica.rows(), Path(replica.to, "d", "plain").exists()) == ([(1, 10)], False), point
        assert replica.proven() == {"d.t": "equal"}, point
