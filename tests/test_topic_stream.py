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
