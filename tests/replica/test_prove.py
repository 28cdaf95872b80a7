"""The ledger's proof of tables, and tables against each other and against their topic."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from crash_points import CrashPoints, Killed
from full import full
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidecast
from tidecast import ComparedTable, ProofVerdict, ProvenTable
from tidecast.model import compose
from tidecast.replica.check import _compare
from tidecast.replica.state._proof import RowSum, row_hash, row_sum

_T0 = compose(1_700_000_000_000)


def _number(name: str, kind: str = "int", **more: Any) -> Said:
    return {**ID, "name": name, "dataType": {**ID["dataType"], "mysqlType": kind}, "nullable": True, **more}


_KEYED, _PLAIN = table(_T0, ID, _number("n")), table(_T0, _number("n"), name="plain") | {"indexes": []}
_FIRST = [
    ddl("CREATE TABLE t (id int primary key, n int)", _T0, _KEYED),
    ddl("CREATE TABLE plain (n int)", _T0, _PLAIN),
    *(row(_T0 + n, _T0, id=n, n=n) for n in range(1, 9)),
    *(row(_T0 + n, _T0, name="plain", n=n) for n in range(1, 5)),
    watermark(_T0 + 10),
]
_SECOND = [
    row(_T0 + 11, _T0, kind="UPDATE", id=1, n=100),
    row(_T0 + 12, _T0, kind="DELETE", id=2, n=2),
    row(_T0 + 13, _T0, id=9, n=9),
    row(_T0 + 14, _T0, name="plain", n=5),
    watermark(_T0 + 20),
]


class Replica:
    """A topic, and the tables d.t, which has a key, and d.plain, which has none."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.to, self.options = spark, folder, str(folder / "tables"), options
        self.topic = GrowingTopic(folder / "topic")

    def run(self, batch: Sequence[Said] = ()) -> tidecast.Replicated:
        if batch:
            self.topic.grow(batch)
        checkpoint = str(self.folder / "checkpoint")
        return tidecast.replicate(self.topic.uri, self.to, checkpoint=checkpoint, spark=self.spark, **self.options)

    def at(self, name: str) -> Path:
        return Path(self.to, "d", name)

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.format(t=f"delta.`{self.at('t')}`", plain=f"delta.`{self.at('plain')}`")).collect()

    def data_files(self, name: str) -> list[str]:
        there = self.spark.read.format("delta").load(str(self.at(name))).inputFiles()
        return [unquote(urlsplit(file).path) for file in there]

    def proven(self) -> dict[str, ProvenTable]:
        return {one.table: one for one in tidecast.prove(self.to, spark=self.spark).tables}

    def verdicts(self) -> dict[str, str]:
        return {name: str(one.verdict) for name, one in self.proven().items()}

    def compared(self, a: str, b: str, **options: Any) -> dict[str, ComparedTable]:
        return {one.table: one for one in tidecast.compare(a, b, spark=self.spark, **options).tables}

    def with_topic(self, **options: Any) -> dict[str, ComparedTable]:
        return self.compared(self.topic.uri, self.to, **options)


BOTH_EQUAL = {"d.plain": "equal", "d.t": "equal"}


@pytest.mark.parametrize(
    "mode", ["history", *(pytest.param(mode, marks=full) for mode in ("current", "soft-delete", "log"))]
)
def test_tables_of_every_mode_are_proven_and_are_what_the_topic_comes_to(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    replica = Replica(spark, tmp_path, mode=mode, metadata=["_commit_ts"])
    replica.run(_FIRST)
    assert replica.verdicts() == BOTH_EQUAL
    replica.run(_SECOND)
    replica.run([row(_T0 + 21, _T0, id=2, n=22), row(_T0 + 22, _T0, kind="DELETE", id=9, n=9)])
    replica.sql("OPTIMIZE {t}")
    proven = replica.proven()
    assert {name: str(one.verdict) for name, one in proven.items()} == BOTH_EQUAL
    assert (
        proven["d.t"].rows == proven["d.t"].expected == {"current": 8, "soft-delete": 9, "history": 11, "log": 13}[mode]
    )
    assert all(one.ok for one in replica.with_topic().values()), replica.with_topic()


def test_a_row_changed_by_hand_shows_also_after_another_batch(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run(_FIRST)
    replica.sql("UPDATE {t} SET n = 33 WHERE id = 3")
    replica.run(_SECOND)
    proven = replica.proven()
    assert replica.verdicts() == {"d.plain": "equal", "d.t": "differs"}
    assert "as many rows as its batches made, but others" in proven["d.t"].detail
    (changed,) = replica.with_topic()["d.t"].rows
    assert (changed.key, changed.columns) == ({"id": "3"}, {"n": ("3", "33")})
    # A change of the columns, for which the table is read anew, hides it no more than a batch that puts it right.
    wider = table(_T0 + 30, ID, _number("n", "bigint"))
    heals = row(_T0 + 31, _T0 + 30, kind="UPDATE", id=3, n=3)
    replica.run([ddl("ALTER TABLE t MODIFY n bigint", _T0 + 30, wider), heals])
    assert replica.verdicts()["d.t"] == "differs"
    assert replica.with_topic()["d.t"].ok


def test_a_table_that_was_removed_shows_also_after_another_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The batch makes it anew, with its own rows alone."""
    replica = Replica(spark, tmp_path)
    replica.run(_FIRST)
    shutil.rmtree(replica.at("t"))
    warned = {one.name: "it was not there" in " ".join(one.warnings) for one in replica.run(_SECOND).tables}
    assert warned == {"d.t": True, "d.plain": False}
    assert replica.verdicts() == {"d.plain": "equal", "d.t": "differs"}
    assert "8 rows fewer than its batches made" in replica.proven()["d.t"].detail


def test_a_row_that_is_gone_and_one_that_is_there_twice_are_named(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run(_FIRST)
    shutil.copytree(replica.to, tmp_path / "copy")
    replica.sql("DELETE FROM {t} WHERE id = 4")
    replica.sql("INSERT INTO {t} SELECT * FROM {t} WHERE id = 5")
    replica.sql("DELETE FROM {plain} WHERE n = 1")
    replica.sql("INSERT INTO {plain} SELECT * FROM {plain} WHERE n = 2")
    proven = replica.proven()
    assert {str(one.verdict) for one in proven.values()} == {"differs"}
    assert proven["d.t"].rows == proven["d.t"].expected == 8
    for one in (replica.with_topic(), replica.compared(f"{tmp_path}/copy", replica.to)):
        assert (one["d.t"].only_a, one["d.t"].only_b, one["d.t"].changed) == (1, 0, 1)
        rows = [[(r.key, r.times_a, r.times_b, dict(r.columns)) for r in one[t].rows] for t in ("d.t", "d.plain")]
        assert rows[0] == [({"id": "4"}, 1, 0, {}), ({"id": "5"}, 1, 2, {})]
        assert rows[1] == [({"n": "1"}, 1, 0, {}), ({"n": "2"}, 1, 2, {})]
    limited = replica.compared(f"{tmp_path}/copy/d/t", f"{replica.to}/d/t", limit=1)["d.t"]
    assert (limited.different, len(limited.rows)) == (2, 1)


def test_a_flipped_byte_and_a_missing_file_are_named_and_other_tables_are_checked(
    spark: SparkSession, tmp_path: Path
) -> None:
    replica = Replica(spark, tmp_path)
    replica.run([*_FIRST, ddl("CREATE TABLE u (id int primary key)", _T0, table(_T0, ID, name="u"))])
    replica.run([row(_T0 + 11, _T0, name="u", id=1)])
    (flipped,), (missing,) = replica.data_files("t"), replica.data_files("plain")
    data = bytearray(Path(flipped).read_bytes())
    data[len(data) // 3] ^= 0x40
    Path(flipped).write_bytes(data)
    Path(flipped).with_name(f".{Path(flipped).name}.crc").unlink()  # else Hadoop finds it, not Parquet
    Path(missing).unlink()
    proven = replica.proven()
    assert proven["d.u"].verdict is ProofVerdict.EQUAL
    assert proven["d.plain"].verdict is ProofVerdict.UNREADABLE
    assert Path(missing).name in proven["d.plain"].detail
    assert not proven["d.t"].ok
    compared = replica.with_topic()
    assert compared["d.u"].ok
    assert Path(missing).name in compared["d.plain"].remarks[0]
    assert not compared["d.t"].ok
    shutil.rmtree(replica.at("u"))
    assert replica.proven()["d.u"].verdict is ProofVerdict.GONE


@full
def test_columns_may_be_added_renamed_dropped_widened_and_filled(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="try_evolve")
    replica.run(_FIRST)
    c = _number("c", nullable=False, default="5")
    steps: list[tuple[str, list[Said]]] = [
        ("ADD m int", [_number("n"), _number("m")]),
        ("ADD c int NOT NULL DEFAULT 5", [_number("n"), _number("m"), c]),
        ("RENAME COLUMN n TO k", [_number("k"), _number("m"), c]),
        ("DROP COLUMN m", [_number("k"), c]),
        ("MODIFY COLUMN k bigint", [_number("k", "bigint"), c]),
    ]
    for number, (what, columns) in enumerate(steps):
        version = _T0 + 100 * (number + 1)
        batch = [ddl(f"ALTER TABLE `d`.`t` {what}", version, table(version, ID, *columns))]
        values: dict[str, Any] = {column["name"]: 7 for column in columns}
        batch += [row(version + 1, version, id=100 + number, **values)] if number % 2 else []
        replica.run(batch)
        assert replica.verdicts() == BOTH_EQUAL, what
    assert replica.with_topic(ddl="try_evolve")["d.t"].ok
    other = replica.compared(f"{replica.to}/d/t", f"{replica.to}/d/plain")["d.t / d.plain"]
    alone = {"id": "A", "k": "A", "c": "A", "n": "B"}
    assert other.remarks == tuple(f"column {name} is only in {side}" for name, side in alone.items())


@full
def test_a_kill_between_a_table_and_the_ledger_does_not_show(spark: SparkSession, tmp_path: Path) -> None:
    clean, run = tmp_path / "clean", tmp_path / "run"
    replica = Replica(spark, run)
    replica.run(_FIRST)
    shutil.copytree(run, clean)
    with CrashPoints(run).watching() as watched:
        replica.run(_SECOND)
    merged = next(n for n, (name, _) in enumerate(watched.points) if name.startswith("merge"))
    told = next(p for p in watched.points[merged:] if "/checkpoint/proof/" in p[0] and p[0].startswith("rename"))
    ledger = next(p for p in watched.points if "_tidecast/batches" in p[0])
    for point in (watched.points[merged], told, ledger):
        for name in ("tables", "checkpoint"):
            shutil.rmtree(run / name)
            shutil.copytree(clean / name, run / name)
        with CrashPoints(run, point).watching(), pytest.raises(Killed):
            replica.run()
        replica.sql("OPTIMIZE {t}")
        replica.run()
        assert replica.verdicts() == BOTH_EQUAL
        assert replica.proven()["d.t"].rows == 8


def test_a_table_that_no_checkpoint_made_is_not_proven(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.topic.grow(_FIRST)
    tidecast.replicate(replica.topic.uri, replica.to, spark=spark)
    assert replica.verdicts() == dict.fromkeys(BOTH_EQUAL, "not-proven")
    replica.run(_SECOND)
    result = tidecast.prove(replica.to, spark=spark)
    assert ({str(one.verdict) for one in result.tables}, result.ok) == ({"not-proven"}, True)
    with pytest.raises(tidecast.ConfigError, match="there are no tables"):
        tidecast.prove(str(tmp_path / "nothing"), spark=spark)
    with pytest.raises(tidecast.ConfigError, match="neither side is one"):
        tidecast.compare(replica.to, replica.to, on_unrepresentable="string", spark=spark)


def test_a_comparison_tells_of_messages_that_nobody_can_read(spark: SparkSession, tmp_path: Path) -> None:
    """Their rows are on neither side, so that both look the same."""
    replica = Replica(spark, tmp_path)
    whole = row(40, 9, id=4)
    short = {**whole, "handleKeyOnly": True}
    replica.topic.grow([ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", 9, table(9, ID)), row(20, 9, id=1), short])
    tidecast.replicate(replica.topic.uri, replica.to, spark=spark)
    told = "1 message of the topic cannot be read, and is compared with nothing"
    for sides in ((replica.topic.uri, replica.to), (replica.to, replica.topic.uri)):
        found = tidecast.compare(*sides, spark=spark)
        side = "A" if sides[0] == replica.topic.uri else "B"
        assert (found.ok, found.warnings) == (True, (f"{side}: {told}",))


def test_a_table_that_changes_while_it_is_compared_is_compared_as_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differed at first may be equal when its rows are looked at, and another row differ by then."""
    replica, other = Replica(spark, tmp_path / "a"), Replica(spark, tmp_path / "b")
    replica.run(_FIRST)
    other.run([*_FIRST, row(_T0 + 21, _T0, id=9, n=9)])
    look = _compare._different

    def meanwhile(*asked: Any) -> DataFrame:
        replica.run([row(_T0 + 21, _T0, id=9, n=9), row(_T0 + 22, _T0, kind="UPDATE", id=1, n=100)])
        return look(*asked)

    monkeypatch.setattr(_compare, "_different", meanwhile)
    found = replica.compared(replica.to, other.to)["d.t"]
    assert (found.rows_a, found.rows_b, found.only_a, found.only_b, found.changed) == (8, 9, 0, 1, 0)


def test_a_sum_tells_null_from_other_places_and_twice_from_never_as_python_does(session: SparkSession) -> None:
    chance = random.Random(7)
    lots: list[list[tuple[int | None, ...]]] = []
    for _ in range(30):
        lots.append([tuple(chance.choice([None, 0, 1, -1]) for _ in "xy") for _ in range(chance.randrange(1, 4))])
    lots += [[(1, None)], [(None, 1)], [(1, 1)] * 2, [(1, 1)], [(None, None)], [(1, None), (None, 1)]]
    rows = [(n, *one) for n, lot in enumerate(lots) for one in lot]
    hashed = F.expr(row_hash({"x": "x", "Y": "y"})).alias("hash")
    frame = session.createDataFrame(rows, "lot int, x int, y int").select("*", hashed).persist()
    each: dict[tuple[int | None, ...], int] = {(row.x, row.y): row.hash for row in frame.collect()}
    assert len(set(each.values())) == len(each)
    sums = {row.lot: RowSum.of(row) for row in frame.groupBy("lot").agg(*row_sum("count(1)", "hash")).collect()}
    frame.unpersist()
    assert sums == {n: RowSum(len(lot), plain_sum(each[row] for row in lot)) for n, lot in enumerate(lots)}
    assert len(set(sums.values())) == len({tuple(sorted(map(str, lot))) for lot in lots})
    far = [-(1 << 63), (1 << 63) - 1] * 30
    table = session.createDataFrame([(number,) for number in far], "far long")
    assert RowSum.of(table.agg(*row_sum("count(1)", "far")).collect()[0]).hash == plain_sum(far)


def plain_sum(hashes: Iterable[int]) -> int:
    """Return the sum of hashes, whose halves count with a sign each."""
    whole = sum(number - ((number & 0x80000000) << 1) for number in hashes)
    return (whole + (1 << 63)) % (1 << 64) - (1 << 63)
