"""Tables of versions: each row of the source with the times that bound it, whatever comes late, again, or in parts."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from avro_topic import INT, NUMBER, AvroTopic
from chaos import TABLES, Change, Pack, Sent, tso
from deltalake import DeltaTable
from full import full
from growing_topic import ID, ddl, row, table
from pyspark.sql import SparkSession
from small_replica import SmallReplica

import tidecast
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_N = {**ID, "name": "n", "nullable": True}
_CREATE = ddl("CREATE TABLE t (id int primary key, n int)", _T0, table(_T0, ID, _N))
_HISTORY = [
    _CREATE,
    row(_T0 + 1, _T0, id=1, n=1),
    row(_T0 + 2, _T0, id=2, n=1),
    row(_T0 + 3, _T0, kind="DELETE", id=1, n=1),
    row(_T0 + 4, _T0, kind="DELETE", id=2, n=1),
    row(_T0 + 4, _T0, id=2, n=2),
    row(_T0 + 5, _T0, id=1, n=1),
    row(_T0 + 6, _T0, id=1, n=1),
]
_VERSIONS = [(1, 1, 1, 3), (1, 1, 5, 6), (1, 1, 6, None), (2, 1, 2, 4), (2, 2, 4, None)]


_SINCE = tuple(f"{name} - {_T0}" for name in ("_valid_from", "_valid_to"))


def replica_of(spark: SparkSession, folder: Path, **options: Any) -> SmallReplica:
    """Return a replica whose tables hold versions."""
    return SmallReplica(spark, folder, **{"mode": "history", "on_error": "fail", **options})


def versions(told: Iterable[Change], name: str, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """Return what a table of versions is after changes in any order: columns of its rows, and their times."""
    by_key: dict[tuple[Any, ...], dict[int, Any]] = defaultdict(dict)
    for change in told:
        if change.table == name:
            there = by_key[change.key]
            there[change.time] = change.data or there.get(change.time)
    rows = Counter[tuple[Any, ...]]()
    for key, there in by_key.items():
        times, open_ = sorted(there), False
        for time, after in zip(times, [*times[1:], None], strict=True):
            if data := there[time]:
                values = {"more": TABLES[name].default, **data}
                rows[*(values[c] for c in columns), tso(time), after and tso(after)] += 1
            elif not open_:
                values = dict(zip(TABLES[name].key, key, strict=True))
                rows[*(values.get(c) for c in columns), tso(time), tso(time)] += 1
            open_ = data is not None
    return rows


@full
def test_versions_are_the_same_however_changes_come(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    names = ("one", "pair")
    pack = Pack(seed, tables=names, batches=4)
    replica = replica_of(spark, tmp_path, tz="UTC")

    def deliver(batch: list[Sent]) -> None:
        places = ((range(pack.partitions) if p is None else [p], pack.message(e)) for p, e in batch)
        replica.topic.deliver((place, message) for many, message in places for place in many)

    def check(where: str, name: str, what: str) -> None:
        frame, key = spark.read.format("delta").load(str(tmp_path / where / "d" / name)), TABLES[name].key
        columns = [column for column in frame.columns if not column.startswith("_")]
        # What holds at no time has a column's default where the column came later, else null.
        of_key = (c if c in key else f"if(_valid_from <=> _valid_to, NULL, {c})" for c in columns)
        there = Counter(map(tuple, frame.selectExpr(*of_key, "_valid_from", "_valid_to").collect()))
        expected = versions(told, name, columns)
        said = [
            f"{rows.total()} rows like {min(rows, key=str)}" for rows in (there - expected, expected - there) if rows
        ]
        assert there == expected, f"seed {seed}, {what}, {name}: " + "; ".join(said)

    told = list[Change]()
    for n, batch in enumerate(pack.sent()):
        deliver(batch)
        told += [event for _, event in batch if isinstance(event, Change)]
        assert not replica.run(checkpoint=str(tmp_path / "checkpoint")).dead_letters
        for name in names if n else ():
            check("tables", name, f"batch {n}")
    logs = {name: DeltaTable(replica.to / "d" / name).version() for name in names}
    replica.run()  # all messages once more
    assert logs == {name: DeltaTable(replica.to / "d" / name).version() for name in names}
    replica.to = tmp_path / "at once"
    replica.run()
    for name in names:
        check("at once", name, "at once")


def test_the_table_as_it_was_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """The query is the manual's."""
    replica = replica_of(spark, tmp_path)
    replica.topic.grow(_HISTORY)
    (done,) = replica.run().tables
    assert (done.rows, done.upserted, done.deleted, done.unchanged) == (7, 5, 1, 0)
    assert replica.rows("id", "n", *_SINCE) == _VERSIONS
    by_delta_rs = DeltaTable(done.where).to_pyarrow_table().to_pylist()
    shown = [tuple(v and v - _T0 if v and v > _T0 else v for v in r.values()) for r in by_delta_rs]
    assert sorted(shown, key=str) == _VERSIONS
    manual = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    (query,) = (q for q in re.findall(r"```sql\n(.*?)```", manual, re.DOTALL) if "_valid_from" in q)

    def as_of(commit_ts: int) -> list[tuple[Any, ...]]:
        asked = query.replace("out/history/shop/orders", done.where).replace("456789012345678901", str(commit_ts))
        return sorted(tuple(found) for found in spark.sql(asked).select("id", "n").collect())

    assert [as_of(_T0 + n) for n in range(6)] == [[], [(1, 1)], [(1, 1), (2, 1)], [(2, 1)], [(2, 2)], [(1, 1), (2, 2)]]


def test_a_late_change_lands_at_its_place_and_a_repetition_makes_no_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    replica = replica_of(spark, tmp_path, checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow(_HISTORY[:1])
    replica.topic.deliver([(1, _HISTORY[3]), (1, _HISTORY[2])])
    (done,) = replica.run().tables
    assert (done.upserted, done.deleted) == (1, 1)
    assert replica.rows("id", "n", *_SINCE) == [(1, None, 3, 3), (2, 1, 2, None)]
    replica.topic.deliver((2, message) for message in _HISTORY[:0:-1])
    replica.run()
    assert replica.rows("id", "n", *_SINCE) == _VERSIONS
    version = replica.version()
    for again in (_HISTORY[1:4], _HISTORY[4:], _HISTORY[3:5]):
        replica.topic.deliver((3, message) for message in again)
        (done,) = replica.run().tables
        assert (done.upserted, done.deleted, done.unchanged) == (0, 0, len({m["commitTs"] for m in again}))
        assert replica.version() == version


def test_deletes_before_a_table_is_there_are_remembered(spark: SparkSession, tmp_path: Path) -> None:
    replica = replica_of(spark, tmp_path, checkpoint=str(tmp_path / "checkpoint"))
    replica.topic.grow([_CREATE, _HISTORY[3]])
    replica.run()
    assert not replica.to.joinpath("d").exists()
    replica.topic.grow(_HISTORY[1:3])
    replica.run()
    assert replica.rows("id", "n", *_SINCE) == [(1, 1, 1, 3), (2, 1, 2, None)]


def test_an_update_of_the_key_ends_the_row_of_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    replica = replica_of(spark, tmp_path)
    moved = {**row(_T0 + 3, _T0, kind="UPDATE", id=3, n=1), "old": {"id": "1", "n": "1"}}
    replica.topic.grow([*_HISTORY[:3], moved])
    (done,) = replica.run().tables
    assert (done.upserted, done.deleted) == (3, 1)
    assert replica.rows("id", "n", *_SINCE) == [(1, 1, 1, 3), (2, 1, 2, None), (3, 1, 3, None)]


def test_schema_changes_and_metadata(spark: SparkSession, tmp_path: Path) -> None:
    replica = replica_of(spark, tmp_path, ddl="evolve", metadata=["_verdict"])
    replica.topic.grow([*_HISTORY[:4], row(_T0 + 3, _T0, kind="DELETE", id=9, n=1)])
    replica.run()
    wider = table(_T0 + 7, ID, {**_N, "name": "m"}, {**ID, "name": "l", "default": "5"})
    replica.topic.grow([ddl("ALTER TABLE t RENAME COLUMN n TO m, ADD COLUMN l int NOT NULL DEFAULT 5", _T0 + 7, wider)])
    replica.topic.grow([row(_T0 + 8, _T0 + 7, id=2, m=8, l=6)])
    replica.run()
    assert replica.rows("id", "m", "l", "_verdict", *_SINCE) == [
        (1, 1, 5, "none", 1, 3),
        (2, 1, 5, "none", 2, 8),
        (2, 8, 6, "none", 8, None),
        (9, None, 5, None, 3, 3),
    ]
    version = replica.version()
    replica.run()
    assert replica.version() == version


def test_rows_without_a_key_are_appended(spark: SparkSession, tmp_path: Path) -> None:
    replica = replica_of(spark, tmp_path)
    unkeyed = {**table(_T0, ID, _N), "indexes": []}
    replica.topic.grow([ddl("CREATE TABLE t (id int, n int)", _T0, unkeyed), *_HISTORY[1:4]])
    (done,) = replica.run().tables
    assert "1 deletes were not applied: the table has no key" in done.warnings
    assert replica.rows("id", "n", *_SINCE) == [(1, 1, 1, None), (2, 1, 2, None)]


def test_avro_whose_deletes_have_no_commit_ts_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    topic = AvroTopic(spark, tmp_path)
    topic.register(1, id=INT)
    topic.register(2, id=INT, n=NUMBER)
    topic.put(1, 2, id=1, n=5, ts=7)
    with pytest.raises(tidecast.ConfigError, match=r"--mode history needs a commit-ts .*--mode soft-delete"):
        topic.replicate(mode="history")
    assert not list(tmp_path.glob("**/_delta_log"))
