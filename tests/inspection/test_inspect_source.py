"""Messages of a source that are looked for: by their place, and by their row."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession
from servers import KafkaBroker
from small_topic import CHANGED_ROWS, write_topic
from storage_sink import StorageSinkFolder, number

import tidecast
from tidecast import ConfigError
from tidecast._errors import Unreachable
from tidecast.inspection._events import Search
from tidecast.inspection._follow import _Following
from tidecast.inspection._inspected import Inspected
from tidecast.inspection._wanted import Wanted, commit_ts_range, key_of
from tidecast.model import SchemaHistory, compose
from tidecast.topics import Spans

_T0, _MS = compose(1_700_000_000_000), compose(1)
_ROWS = 1500
_N: Said = {**ID, "name": "n", "nullable": True}


def parts(wanted: Wanted, spans: Spans) -> list[list[tuple[int, int]]]:
    return [[*part.values()] for part in wanted.parts(spans)]


def test_no_more_of_a_topic_is_read_than_a_search_takes() -> None:
    two: Spans = {("t", 0): (10, 1_000_000), ("t", 1): (0, 5)}
    assert parts(Wanted(4), two)[:2] == [[(10, 14), (0, 4)], [(10, 1010), (0, 5)]]
    assert parts(Wanted(4, last=True), two)[:2] == [[(999_996, 1_000_000), (1, 5)], [(999_000, 1_000_000), (0, 5)]]
    around = parts(Wanted(10, partition=0, offset=500), two)
    assert around[:3] == [[(500, 501)], [(10, 1500)], [(10, 30_500)]]
    assert around[-2:] == [[(10, 1_000_000)], [(10, 1_000_000), (0, 5)]]
    assert parts(Wanted(10, table="d.t"), two)[0] == [(10, 1010), (0, 5)]
    assert parts(Wanted(9), {("t", 1): (0, 5)}) == [[(0, 5)]]
    for nowhere in (Wanted(1, topic="u"), Wanted(1, partition=2), Wanted(1, partition=1, offset=5)):
        with pytest.raises(ConfigError, match="t partition 0 has offsets 10 to 999999; t partition 1 has offsets 0 to"):
            parts(nowhere, two)


def test_keys_and_times_are_read_as_they_are_written() -> None:
    assert key_of(['{"id": 18446744073709551615, "d": 1.50, "s": null}', "a=b=c"]) == {
        "id": "18446744073709551615",
        "d": "1.50",
        "s": None,
        "a": "b=c",
    }
    assert commit_ts_range("7") == (7, 7)
    assert commit_ts_range("7..9") == (7, 9)
    assert commit_ts_range("7..") == (7, (1 << 63) - 1)
    assert commit_ts_range("2023-11-14T22:13:20Z") == (_T0, _T0 + _MS - 1)
    assert commit_ts_range("..2023-11-14T22:13:20Z") == (0, _T0 + _MS - 1)
    for wrong in ("", "..", "noon", "7..noon"):
        with pytest.raises(ConfigError, match="--commit-ts cannot be"):
            commit_ts_range(wrong)
    for wrong in ("9..7", "2023-11-15..2023-11-14"):
        with pytest.raises(ConfigError, match="ends before it begins"):
            commit_ts_range(wrong)
    for wrong in ("7", "=7", "{"):
        with pytest.raises(ConfigError, match="--key"):
            key_of([wrong])


def shown(found: Sequence[tidecast.Inspected]) -> list[tuple[int | None, int | None, str, list[str | None]]]:
    return [(m.partition, m.offset, m.type, [c.new for c in m.columns]) for m in found]


def test_messages_are_found_in_kafka(spark: SparkSession, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("found", partitions=2)
    producer, ms = broker.producer(), time.time_ns() // 1_000_000

    def send(partition: int, message: Said) -> None:
        nonlocal ms
        ms += 1
        producer.produce("found", json.dumps(message).encode(), partition=partition, timestamp=ms)

    for partition in (0, 1):
        send(partition, ddl("CREATE TABLE t (id int, n int)", _T0, table(_T0, ID, _N)))
    for n in range(1, _ROWS):
        send(0, row(_T0 + n, _T0, id=n, n=-n))
    send(1, row(_T0 + 5, _T0, id=5000, n=0))
    send(0, row(_T0 + _ROWS * _MS, _T0, kind="DELETE", id=3, n=-3))
    send(1, row(_T0 + _ROWS * _MS, _T0, id=5001, n=1))
    send(1, watermark(_T0 + _ROWS * _MS))
    assert producer.flush(30) == 0
    source = f"kafka://{broker.bootstrap}/found"  # its first message tells the protocol
    said: list[str] = []

    def found(**options: object) -> list[tuple[int | None, int | None, str, list[str | None]]]:
        said.clear()
        options = {"progress": lambda text, done, total: said.append(text), **options}
        return shown(tidecast.inspect(source, spark=spark, **options))  # type: ignore[arg-type]

    # The schema of the row is told 1,400 messages before it, and is found there.
    assert found(partition=0, offset=1400) == [(0, 1400, "INSERT", ["1400", "-1400"])]
    assert [text for text in said if text.startswith("looking")] == [
        "looking into 1,100 messages",
        "looking into 1,501 messages",
    ]
    assert found(last=3, topic="found") == [
        (0, _ROWS, "DELETE", [None, None]),
        (1, 2, "INSERT", ["5001", "1"]),
        (1, 3, "WATERMARK", []),
    ]
    assert found(partition=1, limit=2) == [(1, 0, "CREATE", [None, None]), (1, 1, "INSERT", ["5000", "0"])]
    assert not any(text.startswith("looking") for text in said)
    assert [(p, o) for p, o, _, _ in found(key=['{"id": 3}'], table="d.t")] == [(0, 3), (0, _ROWS)]
    assert found(key=["id=3"], table="d.u") == found(key=["no=3"]) == []
    assert [o for _, o, _, _ in found(commit_ts=f"{_T0 + 5}", limit=5)] == [5, 1]
    assert [o for _, o, _, _ in found(commit_ts=f"{_T0 + 6}..", last=2, partition=0)] == [_ROWS - 1, _ROWS]
    # What comes is followed, with the schema that was told before, even if the broker does not answer when it is asked.
    told, faults = _Following._told, iter([Unreachable("nobody answers")])

    def told_later(following: _Following) -> SchemaHistory | None:
        for fault in faults:
            raise fault
        return told(following)

    monkeypatch.setattr(_Following, "_told", told_later)
    coming = tidecast.follow(source, last=1, partition=1, key=["n=1"], spark=spark)
    assert next(coming).offset == 2
    for n in range(1, 4):
        send(1, row(_T0 + (_ROWS + n) * _MS, _T0, id=6000 + n, n=n % 2))
    assert producer.flush(30) == 0
    assert shown([next(coming), next(coming)]) == [(1, 4, "INSERT", ["6001", "1"]), (1, 6, "INSERT", ["6003", "1"])]
    with pytest.raises(ConfigError, match=r"no message at partition 1 offset 7 .*found partition 1 has offsets 0 to 6"):
        found(partition=1, offset=7)


def test_messages_are_found_in_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_topic(tmp_path / "t.jsonl", CHANGED_ROWS)
    source = str(tmp_path / "t.jsonl")

    def found(**options: object) -> list[tuple[int | None, int | None, str, list[str | None]]]:
        return shown(tidecast.inspect(source, spark=spark, **options))  # type: ignore[arg-type]

    assert found(offset=3) == [(None, 3, "UPDATE", ["1", "new"])]
    assert found(last=1, partition=4) == [(None, 5, "INSERT", ["3", "three"])]
    assert [o for _, o, _, _ in found(key=["id=2"])] == [2, 4]
    assert [o for _, o, _, _ in found(key=["name=one"], last=1)] == [3]
    assert found(limit=1) == [(None, 0, "CREATE", [None, None])]
    coming = tidecast.follow(source, last=1, spark=spark)
    assert next(coming).offset == 5
    write_topic(
        tmp_path / "t.jsonl", [*CHANGED_ROWS, CHANGED_ROWS[1]]
    )  # a file that grows is read again, and shown once
    assert shown([next(coming)]) == [(None, 6, "INSERT", ["1", "one"])]
    # Somebody who does not answer is asked again, and nothing is left out.
    explained, faults = Search.explained, iter([Unreachable("nobody answers")])

    def unreachable_once(*args: Any) -> list[Inspected]:
        for fault in faults:
            raise fault
        return explained(*args)

    monkeypatch.setattr(Search, "explained", unreachable_once)
    write_topic(tmp_path / "t.jsonl", [*CHANGED_ROWS, *CHANGED_ROWS[1:3]])
    assert next(coming).offset == 7
    assert "nobody answers; trying again in 1 s" in caplog.text


def test_rows_at_one_place_in_two_files_are_each_shown(spark: SparkSession, tmp_path: Path) -> None:
    for file, n in (("a", 3), ("b", 5)):
        write_topic(tmp_path / f"{file}.jsonl", [CHANGED_ROWS[0], CHANGED_ROWS[n]])
    source = f"{tmp_path}?protocol=simple"
    for session in (spark, None):
        found = shown(tidecast.inspect(source, table="shop.t", spark=session))
        assert sorted(new for _, _, _, new in found) == [["1", "new"], ["3", "three"]]


@pytest.mark.timeout(300)
def test_what_any_node_adds_to_a_storage_sink_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of a table that is spread over nodes lie in the order of the nodes, not of their coming."""
    folder = StorageSinkFolder(tmp_path / "sink")
    folder.schema(1, "t", [number("id", key=True)])
    for node in ("CDC_a", "CDC_b"):
        folder.rows(1, "t", 1, ("I", 2, [1 if node == "CDC_a" else 2]), prefix=node)
    coming = tidecast.follow(f"{folder.root}?protocol=csv", last=1, spark=spark)
    assert [c.new for c in next(coming).columns] == ["2"]
    folder.rows(1, "t", 2, ("I", 3, [3]), ("I", 3, [4]), prefix="CDC_a")
    folder.checkpoint(4)
    assert [(m.type, [c.new for c in m.columns]) for m in (next(coming), next(coming), next(coming))] == [
        ("INSERT", ["3"]),
        ("INSERT", ["4"]),
        ("WATERMARK", []),
    ]
    folder.rows(1, "t", 2, ("I", 5, [5]), prefix="CDC_b")
    folder.checkpoint(6)
    assert [(m.type, [c.new for c in m.columns]) for m in (next(coming), next(coming))] == [
        ("INSERT", ["5"]),
        ("WATERMARK", []),
    ]


def test_schemas_tell_what_is_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """Schema changes and watermarks of Debezium as Avro: their bytes alone tell no more than the ids of schemas."""
    registry = f"file://{tmp_path}/schemas"
    source = GrowingTopic(tmp_path / "simple")
    source.grow([ddl("CREATE TABLE `d`.`t`", _T0, table(_T0, ID)), row(_T0 + 1, _T0, id=1), watermark(_T0 + 2)])
    topic = f"file://{tmp_path}/out/t?protocol=debezium-avro&enable-tidb-extension=true&avro-enable-watermark=true"
    tidecast.convert(source.uri, f"{topic}&partition-num=1", schema_registry=registry, tz="UTC", spark=spark)
    for session in (None, spark):
        found = tidecast.inspect(topic, schema_registry=registry, tz="UTC", spark=session)
        assert [(m.type, m.table, m.commit_ts, m.sql, m.problem) for m in found] == [
            ("DDL", "d.t", _T0, "CREATE TABLE `d`.`t`", None),
            ("INSERT", "d.t", _T0 + 1, None, None),
            ("WATERMARK", "", _T0 + 2, None, None),
        ]
        assert all(m.value_schema_id for m in found)
