"""A topic read batch by batch: starting in the middle, rows that wait for their schemas, restarts."""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from golden_data import lines
from growing_topic import ID, Said, ddl, row, table, watermark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from servers import KafkaBroker

import tidecast
from tidecast import ConfigError, DecodeError, TerminalError
from tidecast._errors import SourceChanged
from tidecast._policy import OnDataLoss
from tidecast._uri import parse_place
from tidecast.sources import Batch, TopicStream
from tidecast.sources._progress import may_be_same, source_name
from tidecast.spark import union
from tidecast.topics import append_lines
from tidecast.topics._files import FileTopics

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
            payloads = {"partition": partition, "offset": ends[partition], "key": None, "value": message["value"]}
            records.append({**payloads, "n": message["n"]})
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


def versions_shown(records: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """Return the tables and versions whose schemas come in some records."""
    shown = set()
    for record in records:
        message = json.loads(base64.b64decode(record["value"]))
        for name in ("tableSchema", "preTableSchema"):
            if name in message:
                shown.add((message[name]["table"], message[name]["version"]))
    return shown


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
    shown = versions_shown(later)
    wanted = {place: row for place, row in whole.items() if place in here and (row[0], row[1]) in shown}
    assert applied == wanted
    assert stream.progress.rows_waiting == sum(place in here for place in whole) - len(wanted)


def test_rows_wait_on_disk_and_no_more_than_allowed(
    topic: list[dict[str, Any]], whole: Applied, spark: SparkSession, tmp_path: Path
) -> None:
    tables = [r for r in topic if (r["partition"], r["offset"]) in whole]
    shown = [r for r in topic if r not in tables]
    put(tmp_path / "topic", "1", tables)
    with pytest.raises(DecodeError, match=f"{len(tables)} rows wait for the schemas"):
        drain(stream_of(spark, tmp_path, max_waiting=len(tables) - 1))
    stream = stream_of(spark, tmp_path)
    assert drain(stream) == {}
    assert stream.progress.rows_waiting == len(tables)
    put(tmp_path / "topic", "2", shown)
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


def put_payloads(folder: Path, name: str, *payloads: tuple[int, int, Said]) -> None:
    """Write a file of messages, each with its partition and offset."""
    records = (
        {
            "partition": partition,
            "offset": offset,
            "key": None,
            "value": base64.b64encode(json.dumps(m).encode()).decode(),
        }
        for partition, offset, m in payloads
    )
    put(folder / "topic", name, list(records))


def places(stream: TopicStream) -> set[tuple[int, int]]:
    """Read everything that a stream has; return the partitions and offsets of its rows."""
    return set(drain(stream))


def test_a_replay_after_a_watermark_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    made, other = ddl("CREATE TABLE `d`.`t`", 5, table(4, ID)), ddl("CREATE TABLE `d`.`u`", 5, table(4, ID, name="u"))
    first, second, later = row(10, 4, id=1), row(20, 4, kind="DELETE", id=1), row(30, 4, id=2)
    bad = {**row(15, 4), "data": {"id": "no number"}}
    put_payloads(
        tmp_path, "1", (0, 0, made), (0, 1, other), (0, 2, first), (0, 3, second), (0, 4, watermark(20)), (1, 0, first)
    )
    assert places(stream_of(spark, tmp_path)) == {(0, 2), (0, 3), (1, 0)}
    # What partition 1 holds has no watermark; the table u had no rows; and what cannot be read may be new.
    alien = row(12, 4, name="u", id=1)
    put_payloads(tmp_path, "2", (0, 5, first), (0, 6, second), (0, 7, later), (0, 8, alien), (0, 9, bad), (1, 1, first))
    stream = stream_of(spark, tmp_path)
    batch = stream.next()
    assert batch is not None
    assert {place[:2] for place in rows(batch)} == {(0, 7), (0, 8), (1, 1)}
    assert [r["offset"] for r in batch.events.dead_letters().collect()] == [9]
    stream.commit(batch)
    # Watermarks come again, too, and set nothing back.
    put_payloads(tmp_path, "3", (0, 10, watermark(10)))
    assert places(stream) == set()
    put_payloads(tmp_path, "4", (0, 11, second), (0, 12, row(40, 4, id=3)))
    assert places(stream) == {(0, 12)}


def test_rows_that_waited_for_their_schema_are_no_replay(spark: SparkSession, tmp_path: Path) -> None:
    made, more = ddl("CREATE TABLE `d`.`t`", 5, table(4, ID)), {**ID, "name": "n", "nullable": True}
    waits = row(10, 8, id=1, n=1)
    put_payloads(tmp_path, "1", (0, 0, made), (0, 1, row(6, 4, id=1)), (0, 2, waits), (0, 3, watermark(20)))
    stream = stream_of(spark, tmp_path)
    assert places(stream) == {(0, 1)}
    altered = ddl("ALTER TABLE `d`.`t` ADD COLUMN `n` INT", 8, table(8, ID, more))
    put_payloads(tmp_path, "2", (0, 4, waits), (0, 5, altered))
    assert places(stream) == {(0, 2)}


def test_a_file_that_was_removed_is_nothing_new(spark: SparkSession, tmp_path: Path) -> None:
    put_payloads(tmp_path, "1", (0, 0, ddl("CREATE TABLE `d`.`t`", 5, table(4, ID))))
    put_payloads(tmp_path, "2", (0, 1, row(10, 4, id=1)))
    stream = stream_of(spark, tmp_path)
    assert places(stream) == {(0, 1)}
    (tmp_path / "topic" / "1.jsonl").unlink()
    assert stream.next() is None
    put_payloads(tmp_path, "3", (0, 2, row(11, 4, id=2)))
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
    records = (
        {"partition": 0, "offset": n, "value": base64.b64encode(chance.randbytes(900)).decode()} for n in range(500)
    )
    file = tmp_path / name
    file.write_bytes(damage("".join(json.dumps(r) + "\n" for r in records).encode()))
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


# --- sources that change ------------------------------------------------------------------------------------------


CREATE = ddl("CREATE TABLE `d`.`t`", 5, table(4, ID))


def kafka_stream(
    spark: SparkSession, broker: KafkaBroker, folder: Path, topics: str, start: str, **options: Any
) -> TopicStream:
    uri = f"kafka://{broker.bootstrap}/x?protocol=simple&topics={topics}&start={start}"
    return TopicStream(spark, uri, folder / "state", **options)


def payloads(*messages: Said) -> list[str]:
    return [json.dumps(message) for message in messages]


def admin(broker: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def delete_topic(broker: KafkaBroker, topic: str) -> None:
    client = admin(broker)
    client.delete_topics([topic])[topic].result(30)
    while topic in client.list_topics(timeout=30).topics:
        time.sleep(0.05)


def test_a_topic_made_anew_is_not_read_on(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    """Its offsets mean other messages, also where it ends behind the checkpoint. One that went stays known."""
    broker.create_topic("anew")
    broker.create_topic("anew_too")
    broker.send("anew", 0, payloads(CREATE, row(10, 4, id=1)))
    assert places(kafka_stream(spark, broker, tmp_path, "anew.*", "earliest")) == {(0, 1)}
    delete_topic(broker, "anew")
    stream = kafka_stream(spark, broker, tmp_path, "anew.*", "earliest")
    assert stream.next() is None
    broker.send("anew_too", 0, payloads(row(20, 4, id=2)))
    assert places(stream) == {(0, 0)}
    broker.create_topic("anew")
    broker.send("anew", 0, payloads(CREATE, *(row(ts, 4, id=ts) for ts in range(30, 35))))
    for _ in range(2):
        with pytest.raises(SourceChanged, match=r"made anew since the checkpoint.* topic anew .*--checkpoint"):
            kafka_stream(spark, broker, tmp_path, "anew.*", "earliest").next()


def test_messages_that_went_before_they_were_read_are_named(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Kafka deletes what is older than a topic's retention; here it is told to."""
    broker.create_topic("expired")
    broker.send("expired", 0, payloads(CREATE, row(10, 4, id=1)))
    assert places(kafka_stream(spark, broker, tmp_path, "expired", "earliest")) == {(0, 1)}
    broker.send("expired", 0, payloads(*(row(ts, 4, id=ts) for ts in range(20, 25))))
    client, gone = admin(broker), TopicPartition("expired", 0, 2)
    client.delete_records([gone])[gone].result(30)  # what was read may go
    assert places(kafka_stream(spark, broker, tmp_path, "expired", "earliest")) == {(0, n) for n in range(2, 7)}
    broker.send("expired", 0, payloads(*(row(ts, 4, id=ts) for ts in range(30, 35))))
    gone = TopicPartition("expired", 0, 9)
    client.delete_records([gone])[gone].result(30)
    with pytest.raises(SourceChanged, match=r"before they were read: topic expired partition 0 offsets 7 to 8:"):
        kafka_stream(spark, broker, tmp_path, "expired", "earliest").next()
    loose = kafka_stream(spark, broker, tmp_path, "expired", "latest", on_data_loss=OnDataLoss.CONTINUE)
    batch = loose.next()
    assert batch
    assert batch.lost
    assert "offsets 7 to 8" in batch.lost
    assert set(rows(batch)) == {(0, n) for n in range(9, 12)}
    file = tmp_path / "state" / "progress.json"
    state = json.loads(file.read_text())
    state["progress"]["offsets"]["ends"]["expired/0"] = 99  # a broker that lost its newest messages
    file.write_text(json.dumps(state))
    with pytest.raises(SourceChanged, match="topic expired partition 0 ends at offset 12, the checkpoint at 99"):
        kafka_stream(spark, broker, tmp_path, "expired", "earliest").next()


def test_nothing_of_a_new_partition_is_missed(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic("wider")
    broker.send("wider", 0, payloads(CREATE))
    stream = kafka_stream(spark, broker, tmp_path, "wider", "latest")
    assert places(stream) == set()
    broker.send("wider", 0, payloads(CREATE))
    assert places(stream) == set()
    client = admin(broker)
    client.create_partitions([NewPartitions("wider", 2)])["wider"].result(30)
    broker.send("wider", 1, payloads(row(10, 4, id=1)))
    assert places(stream) == {(1, 0)}


def messages_of(spark: SparkSession, *messages: Said) -> DataFrame:
    """Return messages as they are written to the topic `topic`."""
    rows = [(n, json.dumps(message)) for n, message in enumerate(messages)]
    frame = spark.createDataFrame(rows, "sequence int, value string")
    topic, nothing = F.lit("topic").alias("topic"), F.lit(None).cast("binary").alias("key")
    return frame.select(
        topic, F.lit(0).alias("partition"), nothing, F.encode("value", "UTF-8").alias("value"), "sequence"
    )


SHOP = "file:///lake/shop"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("kafka://a:1/shop?protocol=simple", "kafka+ssl://u:p@b:2,c:3/shop?protocol=simple&start=latest", True),
        ("kafka://a:1/shop?protocol=simple", "kafka://a:1/x?protocol=simple&topics=shop.*", True),
        ("kafka://a:1/shop?protocol=simple", "kafka://a:1/shopping?protocol=simple", False),
        ("kafka://a:1/shop?protocol=simple", "file:///shop?protocol=simple", False),
        (SHOP, f"{SHOP}/?protocol=avro", True),
        (SHOP, "file:///lake/x?topics=.*", True),
        (SHOP, "file:///sea/shop", False),
        (SHOP, "file:///sea/shop?topics=shop", False),
        ("file:///lake?topics=.*", SHOP, False),
        (SHOP, "file:///lake/shop.jsonl", False),
    ],
)
def test_a_source_is_known_by_what_stays_the_same(one: str, other: str, same: bool) -> None:
    names = [source_name(parse_place(uri)) for uri in (one, other)]
    assert may_be_same(*names) is may_be_same(*reversed(names)) is same


def test_a_checkpoint_of_another_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A folder of the same name elsewhere has files of the same names."""
    for place in ("here", "there"):
        put_payloads(tmp_path / place, "1", (0, 0, CREATE), (0, 1, row(10, 4, id=1)))
    source, state = f"{tmp_path}/here/topic?protocol=simple", tmp_path / "state"
    options: dict[str, Any] = {"checkpoint": str(state), "spark": spark}
    tidecast.replicate(source, str(tmp_path / "to"), **options)
    refusal = r"state of another source: file://.*/here/topic, not file://.*/there/topic \(give each .*--checkpoint"
    with pytest.raises(ConfigError, match=refusal):
        tidecast.replicate(source.replace("here", "there"), str(tmp_path / "to"), **options)
    put_payloads(tmp_path / "here", "2", (0, 2, row(20, 4, id=2)))
    assert tidecast.replicate(source, str(tmp_path / "to"), **options).tables[0].upserted == 1
    progress = json.loads((state / "progress.json").read_text())["progress"]
    assert progress["source"] == f"file://{tmp_path}/here/topic"


def test_a_topic_of_files_made_anew_is_not_read_on(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "topic"
    topics = FileTopics(folder, "topic")
    topics.write(messages_of(spark, CREATE, row(10, 4, id=1)))
    assert places(stream_of(spark, tmp_path)) == {(0, 1)}
    topics.write(messages_of(spark, row(11, 4, id=2)))
    old = min(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    old.unlink()  # what was read may go
    assert places(stream_of(spark, tmp_path)) == {(0, 2)}
    shutil.rmtree(folder)
    topics.write(messages_of(spark, CREATE, *(row(ts, 4, id=ts) for ts in range(20, 25))))
    with pytest.raises(SourceChanged, match=r"made anew since the checkpoint.* topic topic \("):
        stream_of(spark, tmp_path).next()


def test_a_file_that_was_written_anew_is_read_and_one_that_shrank_is_not(spark: SparkSession, tmp_path: Path) -> None:
    put_payloads(tmp_path, "1", (0, 0, CREATE), (0, 1, row(10, 4, id=1)))
    stream = stream_of(spark, tmp_path)
    assert places(stream) == {(0, 1)}
    before = (tmp_path / "topic" / "1.jsonl").stat().st_size
    put_payloads(tmp_path, "1", (0, 2, CREATE), (0, 3, row(20, 4, id=2)))
    assert (tmp_path / "topic" / "1.jsonl").stat().st_size == before
    assert places(stream) == {(0, 3)}
    put_payloads(tmp_path, "1", (0, 4, CREATE))
    with pytest.raises(SourceChanged, match=r"smaller than when it was read.* file topic/1\.jsonl"):
        stream.next()


# --- damaged state --------------------------------------------------------------------------------------------------


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "without progress": lambda state: state.pop("progress"),
    "without schemas": lambda state: state.pop("schemas"),
    "without offsets": lambda state: state["progress"].pop("offsets"),
    "progress of text": lambda state: state.update(progress="x"),
    "offsets of text": lambda state: state["progress"].update(offsets="x"),
    "an offset of text": lambda state: state["progress"]["offsets"]["ends"].update(a="1"),
    "offsets of something else": lambda state: state["progress"].update(offsets={"a": "1"}),
    "an offset below 0": lambda state: state["progress"]["offsets"]["ends"].update(a=-1),
    "a huge offset": lambda state: state["progress"]["offsets"]["ends"].update(a=1 << 63),
    "half a batch": lambda state: state["progress"].update(batch=0.5),
    "a watermark that is true": lambda state: state["progress"].update(watermark=True),
    "something more": lambda state: state["progress"].update(more=1),
    "a table of one name": lambda state: state["progress"].update(tables=[["d"]]),
    "without a source": lambda state: state["progress"].pop("source"),
    "a source of a number": lambda state: state["progress"].update(source=1),
    "waiting elsewhere": lambda state: state["progress"].update(waiting="../topic"),
    "rows that wait nowhere": lambda state: state["progress"].update(waiting="waiting-1", rows_waiting=1),
    "schemas of text": lambda state: state.update(schemas="x"),
    "a schema of a number": lambda state: state.update(schemas=[1]),
    "a column without a type": lambda state: state["schemas"][0][0]["columns"][0].pop("data_type"),
    "a version of text": lambda state: state["schemas"][0][0].update(version="x"),
    "two columns of one name": lambda state: state["schemas"][0][0].update(
        columns=2 * state["schemas"][0][0]["columns"]
    ),
}
BYTES = {
    "nothing": b"",
    "a list": b"[]",
    "a number": b"1",
    "half": b'{"progress": {"offsets"',
    "no UTF-8": b'{"progress": "\xff"}',
    "deep": b"[" * 100_000,
    "a number of 5000 digits": b'{"progress": ' + b"9" * 5000 + b"}",
    "not a number": b'{"progress": NaN, "schemas": []}',
}


@pytest.fixture(scope="module")
def state(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a stream keeps; for the source in the folder `FOLDER`, as each test has one of its own."""
    folder = tmp_path_factory.mktemp("state")
    put_payloads(folder, "1", (0, 0, CREATE), (0, 1, row(10, 4, id=1)), (0, 2, watermark(10)))
    drain(stream_of(spark, folder))
    return (folder / "state" / "progress.json").read_text().replace(str(folder), "FOLDER")


@pytest.mark.parametrize("damage", [*DAMAGES, *BYTES])
def test_a_damaged_state_is_one_clear_error(damage: str, state: str, spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "state" / "progress.json"
    file.parent.mkdir()
    state = state.replace("FOLDER", str(tmp_path))
    file.write_text(state)
    assert stream_of(spark, tmp_path).progress.batch == 1
    if damage in DAMAGES:
        members = json.loads(state)
        changed = DAMAGES[damage](members)
        file.write_text(
            json.dumps(changed if damage in ("a list", "a number", "without progress", "without schemas") else members)
        )
    else:
        file.write_bytes(BYTES[damage])
    with pytest.raises(
        TerminalError, match=r"progress\.json: this is no state of a topic: .*remove the folder"
    ) as stopped:
        stream_of(spark, tmp_path)
    assert len(str(stopped.value).splitlines()) == 1


def test_a_state_that_cannot_be_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "state" / "progress.json").mkdir(parents=True)
    with pytest.raises(TerminalError, match="this is no state of a topic: Is a directory"):
        stream_of(spark, tmp_path)


# --- names that begin with _ ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [True, False])
def test_a_topic_of_files_may_begin_with_an_underscore(lines: bool, spark: SparkSession, tmp_path: Path) -> None:
    frame = messages_of(spark, CREATE, row(10, 4, id=1)).withColumn("topic", F.lit("_t"))
    topics = FileTopics(tmp_path / "_t", "_t", lines=lines)
    for _ in range(2):
        topics.write(frame)
    append_lines(spark.range(1), tmp_path / "_letters", expected=1)
    append_lines(spark.range(1), tmp_path / "letters", expected=1)
    for name in ("_dead_letters", "_delta_log", ".hidden"):  # by those before us, and by others
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jsonl").write_text("{}\n")
    for reader in (topics, FileTopics(tmp_path / "x", "x", pattern=".*"), FileTopics(tmp_path, tmp_path.name)):
        rows = reader.read(spark).frame.select("topic", "offset").collect()
        assert sorted(map(tuple, rows)) == [("_t", n) for n in range(4)]


@pytest.mark.parametrize("name", ["_dead_letters", "_temporary", ".t"])
def test_a_topic_of_files_has_no_name_of_other_folders(name: str, tmp_path: Path) -> None:
    with pytest.raises(tidecast.ConfigError, match=f"{name}.* cannot be a topic"):
        FileTopics(tmp_path / "t", "t").ensure(name)


@pytest.mark.parametrize("name", ["_1.jsonl", ".1.parquet", "topic/_1.jsonl"])
def test_a_file_that_spark_overlooks_is_refused(name: str, spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("{}\n")
    path = file if file.parent == tmp_path else file.parent
    with pytest.raises(tidecast.ConfigError, match="Spark reads no file whose name begins so"):
        FileTopics(path, "t").end_offsets()
