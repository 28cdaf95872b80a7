"""Dead letters that are applied once more: in the order of their keys, each row once, also after a crash."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from crash_points import CrashPoints, Killed
from full import full
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose
from tidecast.replica.state import AppliedKeys
from tidecast.storage import locked

_T0 = compose(1_700_000_000_000)
_N: Said = {**ID, "name": "n", "nullable": True}
_KEYED, _PLAIN = table(_T0, ID, _N), table(_T0, _N, name="plain") | {"indexes": []}
_FIRST = [
    ddl("CREATE TABLE t (id int primary key, n int)", _T0, _KEYED),
    ddl("CREATE TABLE plain (n int)", _T0, _PLAIN),
    *(row(_T0 + n, _T0, id=n, n=n) for n in range(1, 5)),
    *(row(_T0 + n, _T0, name="plain", n=n) for n in range(1, 4)),
    watermark(_T0 + 10),
]
_SECOND = [
    row(_T0 + 11, _T0, kind="UPDATE", id=1, n=100),
    row(_T0 + 12, _T0, kind="DELETE", id=2, n=2),
    row(_T0 + 13, _T0, id=9, n=9),
    row(_T0 + 14, _T0, name="plain", n=5),
    watermark(_T0 + 20),
]
_KEYED_ROWS, _PLAIN_ROWS = [(1, 100), (3, 3), (4, 4), (9, 9)], [(1,), (2,), (3,), (5,)]


class Replica:
    """A topic, and its tables d.t, which has a key, and d.plain, which has none."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.to, self.options = spark, folder, folder / "tables", options
        self.topic = GrowingTopic(folder / "topic")

    def _where(self) -> dict[str, Any]:
        return {"checkpoint": str(self.folder / "checkpoint"), "spark": self.spark, **self.options}

    def run(self, batch: Sequence[Said]) -> tidecast.Replicated:
        self.topic.grow(batch)
        return tidecast.replicate(self.topic.uri, str(self.to), **self._where())

    def retry(self, **options: Any) -> tidecast.Retried:
        return tidecast.retry_dead_letters(self.topic.uri, str(self.to), **{**self._where(), **options})

    def obstruct(self) -> None:
        """Let something else than tables lie where they shall be."""
        for name in ("t", "plain"):
            (self.to / "d" / name).mkdir(parents=True)
            (self.to / "d" / name / "notes.txt").write_text("mine")

    def clear(self) -> None:
        for name in ("t", "plain"):
            (self.to / "d" / name / "notes.txt").unlink()

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        there = self.spark.read.format("delta").load(str(self.to / "d" / name))
        return sorted(tuple(one) for one in there.select(*columns).collect())

    def both(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        return self.rows("t", "id", "n"), self.rows("plain", "n")

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(s) for f in self.to.glob("_dead_letters/*.jsonl") for s in f.read_text().splitlines()]

    def letters(self) -> list[tuple[int, str]]:
        return sorted((one["offset"], one["reason"]) for one in self.lines())

    def add_letters(self, *letters: dict[str, Any]) -> None:
        text = "".join(json.dumps(letter) + "\n" for letter in letters)
        (self.to / "_dead_letters" / "more.jsonl").write_text(text)

    def verdicts(self) -> dict[str, str]:
        return {one.table: str(one.verdict) for one in tidecast.prove(str(self.to), spark=self.spark).tables}

    def is_what_the_topic_comes_to(self) -> bool:
        return tidecast.compare(self.topic.uri, str(self.to), spark=self.spark).ok


@pytest.fixture
def refused(spark: SparkSession, tmp_path: Path) -> Replica:
    """A replica whose first batch no table could take, and its second one could."""
    replica = Replica(spark, tmp_path)
    replica.obstruct()
    assert replica.run(_FIRST).dead_letters == {"table-refused": 7}
    replica.clear()
    assert replica.run(_SECOND).dead_letters == {}
    return replica


@full
def test_no_newer_row_is_set_back_and_no_row_comes_twice(refused: Replica) -> None:
    assert refused.both() == ([(1, 100), (9, 9)], [(5,)])
    with (
        locked(refused.folder / "checkpoint", "let it end"),
        pytest.raises(tidecast.TerminalError, match="a run of the replica is at work"),
    ):
        refused.retry()
    done = refused.retry()
    assert (done.letters, done.applied, done.dead_letters) == (7, 7, {})
    assert refused.both() == (_KEYED_ROWS, _PLAIN_ROWS)
    assert refused.letters() == []
    assert refused.verdicts() == {"d.t": "equal", "d.plain": "equal"}
    assert refused.is_what_the_topic_comes_to()
    assert refused.retry() == tidecast.Retried()
    applied = (refused.to / "_dead_letters" / "_applied").glob("*.jsonl")
    assert sum(len(file.read_text().splitlines()) for file in applied) == 7
    # What comes then goes on from there, and a repetition of what was retried changes nothing.
    refused.run([row(_T0 + 1, _T0, id=1, n=1), row(_T0 + 1, _T0, name="plain", n=1), row(_T0 + 21, _T0, id=5, n=5)])
    assert refused.both() == ([*_KEYED_ROWS[:3], (5, 5), (9, 9)], _PLAIN_ROWS)
    assert refused.verdicts() == {"d.t": "equal", "d.plain": "equal"}


@full
def test_what_is_not_known_to_be_lacking_stays_a_dead_letter(refused: Replica) -> None:
    # A batch leaves it out, as a repetition; had it come before the end of the first one, that would have taken it.
    refused.run([row(_T0 + 1, _T0, name="plain", n=1), watermark(_T0 + 30)])
    letter = refused.lines()[-1]
    other = json.dumps(row(_T0 + 9, _T0, name="plain", n=99)).encode()
    foreign = letter | {"value": base64.b64encode(other).decode()}
    refused.add_letters(foreign | {"offset": 13}, foreign | {"offset": 999})  # another replica's topic of this name
    done = refused.retry(on_data_loss="continue")
    assert (done.letters, done.applied, done.dead_letters) == (7, 6, {"table-refused": 1})
    assert done.warnings[0] == "2 dead letters are of another topic of this name, and stay as they are"
    assert refused.both() == (_KEYED_ROWS, [(2,), (3,), (5,)])
    assert refused.letters() == [(6, "table-refused"), (13, "table-refused"), (999, "table-refused")]


def test_a_message_that_cannot_be_applied_again_sets_no_key_back(spark: SparkSession, tmp_path: Path) -> None:
    replica, wrong = Replica(spark, tmp_path), {"version": 0, "corrupted": False, "current": 1, "previous": 1}
    created, good = _FIRST[0], row(_T0 + 1, _T0, id=1, n=1)
    replica.run([created, good, row(_T0 + 2, _T0, kind="UPDATE", id=1, n=2) | {"checksum": wrong}, watermark(_T0 + 3)])
    assert replica.retry(on_mismatch="apply").applied == 1
    value = base64.b64encode(json.dumps(good).encode()).decode()
    replica.add_letters({"topic": "topic", "partition": 0, "offset": 1, "value": value, "reason": "table-refused"})
    assert replica.retry().applied == 0
    assert replica.rows("t", "id", "n") == [(1, 2)]
    assert replica.letters() == [(1, "table-refused")]


@full
@pytest.mark.parametrize("mode", ["soft-delete", "history", "log"])
def test_tables_of_every_mode_take_them(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    replica = Replica(spark, tmp_path, mode=mode)
    replica.obstruct()
    replica.run(_FIRST)
    replica.clear()
    replica.run(_SECOND)
    assert replica.retry().applied == 7
    assert replica.verdicts() == {"d.t": "equal", "d.plain": "equal"}
    assert replica.is_what_the_topic_comes_to()


def _killed(*_: object) -> None:
    raise Killed


def test_a_run_that_was_killed_goes_on_before_a_retry(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table may have its new name already, and no journal tell it: the retry would make one under the old name."""
    replica = Replica(spark, tmp_path, mode="log")
    wrong = {"checksum": {"version": 0, "corrupted": False, "current": 1, "previous": 1}}
    replica.run([_FIRST[0], row(_T0 + 1, _T0, id=1, n=1), row(_T0 + 2, _T0, id=2, n=2) | wrong, watermark(_T0 + 3)])
    renamed = ddl("RENAME TABLE d.t TO d.t2", _T0 + 10, table(_T0 + 10, ID, _N, name="t2"))
    replica.topic.grow([renamed | {"preTableSchema": _KEYED}, row(_T0 + 11, _T0 + 10, name="t2", id=3, n=3)])
    with monkeypatch.context() as patch:
        patch.setattr(AppliedKeys, "move", _killed)
        with pytest.raises(Killed):
            replica.run([])
    assert not (replica.to / "d" / "t").exists()
    with pytest.raises(tidecast.TerminalError, match="a run of the replica ended within a batch"):
        replica.retry(on_mismatch="apply")
    replica.run([])
    assert replica.retry(on_mismatch="apply").applied == 1
    assert replica.rows("t2", "id", "n") == [(1, 1), (2, 2), (3, 3)]
    assert not (replica.to / "d" / "t").exists()
    assert replica.verdicts() == {"d.t2": "equal"}


@full
def test_what_still_fails_stays_with_its_present_reason(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.obstruct()
    replica.run(_FIRST)
    (replica.to / "d" / "plain" / "notes.txt").unlink()
    text = {**_N, "dataType": {**_N["dataType"], "mysqlType": "varchar", "length": 9}}
    other = table(_T0 + 30, ID, text)
    (replica.to / "_dead_letters" / "other.jsonl").write_text('{"topic":"other","offset":1,"reason":"bad-json"}\n')
    done = replica.retry()
    assert (done.letters, done.applied, done.dead_letters) == (7, 3, {"table-refused": 4})
    assert replica.rows("plain", "n") == [(1,), (2,), (3,)]
    before = replica.letters()
    assert before == [(1, "bad-json"), *((n, "table-refused") for n in range(2, 6))]
    assert replica.retry().applied == 0
    assert replica.letters() == before
    (replica.to / "d" / "t" / "notes.txt").unlink()
    replica.run([row(_T0 + 11, _T0, id=8, n=8), ddl("ALTER TABLE t MODIFY n varchar(9)", _T0 + 30, other)])
    assert replica.retry(ddl="lenient").applied == 4
    assert replica.letters() == [(1, "bad-json")]
    assert replica.rows("t", "id") == [(1,), (2,), (3,), (4,), (8,)]
    counted = tidecast.list_dead_letters(str(replica.to))
    assert [(one.topic, one.reason, one.count) for one in counted] == [("other", "bad-json", 1)]


@full
def test_of_a_message_that_is_gone_nothing_tells_what_came_after_it(refused: Replica) -> None:
    first = min((refused.folder / "topic").glob("*.jsonl"))
    first.unlink()
    done = refused.retry()
    assert (done.letters, done.applied) == (0, 0)
    assert done.warnings == ("the topic no longer holds the messages of 7 dead letters, and they stay as they are",)
    assert len(refused.letters()) == 7
    assert refused.retry(on_data_loss="continue").applied == 7
    assert refused.both() == (_KEYED_ROWS, _PLAIN_ROWS)  # the second batch is still there


@full
@pytest.mark.parametrize("at", range(1, 35))
def test_a_crash_anywhere_leaves_nothing_undone_and_nothing_twice(refused: Replica, at: int, tmp_path: Path) -> None:
    with CrashPoints(tmp_path, at).watching() as crash, pytest.raises(Killed):
        refused.retry()
    if at % 2:  # the replica may go on before the next retry
        refused.run([row(_T0 + 22, _T0, name="plain", n=7), watermark(_T0 + 30)])
    refused.retry()
    more = [(7,)] if at % 2 else []
    assert refused.both() == (_KEYED_ROWS, _PLAIN_ROWS + more), crash.points[-1]
    assert refused.letters() == []
    assert refused.retry().letters == 0
    refused.run([row(_T0 + 31, _T0, id=7, n=7), row(_T0 + 31, _T0, name="plain", n=8), watermark(_T0 + 40)])
    assert refused.verdicts() == {"d.t": "equal", "d.plain": "equal"}, crash.points[-1]


def test_of_messages_of_another_protocol_a_warning_tells_which(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.topic.deliver([(0, row(_T0 + 1, _T0, id=1))])
    wrong = replica.topic.uri.replace("simple", "debezium")
    for checkpoint in (None, str(tmp_path / "checkpoint")):
        done = tidecast.replicate(wrong, str(replica.to), checkpoint=checkpoint, spark=spark)
        assert done.dead_letters == {"bad-message": 1}
        assert done.warnings == ("no message could be read as protocol=debezium: it looks like simple",)


@full
def test_messages_at_one_place_stay_dead_letters_each(spark: SparkSession, tmp_path: Path) -> None:
    """Where lines tell no offset, their number in their file is one: each file has a message at it."""
    replica, wrong = Replica(spark, tmp_path), {"version": 0, "corrupted": False, "current": 1, "previous": 1}
    for n, file in enumerate("ab"):
        said = [_FIRST[0], row(_T0 + 1 + n, _T0, id=n, n=n) | {"checksum": wrong}, row(_T0 + 3 + n, _T0, id=n + 4, n=n)]
        values = [*(json.dumps(one).encode() for one in said), f"bad {file}".encode()]
        lines = (json.dumps({"value": base64.b64encode(value).decode()}) for value in values)
        (tmp_path / "topic" / f"{file}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert replica.run([]).dead_letters == {"bad-json": 2, "checksum-mismatch": 2}
    done = replica.retry(on_mismatch="apply")
    assert (done.letters, done.applied, done.dead_letters) == (4, 2, {"bad-json": 2})
    assert replica.rows("t", "id", "n") == [(0, 0), (1, 1), (4, 0), (5, 1)]
    assert sorted(base64.b64decode(one["value"]) for one in replica.lines()) == [b"bad a", b"bad b"]
