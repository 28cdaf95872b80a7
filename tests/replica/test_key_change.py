"""Tables that get another key at the source, while rows by both keys come in any order that TiCDC allows."""

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
from tidecast.replica.plan._shapes import KEY_CHANGED

_T0 = compose(1_700_000_000_000)
_N, _V = ({**ID, "name": name} for name in "nv")


def _keyed(version: int, *key: str) -> Said:
    said = table(version, ID, _N, _V)
    return {**said, "indexes": [{**PRIMARY, "columns": [*key]}] if key else []}


def _created(*key: str) -> Said:
    return ddl("CREATE TABLE `d`.`t` (`id` INT, `n` INT, `v` INT)", _T0, _keyed(_T0, *key))


def _changed(at: int, *key: str) -> Said:
    sql = f"ALTER TABLE `d`.`t` DROP PRIMARY KEY, ADD PRIMARY KEY (`{'`, `'.join(key)}`)"
    return ddl(sql, _T0 + at, _keyed(_T0 + at, *key))


def _put(at: int, version: int, *values: int) -> Said:
    data: dict[str, Any] = dict(zip(("id", "n", "v"), values, strict=True))
    return row(_T0 + at, _T0 + version, **data)


def _gone(at: int, version: int, **key: Any) -> Said:
    return row(_T0 + at, _T0 + version, kind="DELETE", **key)


_BEFORE = [_created("id"), _put(1, 0, 1, 10, 0), _put(2, 0, 2, 20, 0), _put(3, 0, 3, 30, 0), watermark(_T0 + 4)]
_FIRST = [_put(11, 0, 1, 11, 1), _changed(20, "n"), _put(21, 20, 2, 50, 5), _gone(22, 20, n=20)]
_OTHER = [_gone(12, 0, id=3), _put(13, 0, 4, 30, 4), _changed(20, "n"), _put(23, 20, 1, 60, 6), _put(24, 20, 8, 11, 8)]
_AFTER = [(1, 60, 6), (2, 50, 5), (4, 30, 4), (8, 11, 8)]


def _run(spark: SparkSession, folder: Path, **options: Any) -> Replica:
    replica = Replica(spark, folder, **options)
    replica.run(_BEFORE, [_BEFORE[0], _BEFORE[-1]])
    return replica


def _check(replica: Replica, point: object = "") -> None:
    assert (replica.rows("d/t"), replica.proven()) == (_AFTER, {"d.t": "equal"}), point


def test_rows_by_the_old_key_come_first(spark: SparkSession, tmp_path: Path) -> None:
    replica = _run(spark, tmp_path, ddl="try_evolve")
    done = replica.run(_FIRST, _OTHER)
    (report,) = done.tables
    assert (report.rows, report.upserted, report.deleted, done.dead_letters) == (7, 5, 2, {})
    _check(replica)
    replica.run([watermark(_T0 + 25)])
    # TiCDC begins again behind its checkpoint: what the partition's watermark covers is left out.
    again = replica.run([*_FIRST, _put(31, 20, 7, 60, 7)], _OTHER)
    assert (again.dead_letters, replica.proven()) == ({"schema-change": 2}, {"d.t": "equal"})
    assert replica.rows("d/t") == [(2, 50, 5), (4, 30, 4), (7, 60, 7), (8, 11, 8)]
    journal = spark.read.format("delta").load(f"{replica.to}/_tidecast/schema_changes").collect()
    assert {(one.type, one.outcome) for one in journal} == {
        ("create table", "applied"),
        ("multi schema change", "applied"),
    }


@full
def test_a_late_row_by_the_old_key_is_set_aside_by_the_word_that_the_error_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    replica = _run(spark, tmp_path)
    replica.run([_changed(20, "n"), _put(21, 20, 2, 50, 5)])
    with pytest.raises(TableRefused, match=r"its schema changed: .*with lenient the run goes on"):
        replica.run([], [_put(12, 0, 1, 11, 1), _changed(20, "n"), _put(23, 20, 3, 60, 6)])
    assert replica.run(ddl="lenient").dead_letters == {"schema-change": 1}
    assert replica.run([_put(31, 20, 4, 70, 7)]).dead_letters == {}
    assert replica.rows("d/t") == [(1, 10, 0), (2, 20, 0), (2, 50, 5), (3, 30, 0), (3, 60, 6), (4, 70, 7)]


def test_a_late_row_by_a_key_that_came_back_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Its version looks like the newest; what happened to its row by the other key in between is not remembered."""
    replica = Replica(spark, tmp_path, ddl="lenient")
    replica.run([_created("id"), _put(1, 0, 1, 10, 0), _put(2, 0, 2, 20, 0)], [_created("id")])
    replica.run([_changed(20, "n"), _put(21, 20, 1, 10, 5)])
    replica.run([_changed(30, "id"), _put(31, 30, 2, 20, 7)])
    done = replica.run([], [_put(12, 0, 1, 11, 1), _changed(20, "n"), _changed(30, "id"), _put(32, 30, 3, 30, 3)])
    assert done.dead_letters == {"schema-change": 1}
    after = [(1, 10, 5), (2, 20, 7), (3, 30, 3)]
    assert (replica.rows("d/t"), replica.proven()) == (after, {"d.t": "equal"})
    assert replica.run([], [_gone(14, 0, id=1, n=10, v=0)]).dead_letters == {"schema-change": 1}
    assert replica.rows("d/t") == after


def test_deletes_alone_by_a_key_that_came_back_come_last(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run([_created("id"), _put(1, 0, 1, 10, 0)])
    back = [_put(22, 20, 3, 50, 5), _changed(30, "id"), _gone(31, 30, id=3, n=50, v=5), _gone(32, 30, id=1, n=11, v=1)]
    done = replica.run([_changed(20, "n"), _gone(21, 20, id=1, n=10, v=0), _put(21, 20, 1, 11, 1), *back])
    assert (done.dead_letters, replica.rows("d/t"), replica.proven()) == ({}, [], {"d.t": "equal"})


def test_deletes_alone_by_the_old_key_come_first(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run([_created("id"), _put(1, 0, 1, 10, 0), _put(2, 0, 2, 20, 0)])
    done = replica.run([_gone(11, 0, id=1, n=10, v=0), _changed(20, "n"), _put(21, 20, 3, 10, 3)])
    assert (done.dead_letters, replica.rows("d/t")) == ({}, [(2, 20, 0), (3, 10, 3)])
    assert replica.proven() == {"d.t": "equal"}


def test_dead_letters_by_the_new_key_are_applied_once_more(spark: SparkSession, tmp_path: Path) -> None:
    """The topic has rows by the old key, which nothing can apply any more; they are older than any of them."""
    replica = Replica(spark, tmp_path, ddl="lenient")
    wrong = {"checksum": {"version": 1, "corrupted": False, "current": 1, "previous": 2}}
    damaged = [
        {**_put(11, 0, 2, 25, 2), **wrong},
        {**_put(21, 20, 1, 10, 5), **wrong},
        {**_put(22, 20, 5, 50, 5), **wrong},
    ]
    replica.run([_created("id"), _put(1, 0, 1, 10, 0), _put(2, 0, 2, 20, 0), damaged[0]])
    replica.run([_changed(20, "n"), *damaged[1:], _put(23, 20, 6, 50, 6)])
    checkpoint = str(tmp_path / "checkpoint")
    options: dict[str, Any] = {"checkpoint": checkpoint, "ddl": "lenient", "on_mismatch": "apply", "spark": spark}
    done = tidecast.retry_dead_letters(replica.topic.uri, replica.to, **options)
    assert (done.applied, done.dead_letters) == (2, {"schema-change": 1})
    assert (replica.rows("d/t"), replica.proven()) == ([(1, 10, 5), (2, 20, 0), (6, 50, 6)], {"d.t": "equal"})


@full
def test_a_kill_while_a_table_gets_its_key_does_not_show(spark: SparkSession, tmp_path: Path) -> None:
    run, clean = tmp_path / "run", tmp_path / "clean"
    replica = _run(spark, run)
    replica.topic.deliver([*((0, one) for one in _FIRST), *((1, one) for one in _OTHER)])
    shutil.copytree(run, clean)
    with CrashPoints(run).watching() as watched:
        assert replica.run().dead_letters == {}
    _check(replica)
    merges = [n for n, (name, _) in enumerate(watched.points) if name.startswith("merge") and "/d/t" in name]
    keyed = next(n for n, (name, _) in enumerate(watched.points) if "/d/t SET TBLPROPERTIES" in name)
    assert len(merges) == 2
    assert merges[0] < keyed < merges[1]
    for at in range(len(watched.points)) if FULL else (keyed + 1, merges[1] + 1):
        for name in ("tables", "checkpoint"):
            shutil.rmtree(run / name)
            shutil.copytree(clean / name, run / name)
        with CrashPoints(run, watched.points[at]).watching(), pytest.raises(Killed):
            replica.run()
        assert replica.run().dead_letters == {}, watched.points[at]
        _check(replica, watched.points[at])


def test_several_keys_in_the_first_batch_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """The last change comes without a row; `--on-error fail` looks at all rows before any is applied."""
    replica = Replica(spark, tmp_path, on_error="fail")
    changes = [_changed(20, "n"), _put(21, 20, 1, 20, 2), _put(22, 20, 3, 10, 3), _changed(30, "id", "n")]
    replica.run([_created("id"), _put(1, 0, 1, 10, 0), _put(2, 0, 2, 20, 0), *changes])
    assert (replica.rows("d/t"), replica.proven()) == ([(1, 20, 2), (3, 10, 3)], {"d.t": "equal"})
    replica.run([_put(31, 30, 1, 10, 9), _gone(32, 30, id=1, n=20)])
    assert replica.rows("d/t") == [(1, 10, 9), (3, 10, 3)]


def test_a_key_that_the_rows_do_not_have_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    replica = _run(spark, tmp_path, ddl="lenient")
    replica.run([_put(5, 0, 4, 30, 0), watermark(_T0 + 6)], [watermark(_T0 + 6)])
    done = replica.run([_put(11, 0, 1, 11, 1), _changed(20, "n"), _put(21, 20, 2, 50, 5)])
    assert done.dead_letters == {"schema-change": 1}
    assert any(f"{KEY_CHANGED} (id) to (n), which does not tell all" in said for said in done.tables[0].warnings)
    assert replica.rows("d/t") == [(1, 11, 1), (2, 20, 0), (3, 30, 0), (4, 30, 0)]
    journal = spark.read.format("delta").load(f"{replica.to}/_tidecast/schema_changes")
    assert [one.outcome for one in journal.where(f"commit_ts = {_T0 + 20}").collect()] == ["refused"]


def test_a_key_that_was_refused_keeps_out_later_ones(spark: SparkSession, tmp_path: Path) -> None:
    """What happened to rows by the refused key is not known, wherever a batch ends, and after late rows, too."""
    replica = Replica(spark, tmp_path, ddl="lenient")
    replica.run([_created("id"), _put(1, 0, 1, 10, 0), _put(2, 0, 2, 10, 0)], [_created("id")])
    assert replica.run([_changed(20, "n"), _put(21, 20, 1, 20, 2)]).dead_letters == {"schema-change": 1}
    assert replica.run([_changed(30, "id", "n"), _put(31, 30, 3, 30, 3)]).dead_letters == {"schema-change": 1}
    assert replica.run([], [_put(11, 0, 4, 40, 4)]).dead_letters == {}
    late = [_put(12, 0, 5, 50, 5), _changed(20, "n"), _changed(30, "id", "n"), _put(32, 30, 6, 60, 6)]
    assert replica.run([], late).dead_letters == {"schema-change": 1}
    assert replica.run([_changed(40, "id"), _put(41, 40, 7, 70, 7)]).dead_letters == {"schema-change": 1}
    assert replica.rows("d/t") == [(1, 10, 0), (2, 10, 0), (4, 40, 4), (5, 50, 5)]
    assert replica.proven() == {"d.t": "equal"}


@pytest.mark.parametrize(
    ("options", "letters", "rows"),
    [
        pytest.param({"checkpoint": None}, 2, 3, id="no checkpoint", marks=full),
        pytest.param({"mode": "history"}, 2, 4, id="versions"),
        pytest.param({"mode": "log"}, 0, 6, id="log"),
        pytest.param({"mode": "soft-delete"}, 0, 4, id="marked as deleted"),
    ],
)
def test_what_other_tables_make_of_a_key(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], letters: int, rows: int
) -> None:
    changes = [_put(11, 0, 1, 11, 1), _changed(20, "n"), _put(21, 20, 2, 50, 5), _put(22, 20, 9, 11, 9)]
    done = Replica(spark, tmp_path, ddl="lenient", **options).run([*_BEFORE, *changes])
    assert sum(done.dead_letters.values()) == letters
    assert len(Replica(spark, tmp_path).rows("d/t")) == rows
