"""Tables that the source renames, while rows under both names come in any order."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from crash_points import CrashPoints, Killed
from full import FULL
from growing_topic import ID, GrowingTopic, Said, ddl, row, table
from pyspark.sql import SparkSession

import tidecast
from tidecast._errors import TableRefused
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_AT, _AGAIN = _T0 + 20, _T0 + 30
_N, _S = ({**ID, "name": name, "nullable": True} for name in "ns")
_CREATED = ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _N))
_NAMED = ddl("RENAME TABLE `d`.`t` TO `e`.`t2`", _AT, table(_T0, ID, _N, database="e", name="t2"))
_OTHER = ddl("CREATE TABLE `d`.`t` (`id` INT)", _AGAIN + 1, table(_AGAIN, ID, _S))
_ROUTES = '[[route]]\nmatcher = ["d.*"]\ntarget-schema = "x"\n'


def _old(at: int, n: int) -> Said:
    return row(_T0 + at, _T0, id=n, n=n)


def _new(at: int, n: int, value: int) -> Said:
    return row(_T0 + at, _T0, database="e", name="t2", id=n, n=value)


_BEFORE = [_CREATED, _old(1, 1), _old(2, 2)], [_CREATED, _old(3, 3)]
_AFTER = [_old(11, 4), _NAMED, _new(21, 1, 10), _OTHER, row(_AGAIN + 2, _AGAIN, id=7, s=7)]
_LATE = [_old(12, 5), _NAMED, _new(22, 6, 6), _OTHER]


class Replica:
    """A topic of two partitions, and its tables, with a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        config = folder / "routes.toml"
        config.write_text(_ROUTES)
        self.spark, self.folder, self.to = spark, folder, str(folder / "tables")
        self.topic, self.options = GrowingTopic(folder / "topic"), {"ddl": "evolve", "config": config, **options}

    def run(self, *batches: list[Said], **options: Any) -> tidecast.Replicated:
        if batches:
            self.topic.deliver((partition, one) for partition, batch in enumerate(batches) for one in batch)
        checkpoint = str(self.folder / "checkpoint")
        options = {"checkpoint": checkpoint, "to": self.to, **self.options, **options}
        return tidecast.replicate(self.topic.uri, spark=self.spark, **options)

    def rows(self, name: str, to: str = "") -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.spark.read.format("delta").load(f"{to or self.to}/{name}").collect()))

    def proven(self) -> dict[str, str]:
        return {one.table: str(one.verdict) for one in tidecast.prove(self.to, spark=self.spark).tables}


_RENAMED = [(1, 10), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]
_EQUAL = {"e.t2": "equal", "x.t": "equal"}


def test_a_table_follows_its_new_name_and_another_one_may_get_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run(*_BEFORE)
    assert replica.run([_old(11, 4), _NAMED]).warnings == ()
    assert (replica.rows("e/t2"), replica.proven()) == ([(1, 1), (2, 2), (3, 3), (4, 4)], {"e.t2": "equal"})
    replica.run([], [_old(12, 5)])  # under a name that no table has
    assert not Path(replica.to, "x", "t").exists()
    replica.run(_AFTER, [*_LATE, *_BEFORE[1], *_LATE])
    assert (replica.rows("e/t2"), replica.rows("x/t")) == (_RENAMED, [(7, 7)])
    assert replica.proven() == _EQUAL
    once = str(tmp_path / "once")
    for _ in range(2):  # the statement comes again, and nothing moves
        replica.run(to=once, checkpoint=None, mode="log")
        logs = ([found[:2] for found in replica.rows(name, once)] for name in ("e/t2", "x/t"))
        assert [len(set(log)) for log in logs] == [7, 1]
    journal = spark.read.format("delta").load(f"{replica.to}/_tidecast/schema_changes").collect()
    assert sorted((one.type, one.table, one.outcome) for one in journal) == [
        ("create table", "t", "applied"),
        ("create table", "t", "applied"),
        ("rename table", "t2", "applied"),
    ]


def test_what_stays_where_a_rename_is_not_carried_out(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="lenient")
    replica.run(*_BEFORE)
    (warning,) = replica.run([_NAMED, _new(21, 1, 10)]).warnings
    assert "the table of the new name lacks the rows of before" in warning
    assert (replica.rows("e/t2"), len(replica.rows("x/t"))) == ([(1, 10)], 3)
    with pytest.raises(TableRefused, match="there is a table of the new name already"):
        replica.run([_NAMED], ddl="evolve")
    swap = [("d`.`u", "d`.`v"), ("d`.`v", "d`.`u")]
    names = [ddl(f"RENAME TABLE `{a}` TO `{b}`", _T0 + 40, table(_T0, ID, name=b[-1])) for a, b in swap]
    with pytest.raises(TableRefused, match="it exchanges names with others"):
        replica.run(names, checkpoint=None, to=str(tmp_path / "swap"), ddl=["lenient", "rename-table=evolve"])


def test_a_kill_while_a_table_is_renamed_does_not_show(spark: SparkSession, tmp_path: Path) -> None:
    clean, run = tmp_path / "clean", tmp_path / "run"
    replica = Replica(spark, run)
    replica.run(*_BEFORE)
    replica.topic.deliver((0, one) for one in _AFTER)
    shutil.copytree(run, clean)
    with CrashPoints(run).watching() as watched:
        replica.run()
    expected = replica.rows("e/t2"), replica.rows("x/t")
    assert expected == ([(1, 10), (2, 2), (3, 3), (4, 4)], [(7, 7)])
    moved = next(n for n, (name, _) in enumerate(watched.points) if name.startswith("rename /tables/x/t"))
    made = next(n for n, (name, _) in enumerate(watched.points) if name.startswith("create") and "/x/t" in name)
    journal = next(n for n, (name, _) in enumerate(watched.points) if "_tidecast/schema_changes" in name and n > made)
    for at in range(moved, journal + 1) if FULL else (moved + 1, journal):
        for name in ("tables", "checkpoint"):
            shutil.rmtree(run / name)
            shutil.copytree(clean / name, run / name)
        with CrashPoints(run, watched.points[at]).watching(), pytest.raises(Killed):
            replica.run()
        replica.run()
        assert (replica.rows("e/t2"), replica.rows("x/t")) == expected, watched.points[at]
        assert replica.proven() == _EQUAL, watched.points[at]
