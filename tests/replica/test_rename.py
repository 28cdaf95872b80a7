"""Tables that the source renames, while rows under both names come in any order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpointed import Replica
from crash_points import CrashPoints, Killed
from full import FULL, full
from growing_topic import ID, Said, ddl, row, table, watermark
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


def _routed(spark: SparkSession, folder: Path, **options: Any) -> Replica:
    """A replica whose database `d` is called `x`."""
    folder.mkdir(exist_ok=True)
    config = folder / "routes.toml"
    config.write_text(_ROUTES)
    return Replica(spark, folder, config=config, **options)


_BEFORE = [_CREATED, _old(1, 1), _old(2, 2)], [_CREATED, _old(3, 3)]
_AFTER = [_old(11, 4), _NAMED, _new(21, 1, 10), _OTHER, row(_AGAIN + 2, _AGAIN, id=7, s=7)]
_LATE = [_old(12, 5), _NAMED, _new(22, 6, 6), _OTHER]


_RENAMED = [(1, 10), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]
_EQUAL = {"e.t2": "equal", "x.t": "equal"}


def test_a_table_follows_its_new_name_and_another_one_may_get_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    replica = _routed(spark, tmp_path)
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


def test_a_column_may_be_renamed_in_the_same_batch(spark: SparkSession, tmp_path: Path) -> None:
    replica, version = _routed(spark, tmp_path), _T0 + 15
    replica.run(*_BEFORE)
    columns = ID, {**_N, "name": "m"}
    column = ddl("ALTER TABLE `d`.`t` RENAME COLUMN `n` TO `m`", version, table(version, *columns))
    named = ddl("RENAME TABLE `d`.`t` TO `e`.`t2`", _AT, table(version, *columns, database="e", name="t2"))
    new = row(_T0 + 21, version, database="e", name="t2", id=8, m=8)
    replica.run([column, named, new], [column, named])
    assert replica.rows("e/t2") == [(1, 1), (2, 2), (3, 3), (8, 8)]


def test_what_stays_where_a_rename_is_not_carried_out(spark: SparkSession, tmp_path: Path) -> None:
    replica = _routed(spark, tmp_path, ddl="ignore")
    replica.run(*_BEFORE)
    (warning,) = replica.run([_NAMED, _new(21, 1, 10)]).warnings
    assert "the table of the new name lacks the rows of before" in warning
    assert "later rows that an earlier batch brought are in the table that had their name" in warning
    assert (replica.rows("e/t2"), len(replica.rows("x/t"))) == ([(1, 10)], 3)
    with pytest.raises(TableRefused, match="there is a table of the new name already"):
        replica.run([_NAMED], ddl="evolve")


def test_rows_follow_a_rename_that_an_earlier_run_carried_out(spark: SparkSession, tmp_path: Path) -> None:
    """The statement comes again in another partition, which is behind, to a run with another word."""
    replica = _routed(spark, tmp_path)
    replica.run(*_BEFORE)
    replica.run([_NAMED])
    done = replica.run([], [_old(12, 1), _old(13, 5), _NAMED], ddl="ignore")
    assert (done.warnings, done.dead_letters, replica.proven()) == ((), {}, {"e.t2": "equal"})
    assert replica.rows("e/t2") == [(1, 1), (2, 2), (3, 3), (5, 5)]
    assert not Path(replica.to, "x", "t").exists()


def test_rows_follow_a_rename_that_an_earlier_checkpoint_knows(spark: SparkSession, tmp_path: Path) -> None:
    """The topic is applied once more from its beginning, in batches that do not have the statement."""
    before = [_CREATED, _old(1, 1)], [_old(2, 2), row(_T0 + 3, _T0, id=1, n=10)]
    replica = _routed(spark, tmp_path)
    replica.run([*before[0], *before[1], _NAMED])
    again = _routed(spark, tmp_path / "again", to=replica.to)
    for batch in (*before, [_NAMED]):
        again.run(batch)
    assert replica.rows("e/t2") == [(1, 10), (2, 2)]
    assert not Path(replica.to, "x", "t").exists()


@full
def test_a_kill_while_a_table_is_renamed_does_not_show(spark: SparkSession, tmp_path: Path) -> None:
    clean, run = tmp_path / "clean", tmp_path / "run"
    replica = _routed(spark, run)
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


def _rename(old: str, new: str, at: int) -> Said:
    return ddl(f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`", _T0 + at, table(_T0, ID, _N, name=new))


def _put(name: str, at: int, n: int, value: int | None = None) -> Said:
    return row(_T0 + at, _T0, name=name, id=n, n=n if value is None else value)


def _created(name: str) -> Said:
    return ddl(f"CREATE TABLE `d`.`{name}` (`id` INT)", _T0, table(_T0, ID, _N, name=name))


def test_a_rename_that_comes_again_leaves_the_table_that_has_the_old_name_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    replica = Replica(spark, tmp_path)
    first, second = _rename("t", "old", 20), _rename("fresh", "t", 30)
    replica.run([_created("t"), _put("t", 1, 1), _created("fresh"), _put("fresh", 2, 2)])
    replica.run([first, second, _put("t", 35, 3)])
    # The row of @25 is of no table that is known, that of @5 of one that had the name before.
    applied = replica.run([first], [_put("t", 12, 4), _put("fresh", 13, 5), _put("t", 25, 6), _put("old", 5, 1, 7)])
    assert applied.dead_letters == {"table-refused": 2}
    gone = ddl("DROP TABLE `d`.`old`", _T0 + 40, table(_T0, ID, _N, name="old")) | {"type": "ERASE"}
    assert replica.rows("d/old") == [(1, 1), (4, 4)]
    replica.run([gone, first, second])
    assert (replica.rows("d/t"), Path(replica.to, "d", "old").exists()) == ([(2, 2), (3, 3), (5, 5)], False)
    assert replica.proven() == {"d.t": "equal"}


def test_a_rename_is_refused_where_its_names_may_mean_other_tables(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="try_evolve")
    gone = ddl("DROP TABLE `d`.`taken`", _T0 + 20, table(_T0, ID, _N, name="taken")) | {"type": "ERASE"}
    replica.run([_created("t"), _put("t", 1, 1), _created("u"), _put("u", 2, 2), _put("u", 42, 3)])
    # One to a name that was dropped before, and one of a table that has newer rows.
    warnings = replica.run([gone, _rename("t", "taken", 30), _rename("u", "v", 40)]).warnings
    assert [w.partition(" (")[2] for w in warnings] == [
        "another table had the new name before)",
        "newer rows of another table of the old name, or the new one, came already)",
    ]
    assert (replica.rows("d/t"), replica.rows("d/u")) == ([(1, 1)], [(2, 2), (3, 3)])
    with pytest.raises(TableRefused, match="another table had the new name before"):
        replica.run(checkpoint=None, to=str(tmp_path / "once"), ddl=["lenient", "rename-table=evolve"])


_EXCHANGED = [_rename("t", "old", 20), _rename("fresh", "t", 20)]
_SHOWN = [_created("t"), _put("t", 1, 1), _put("t", 2, 2), _created("fresh"), _put("fresh", 3, 9)]
_ADDED = ddl("ALTER TABLE `d`.`t` ADD COLUMN `s` INT", _T0 + 25, table(_T0 + 25, ID, _N, _S))
_SINCE = [_put("t", 21, 1, 10), _ADDED, row(_T0 + 26, _T0 + 25, id=5, n=5, s=5), _put("old", 22, 3)]


def test_a_rename_is_followed_without_being_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl=())
    replica.run(_SHOWN)
    assert replica.run([*_EXCHANGED, *_SINCE]).warnings == ()
    expected = [(1, 10, None), (5, 5, 5), (9, 9, None)], [(1, 1), (2, 2), (3, 3)]
    assert (replica.rows("d/t"), replica.rows("d/old")) == expected
    once = str(tmp_path / "once")
    for _ in range(2):  # without a checkpoint, and again
        replica.run(to=once, checkpoint=None)
        assert (replica.rows("d/t", once), replica.rows("d/old", once)) == expected


@pytest.mark.parametrize("at_once", [False, True])
def test_a_table_takes_no_rows_of_another_one(spark: SparkSession, tmp_path: Path, at_once: bool) -> None:
    """Where names pass on and tables stay, what a name means later goes to the dead letters."""
    replica = Replica(spark, tmp_path, ddl="ignore")
    if not at_once:
        replica.run(_SHOWN)
    done = replica.run([*([] if not at_once else _SHOWN), *_EXCHANGED, *_SINCE])
    assert done.dead_letters == {"table-refused": 2}
    assert len([w for w in done.warnings if "RENAME TABLE" in w]) == 2

    def check() -> None:
        shown = [replica.rows(f"d/{name}") for name in ("t", "fresh", "old")]
        assert shown == [[(1, 1), (2, 2)], [(9, 9)], [(3, 3)]]

    check()
    # Later, late, sent again, and of a table that got a free name.
    late = [_put("t", 11, 2), _EXCHANGED[1], _put("t", 27, 6), _put("fresh", 12, 9), _put("old", 12, 7), *_SHOWN]
    assert replica.run(late).dead_letters == {"table-refused": 2}
    check()
    lines = [
        line for file in Path(replica.to, "_dead_letters").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    letters = [json.loads(line) for line in lines]
    causes = {one["detail"].partition(": ")[::2] for one in letters}
    assert causes == {
        (name, "this name meant another table then, as a RENAME TABLE was not carried out") for name in ("d.t", "d.old")
    }


def test_a_refused_rename_mixes_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing tells which rows of the tables are older than the rename: they were made without a checkpoint."""
    replica = Replica(spark, tmp_path, ddl=(), checkpoint=None)
    replica.run(_SHOWN)
    done = replica.run([*_EXCHANGED, *_SINCE])
    causes = [w.partition(" (")[2] for w in done.warnings]
    assert causes[0].startswith("nothing tells whether its rows are older: replicate with one --checkpoint")
    assert causes[1:] == ["another table had the new name before)"]
    assert (replica.rows("d/t"), replica.rows("d/fresh")) == ([(1, 1), (2, 2)], [(9, 9)])
    assert (replica.rows("d/old"), done.dead_letters) == ([(3, 3)], {"table-refused": 2})


def test_a_rename_in_other_letters_mixes_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl=())
    moved = _rename("T", "old", 20) | {"preTableSchema": table(_T0, ID, _N, name="t")}
    replica.run([_created("t"), _put("t", 1, 1)])
    done = replica.run([moved, _put("t", 21, 2)])
    assert ["its statement calls the table otherwise than d.t" in warning for warning in done.warnings] == [True]
    assert (replica.rows("d/t"), done.dead_letters) == ([(1, 1)], {"table-refused": 1})
    assert replica.run([_put("t", 22, 3)]).dead_letters == {"table-refused": 1}  # by the journal
    assert replica.rows("d/t") == [(1, 1)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ([("t", "t_old"), ("u", "t")], {"t_old": [(1, 1), (3, 3)], "t": [(2, 2), (4, 4)]}),
        pytest.param([("t", "x"), ("u", "t"), ("x", "u")], {"u": [(1, 1), (3, 3)], "t": [(2, 2), (4, 4)]}, marks=full),
        pytest.param(
            [("t", "x"), ("u", "y"), ("y", "t"), ("x", "z")],
            {"z": [(1, 1), (3, 3)], "t": [(2, 2), (4, 4)]},
            marks=full,
        ),
    ],
)
def test_one_statement_passes_names_on(
    spark: SparkSession, tmp_path: Path, statement: list[tuple[str, str]], expected: dict[str, list[tuple[int, int]]]
) -> None:
    run, clean = tmp_path / "run", tmp_path / "clean"
    replica = Replica(spark, run)
    before = [_created("t"), _put("t", 1, 1), _created("u"), _put("u", 2, 2), watermark(_T0 + 3)]
    named = [_rename(old, new, 20) for old, new in statement]
    replica.run(before)
    replica.topic.deliver((0, one) for one in [*named, _put("t", 21, 4)])
    replica.topic.deliver([(1, _put("t", 11, 3))])
    shutil.copytree(run, clean)

    def check(point: object = "") -> None:
        assert {name: replica.rows(f"d/{name}") for name in expected} == expected, point
        there = {place.name for place in Path(replica.to, "d").iterdir()}
        assert (there, set(replica.proven())) == ({*expected}, {f"d.{name}" for name in expected}), point
        assert set(replica.proven().values()) == {"equal"}, point

    with CrashPoints(run).watching() as watched:
        assert replica.run().warnings == ()
    check()
    replica.run([*before, *named, _put("t", 21, 4)])
    check("sent again")
    moves = [n for n, (name, _) in enumerate(watched.points) if name.startswith("rename /tables/d")]
    assert len(moves) == len(statement)
    last = moves[-1] + 1
    for at in range(moves[0], last + 8) if FULL else (moves[1],):
        for name in ("tables", "checkpoint", "topic"):
            shutil.rmtree(run / name)
            shutil.copytree(clean / name, run / name)
        with CrashPoints(run, watched.points[at]).watching(), pytest.raises(Killed):
            replica.run()
        replica.run()
        check(watched.points[at])


@full
def test_a_retry_of_dead_letters_sets_no_renamed_row_back(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="try_evolve")
    in_the_way = Path(replica.to, "d", "t", "notes.txt")
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("mine")
    assert replica.run([_created("t"), _put("t", 1, 1), _put("t", 2, 2)]).dead_letters == {"table-refused": 2}
    in_the_way.unlink()
    replica.run([_rename("t", "now", 20), _put("now", 21, 1, 10), watermark(_T0 + 30)])
    checkpoint = str(tmp_path / "checkpoint")
    shutil.rmtree(f"{checkpoint}/keys")  # as they are forgotten after --replay-window
    again = tidecast.retry_dead_letters(
        replica.topic.uri, replica.to, checkpoint=checkpoint, ddl="try_evolve", spark=spark
    )
    assert again.dead_letters == {}
    assert replica.rows("d/now") == [(1, 10), (2, 2)]
