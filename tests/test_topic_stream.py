"""A topic read batch by batch: starting in the middle, rows that wait for their schemas, restarts."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_lines import lines
from growing_topic import ID, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidecast
from tidecast import DecodeError
from tidecast.model import union
from tidecast.sources import Batch, TopicStream

PARTITIONS = 4
TABLES = ("t_ren_a", "t_ren_x", "t_ctas_a", "t_ctas_b", "t_cpk", "t_fk", "t_range")
CUTS = 50

Applied = dict[tuple[int, int], tuple[str, int, str, str]]
"""By partition and offset: table, version, operation and the rows as text."""


def in_partitions(golden: Callable[[str], Path]) -> list[dict[str, Any]]:
    """Return the golden messages of some tables as records of a topic with four partitions, in their order."""
    records, ends = [], [0] * PARTITIONS
    for message in lines(golden("simple-json.jsonl.gz")):
        if message["kind"] != "watermark" and message.get("table") not in TABLES:
            continue
        everywhere = message["partition"] is None
        for partition in range(PARTITIONS) if everywhere else [message["n"] % PARTITIONS]:
            said = {"partition": partition, "offset": ends[partition], "key": None, "value": message["value"]}
            records.append({**said, "n": message["n"]})
            ends[partition] += 1
    return records


@pytest.fixture(scope="module")
def topic(golden: Callable[[str], Path]) -> list[dict[str, Any]]:
    return in_partitions(golden)


def put(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kept = ({k: v for k, v in r.items() if k != "n"} for r in records)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in kept))


def rows(batch: Batch) -> Applied:
    """Return the rows of a batch."""
    if not batch.events.tables:
        return {}
    frames = [
        t.good.select(
            "partition",
            "offset",
            F.lit(t.schema.table).alias("table"),
            F.lit(t.schema.version).alias("version"),
            "op",
            F.to_json(F.struct("old", "data")).alias("rows"),
        )
        for t in batch.events.tables
    ]
    found = union(frames).collect()
    return {(r["partition"], r["offset"]): (r["table"], r["version"], r["op"], r["rows"]) for r in found}


def drain(stream: TopicStream) -> Applied:
    """Read everything that a stream has, and commit it."""
    applied: Applied = {}
    while (batch := stream.next()) is not None:
        with batch.events:
            applied |= rows(batch)
        stream.commit(batch)
    return applied


def stream_of(spark: SparkSession, folder: Path, **options: Any) -> TopicStream:
    uri = f"file://{folder}/topic?protocol=simple"
    return TopicStream(spark, uri, folder / "state", zone="Asia/Shanghai", **options)


@pytest.fixture(scope="module")
def whole(topic: list[dict[str, Any]], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """The rows of the whole topic, read from its beginning."""
    folder = tmp_path_factory.mktemp("whole")
    put(folder / "topic", "all", topic)
    return drain(stream_of(spark, folder))


def versions_told(records: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """Return the tables and versions whose schemas come in some records."""
    told = set()
    for record in records:
        message = json.loads(base64.b64decode(record["value"]))
        for name in ("tableSchema", "preTableSchema"):
            if name in message:
                told.add((message[name]["table"], message[name]["version"]))
    return told


@pytest.mark.parametrize("seed", range(CUTS))
def test_a_reader_may_start_in_the_middle(
    seed: int, topic: list[dict[str, Any]], whole: Applied, spark: SparkSession, tmp_path: Path
) -> None:
    """It gets every row whose schema still comes, under the same schema; the others wait, none is lost."""
    chance = random.Random(seed)
    cut = chance.randrange(len(topic))
    later = topic[cut:]
    turn = chance.randrange(len(later) + 1)
    put(tmp_path / "topic", "1", later[:turn])
    applied = drain(stream_of(spark, tmp_path))
    put(tmp_path / "topic", "2", later[turn:])
    stream = stream_of(spark, tmp_path)  # a restart
    applied |= drain(stream)

    here = {(r["partition"], r["offset"]) for r in later}
    told = versions_told(later)
    wanted = {place: row for place, row in whole.items() if place in here and (row[0], row[1]) in told}
    assert applied == wanted
    assert stream.progress.rows_waiting == sum(place in here for place in whole) - len(wanted)


def test_rows_wait_on_disk_and_no_more_than_allowed(
    topic: list[dict[str, Any]], whole: Applied, spark: SparkSession, tmp_path: Path
) -> None:
    tables = [r for r in topic if (r["partition"], r["offset"]) in whole]
    told = [r for r in topic if r not in tables]
    put(tmp_path / "topic", "1", tables)
    with pytest.raises(DecodeError, match=f"{len(tables)} rows wait for the schemas"):
        drain(stream_of(spark, tmp_path, max_waiting=len(tables) - 1))
    stream = stream_of(spark, tmp_path)
    assert drain(stream) == {}
    assert stream.progress.rows_waiting == len(tables)
    put(tmp_path / "topic", "2", told)
    again = stream_of(spark, tmp_path)
    assert drain(again) == whole
    assert (again.progress.rows_waiting, again.progress.waiting) == (0, None)
    assert [f.name for f in (tmp_path / "state").iterdir()] == ["progress.json"]


def test_a_batch_that_was_not_committed_comes_again(
    topic: list[dict[str, Any]], whole: Applied, spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "topic", "1", topic)
    first = stream_of(spark, tmp_path).next()
    assert first is not None
    assert rows(first) == whole
    stream = stream_of(spark, tmp_path)
    assert drain(stream) == whole
    assert stream.next() is None
    assert stream_of(spark, tmp_path).next() is None


# --- what comes again -----------------------------------------------------------------------------------------------


def put_said(folder: Path, name: str, *said: tuple[int, int, Said]) -> None:
    """Write a file of messages, each with its partition and offset."""
    records = (
        {
            "partition": partition,
            "offset": offset,
            "key": None,
            "value": base64.b64encode(json.dumps(m).encode()).decode(),
        }
        for partition, offset, m in said
    )
    put(folder / "topic", name, list(records))


def places(stream: TopicStream) -> set[tuple[int, int]]:
    """Read everything that a stream has; return the partitions and offsets of its rows."""
    return set(drain(stream))


def test_a_replay_after_a_watermark_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    made, other = ddl("CREATE TABLE `d`.`t`", 5, table(4, ID)), ddl("CREATE TABLE `d`.`u`", 5, table(4, ID, name="u"))
    first, second, later = row(10, 4, id=1), row(20, 4, kind="DELETE", id=1), row(30, 4, id=2)
    bad = {**row(15, 4), "data": {"id": "no number"}}
    put_said(
        tmp_path, "1", (0, 0, made), (0, 1, other), (0, 2, first), (0, 3, second), (0, 4, watermark(20)), (1, 0, first)
    )
    assert places(stream_of(spark, tmp_path)) == {(0, 2), (0, 3), (1, 0)}
    # What partition 1 holds has no watermark; the table u had no rows; and what cannot be read may be new.
    alien = row(12, 4, name="u", id=1)
    put_said(tmp_path, "2", (0, 5, first), (0, 6, second), (0, 7, later), (0, 8, alien), (0, 9, bad), (1, 1, first))
    stream = stream_of(spark, tmp_path)
    batch = stream.next()
    assert batch is not None
    assert {place[:2] for place in rows(batch)} == {(0, 7), (0, 8), (1, 1)}
    assert [r["offset"] for r in batch.events.dead_letters().collect()] == [9]
    stream.commit(batch)
    # Watermarks come again, too, and set nothing back.
    put_said(tmp_path, "3", (0, 10, watermark(10)))
    assert places(stream) == set()
    put_said(tmp_path, "4", (0, 11, second), (0, 12, row(40, 4, id=3)))
    assert places(stream) == {(0, 12)}


def test_rows_that_waited_for_their_schema_are_no_replay(spark: SparkSession, tmp_path: Path) -> None:
    made, more = ddl("CREATE TABLE `d`.`t`", 5, table(4, ID)), {**ID, "name": "n", "nullable": True}
    waits = row(10, 8, id=1, n=1)
    put_said(tmp_path, "1", (0, 0, made), (0, 1, row(6, 4, id=1)), (0, 2, waits), (0, 3, watermark(20)))
    stream = stream_of(spark, tmp_path)
    assert places(stream) == {(0, 1)}
    altered = ddl("ALTER TABLE `d`.`t` ADD COLUMN `n` INT", 8, table(8, ID, more))
    put_said(tmp_path, "2", (0, 4, waits), (0, 5, altered))
    assert places(stream) == {(0, 2)}


def test_a_file_that_was_removed_is_nothing_new(spark: SparkSession, tmp_path: Path) -> None:
    put_said(tmp_path, "1", (0, 0, ddl("CREATE TABLE `d`.`t`", 5, table(4, ID))))
    put_said(tmp_path, "2", (0, 1, row(10, 4, id=1)))
    stream = stream_of(spark, tmp_path)
    assert places(stream) == {(0, 1)}
    (tmp_path / "topic" / "1.jsonl").unlink()
    assert stream.next() is None
    put_said(tmp_path, "3", (0, 2, row(11, 4, id=2)))
    assert places(stream) == {(0, 2)}


# --- damaged files --------------------------------------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("part.jsonl.gz", lambda data: b"no gzip at all"),
        ("part.jsonl.gz", lambda data: gzip.compress(data)[:12]),
        ("part.jsonl.gz", lambda data: cut(gzip.compress(data))),
        ("part.parquet", lambda data: b"PAR1" + data),
    ],
)
def test_a_damaged_file_is_named(
    name: str, damage: Callable[[bytes], bytes], spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(1)
    said = (
        {"partition": 0, "offset": n, "value": base64.b64encode(chance.randbytes(900)).decode()} for n in range(500)
    )
    file = tmp_path / name
    file.write_bytes(damage("".join(json.dumps(r) + "\n" for r in said).encode()))
    with pytest.raises(tidecast.ConfigError) as stopped:
        tidecast.verify(f"file://{file}?protocol=simple", tz="UTC", spark=spark)
    assert str(stopped.value).startswith(("file:///", f"file://{file}: the file cannot be read: "))
    assert name in str(stopped.value)
    assert "\n" not in str(stopped.value)


def test_a_line_that_is_no_record_is_a_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "part.jsonl"
    file.write_text("5\n")
    with tidecast.read(spark, f"file://{file}?protocol=simple", tz="UTC") as events:
        assert events.dead_letters().count() == 1
