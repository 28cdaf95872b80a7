"""Changefeeds over a topic, step by step: where they begin and end, what a refused schema stops, restarts."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from golden_data import lines
from growing_topic import ID, GrowingTopic, ddl, row, table, watermark
from pyspark.sql import SparkSession
from servers import KafkaBroker

import tidecast
from tidecast._errors import SourceChanged
from tidecast.changefeed import Job, SparkRunner
from tidecast.config import load_config
from tidecast.sources import Batch, TopicStream
from tidecast.storage import StateFile

NEW = {**ID, "name": "must"}

FIRST = [ddl("CREATE TABLE `d`.`t`", 10, table(9, ID)), *(row(20 + n, 9, id=n) for n in range(5))]
SECOND = [
    ddl("ALTER TABLE `d`.`t` ADD COLUMN `must` INT NOT NULL", 30, table(29, ID, NEW)),
    *(row(40 + n, 29, id=10 + n, must=n) for n in range(5)),
]


class Place:
    """A source that grows, and a changefeed on it."""

    def __init__(self, base: Path, spark: SparkSession) -> None:
        self.base, self._spark = base, spark
        self.source = GrowingTopic(base / "in" / "t")
        (base / "registry").mkdir()
        self.runner = self.restarted()

    def restarted(self) -> SparkRunner:
        self.runner = SparkRunner(self._spark, self.source.uri, self.base / "look", zone="UTC")
        return self.runner

    def job(
        self,
        parameters: str,
        start_ts: int = 1,
        target_ts: int = 0,
        rules: str | None = None,
        out: str = "out",
        revision: int = 0,
    ) -> Job:
        topic = "" if "csv" in parameters else "&format=jsonl&partition-num=1"
        sink = f"file://{self.base}/{out}/t?{parameters}{topic}"
        file = self.base / "rules.toml" if rules else None
        if file:
            file.write_text(rules or "")
        config = load_config(sink, file, f"file://{self.base}/registry" if "avro" in parameters else None)
        return Job("feed", config, start_ts, target_ts, self.base / "feed", revision)

    def published(self) -> list[dict[str, Any]]:
        records = [r for part in (self.base / "out").glob("*/*.jsonl.gz") for r in lines(part)]
        return sorted(records, key=lambda r: int(r["offset"]))

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(base64.b64decode(r["value"])) for r in self.published()]

    def commits(self) -> list[int]:
        return [m["commitTs"] for m in self.messages() if m["type"] == "INSERT"]


def shown_in(folder: Path) -> list[tuple[str, int]]:
    """Return the inserts and watermarks of the only partition of a Simple topic, with their commit-ts."""
    records = sorted((r for part in folder.glob("*/*.jsonl.gz") for r in lines(part)), key=lambda r: r["offset"])
    messages = [json.loads(base64.b64decode(r["value"])) for r in records]
    return [(m["type"], m["commitTs"]) for m in messages if m["type"] in ("INSERT", "WATERMARK")]


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    return Place(tmp_path, spark)


def test_steps_go_on_where_the_last_one_ended(place: Place) -> None:
    job = place.job("protocol=simple")
    assert place.runner.step(job).checkpoint_ts == 1
    place.source.grow(FIRST)
    assert [t.name for t in place.runner.tables()] == ["d.t"]
    moved = place.runner.step(job)
    assert (moved.checkpoint_ts, sum(moved.messages.values()), moved.versions) == (24, 5, {"d.t": 9})
    assert moved.caught_up
    again = place.restarted()
    assert again.checkpoint_ts(job) == 24
    assert again.step(job).messages.total() == 0
    place.source.grow(SECOND)
    assert again.step(job).checkpoint_ts == 44
    assert place.commits() == [*range(20, 25), *range(40, 45)]
    kinds = [m["type"] for m in place.messages()]
    assert kinds[:2] == ["CREATE", "BOOTSTRAP"]
    assert kinds.count("ALTER") == kinds.count("BOOTSTRAP") == 1
    assert "WATERMARK" not in kinds  # the source tells none
    again.overwrite(job, 41)
    assert again.checkpoint_ts(job) == 41
    assert again.step(job).messages.total() == 3


def test_a_source_has_the_tables_that_are_there(place: Place) -> None:
    view = {**table(13, ID, name="v"), "indexes": []}
    gone = {**table(14, ID, name="gone"), "tableID": 8}
    place.source.grow(
        [
            *FIRST,
            ddl("CREATE DEFINER = `u`@`h` VIEW `d`.`v` AS SELECT 1", 13, {**view, "tableID": 9}),
            ddl("CREATE TABLE `d`.`gone`", 14, gone),
            ddl("CREATE TABLE `e`.`u`", 15, {**table(15, ID, database="e", name="u"), "tableID": 10}),
        ]
    )
    assert {(t.name, t.view) for t in place.runner.tables()} == {
        ("d.t", False),
        ("d.v", True),
        ("d.gone", False),
        ("e.u", False),
    }
    place.source.grow(
        [
            {**ddl("DROP TABLE `d`.`gone`", 30, gone), "type": "ERASE"},
            {**ddl("DROP DATABASE `e`", 31, {}), "type": "QUERY", "tableSchema": None},
            ddl("RENAME TABLE `d`.`t` TO `d`.`moved`", 32, table(32, ID, name="moved")),
        ]
    )
    for runner in (place.runner, place.restarted()):
        assert {t.name for t in runner.tables()} == {"d.v", "d.moved"}
    (place.base / "look" / "source" / "tables.json").write_text("{")
    with pytest.raises(tidecast.TerminalError, match="no list of tables"):
        place.restarted().tables()


def test_a_table_that_is_renamed_without_a_schema_is_no_longer_there(place: Place, spark: SparkSession) -> None:
    """As in Canal-JSON, whose rows alone show their table."""
    head: dict[str, object] = {"id": 0, "database": "d", "isDdl": False, "es": 1, "sql": "", "old": None}
    shown = {"pkNames": ["id"], "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": "1"}]}
    row = {**head, "table": "t", "type": "INSERT", **shown, "_tidb": {"commitTs": 20}}
    sql = "RENAME TABLE `d`.`t` TO `d`.`now`"
    renamed = {**head, "table": "now", "isDdl": True, "type": "RENAME", "sql": sql, "_tidb": {"commitTs": 30}}
    place.source.grow([row, renamed])
    runner = SparkRunner(spark, place.source.uri.replace("simple", "canal-json"), place.base / "canal")
    assert [(t.name, t.handle_key) for t in runner.tables()] == [("d.now", ("id",))]


def test_a_source_that_always_grows_is_looked_at_up_to_its_present_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TiCDC sends watermarks at all times: who creates a changefeed would wait for ever."""
    commit, told = TopicStream.commit, list[int]()

    def growing(stream: TopicStream, batch: Batch) -> None:
        commit(stream, batch)
        told.append(100 + len(told))
        assert len(told) < 5, "the look has no end"
        place.source.grow([watermark(told[-1])])

    monkeypatch.setattr(TopicStream, "commit", growing)
    place.source.grow(FIRST)
    for _ in range(2):
        assert [t.name for t in place.runner.tables()] == ["d.t"]
    assert told == [100, 101]


def test_who_waits_for_a_schema_has_not_caught_up(place: Place) -> None:
    job = place.job("protocol=simple")
    assert place.runner.step(job).caught_up
    place.source.grow([row(20, 9, id=1)])
    for _ in range(2):  # the second time nothing has come since
        waits = place.runner.step(job)
        assert (waits.caught_up, waits.rows_waiting) == (False, 1)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("checkpoint.json", "{"),
        ("checkpoint.json", '{"checkpoint_ts": "soon", "from_ts": 1}'),
        ("source/progress.json", "{"),
    ],
)
def test_a_damaged_state_is_named_and_another_checkpoint_mends_it(place: Place, file: str, text: str) -> None:
    job = place.job("protocol=simple")
    place.source.grow(FIRST)
    place.runner.step(job)
    (place.base / "feed" / file).write_text(text)
    again = place.restarted()
    with pytest.raises(tidecast.TerminalError, match=file):
        again.step(job)
    again.overwrite(job, 22)
    assert again.checkpoint_ts(job) == 22
    assert again.step(job).messages.total() == 2


def test_a_source_made_anew_fails_a_changefeed_until_its_checkpoint_is_overwritten(place: Place) -> None:
    job = place.job("protocol=simple")
    place.source.grow(FIRST)
    place.runner.step(job)
    assert [t.version for t in place.runner.tables()] == [9]
    (file,) = Path(str(place.source.folder)).glob("*.jsonl")
    file.write_text(file.read_text().splitlines()[0] + "\n")  # what it has now begins anew
    with pytest.raises(SourceChanged, match="--overwrite-checkpoint-ts"):
        place.runner.step(job)
    assert [t.version for t in place.runner.tables()] == [9]  # to look at its tables needs no checkpoint
    place.runner.overwrite(job, 22)
    place.source.grow(SECOND)
    assert place.runner.step(job).checkpoint_ts == 44


def test_schemas_outlive_the_messages_that_told_them(place: Place) -> None:
    job = place.job("protocol=simple")
    place.source.grow(FIRST)
    place.runner.step(job)
    for file in Path(str(place.source.folder)).glob("*.jsonl"):
        file.unlink()
    place.runner.overwrite(job, 22)
    place.source.grow([row(44, 9, id=5)])
    moved = place.runner.step(job)
    assert (moved.messages.total(), moved.rows_waiting) == (1, 0)


def test_a_changefeed_begins_after_its_start_and_ends_with_its_target(place: Place) -> None:
    place.source.grow(FIRST + SECOND)
    moved = place.runner.step(place.job("protocol=simple", start_ts=22, target_ts=41))
    assert moved.checkpoint_ts == 41
    assert place.commits() == [23, 24, 40, 41]


UPDATES = {
    "a topic without what its readers were told": ("simple", "simple"),
    "files without schema files": ("csv", "csv"),
    "files behind another protocol": ("debezium&enable-tidb-extension=true", "csv"),
    "another protocol behind files": ("csv", "debezium&enable-tidb-extension=true"),
}


@pytest.mark.parametrize("name", UPDATES)
def test_another_sink_gets_all_above_the_checkpoint(name: str, place: Place, spark: SparkSession) -> None:
    """That is more than what comes from then on, and readers can read it."""
    before, after = (f"protocol={protocol}" for protocol in UPDATES[name])
    place.source.grow([*FIRST, watermark(22)])
    place.source.grow([row(26, 9, id=8), row(27, 9, id=9)])
    assert place.runner.step(place.job(before)).checkpoint_ts == 22
    place.source.grow([row(28, 9, id=10), watermark(30)])
    job = place.job(after, out="other", revision=1)
    assert place.restarted().step(job).checkpoint_ts == 30
    assert place.runner.step(job).messages.total() == 0
    tables = str(place.base / "tables")
    tidecast.replicate(f"file://{place.base}/other/t?{after}", tables, tz="UTC", spark=spark)
    there = spark.read.format("delta").load(f"{tables}/d/t").collect()
    assert {row["id"] for row in there} == {3, 4, 8, 9, 10}


def test_a_later_target_loses_nothing_that_was_read_before(place: Place) -> None:
    place.source.grow([*FIRST, watermark(28)])
    assert place.runner.step(place.job("protocol=simple", target_ts=21)).checkpoint_ts == 21
    place.source.grow([row(30, 9, id=9), watermark(31)])
    assert place.runner.step(place.job("protocol=simple", target_ts=30, revision=1)).checkpoint_ts == 30
    assert place.commits() == [20, 21, 22, 23, 24, 30]


def test_an_update_leaves_out_no_row_that_comes_late(place: Place) -> None:
    """Without watermarks the checkpoint does not tell that all up to it has come."""
    place.source.grow(FIRST)
    assert place.runner.step(place.job("protocol=simple", start_ts=12)).checkpoint_ts == 24
    place.source.deliver([(1, row(11, 9, id=8)), (1, row(15, 9, id=9))])
    place.runner.step(place.job("protocol=simple", start_ts=12, revision=1))
    assert sorted(place.commits()) == [15, *2 * [20], *2 * [21], *2 * [22], *2 * [23], *2 * [24]]


def test_files_can_be_read_where_a_filter_keeps_statements_back(place: Place, spark: SparkSession) -> None:
    rules = '[filter]\nevent-filters = [{matcher = ["*.*"], ignore-event = ["all ddl"]}]\n'
    sink = f"file://{place.base}/files/t?protocol=csv"
    (place.base / "rules.toml").write_text(rules)
    config = load_config(sink, place.base / "rules.toml")
    place.source.grow([*FIRST, *SECOND, watermark(50)])
    place.runner.step(Job("feed", config, 1, 0, place.base / "feed"))
    tables = str(place.base / "tables")
    tidecast.replicate(sink, tables, tz="UTC", spark=spark)
    there = spark.read.format("delta").load(f"{tables}/d/t").collect()
    assert {row["id"]: row["must"] for row in there} == {**dict.fromkeys(range(5), 0), **{10 + n: n for n in range(5)}}


def test_what_schema_changes_said_is_known_after_a_restart(place: Place) -> None:
    job = place.job("protocol=debezium&debezium-disable-schema=true")
    create = "CREATE TABLE `d`.`t` (`id` INT AUTO_INCREMENT PRIMARY KEY COMMENT 'counts')"
    place.source.grow([ddl(create, 10, table(9, ID))])
    place.runner.step(job)
    place.source.grow([ddl("ALTER TABLE `d`.`t` COMMENT = 'x'", 30, table(29, ID))])
    place.restarted().step(job)
    shown = [m["payload"]["tableChanges"][0]["table"]["columns"][0] for m in place.messages()]
    assert [(c["comment"], c["autoIncremented"]) for c in shown] == [(None, True), ("counts", True)]


def test_what_a_batch_told_outlives_a_kill_at_its_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go to the folder of the statement before them: in another one, a reader takes them for older than it."""
    job = place.job("protocol=csv", start_ts=12)
    write = StateFile.write

    def last_write(file: StateFile, content: bytes) -> None:
        write(file, content)
        raise KeyboardInterrupt

    for first in (FIRST[:1], [row(11, 9, id=7), row(20, 9, id=8), watermark(25)], SECOND[:1]):
        place.source.grow(first)
        with monkeypatch.context() as patch:
            patch.setattr(StateFile, "write", last_write)
            with pytest.raises(KeyboardInterrupt):
                place.restarted().step(job)
    place.source.grow(SECOND[1:2])
    place.restarted().step(job)
    files = (place.base / "out").rglob("*.csv")
    rows = {(file.parts[-3], tuple(line.split(",")[3:])) for file in files for line in file.read_text().splitlines()}
    assert rows == {("9", ("8",)), ("30", ("10", "0"))}


def test_a_topic_gets_watermarks_while_its_table_is_there(place: Place) -> None:
    """Though no row of it comes with them, and another process goes on."""
    job = place.job(
        "protocol=simple", rules='[sink]\ndispatchers = [{matcher = ["*.*"], topic = "{schema}_{table}"}]\n'
    )
    place.source.grow([*FIRST, watermark(25)])
    place.runner.step(job)
    place.source.grow([watermark(28)])
    assert place.restarted().step(job).checkpoint_ts == 28
    place.source.grow([ddl("ALTER TABLE `d`.`t` COMMENT 'x'", 30, table(29, ID)), watermark(31)])
    place.runner.step(job)
    erase = ddl("DROP TABLE `d`.`t`", 40, table(39, ID))
    place.source.grow([{**erase, "type": "ERASE"}, watermark(41)])
    place.restarted().step(job)
    place.source.grow([watermark(51)])
    place.runner.step(job)
    watermarks: dict[str, list[int]] = {}
    for record in place.published():
        message = json.loads(base64.b64decode(record["value"]))
        if message["type"] == "WATERMARK":
            watermarks.setdefault(record["topic"], []).append(message["commitTs"])
    assert watermarks == {"t": [25, 28, 31, 41, 51], "d_t": [25, 28, 31]}


def test_no_watermark_leaves_before_the_rows_that_it_covers(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Of three partitions one is read in several steps, and one is empty."""
    topic = tmp_path.name
    broker.create_topic(topic, 3)
    create = ddl("CREATE TABLE `d`.`t`", 10, table(9, ID))
    broker.send(topic, 0, [json.dumps(m) for m in (create, row(1000, 9, id=1), watermark(5000))])
    late = [row(1500 + n, 9, id=2 + n) for n in range(5)]
    broker.send(topic, 1, [json.dumps(m) for m in (create, *late, watermark(5000), watermark(6000))])
    runner = SparkRunner(spark, f"kafka://{broker.bootstrap}/{topic}?protocol=simple", tmp_path / "look", step=3)
    config = load_config(f"file://{tmp_path}/out/t?protocol=simple&format=jsonl&partition-num=1")
    job = Job("feed", config, 1, 0, tmp_path / "feed")
    reached = [runner.step(job).checkpoint_ts for _ in range(4)]
    assert reached == [1, 1, 6000, 6000]
    rows = [("INSERT", ts) for ts in (1000, *range(1500, 1505))]
    assert shown_in(tmp_path / "out") == [*rows, ("WATERMARK", 5000), ("WATERMARK", 6000)]


def test_a_source_that_will_tell_a_watermark_is_waited_for(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """The first rows of a partition may come later than those of others, and be no younger."""
    topic = tmp_path.name
    broker.create_topic(topic, 2)
    create = ddl("CREATE TABLE `d`.`t`", 10, table(9, ID))
    runner = SparkRunner(spark, f"kafka://{broker.bootstrap}/{topic}?protocol=simple", tmp_path / "look")
    config = load_config(f"file://{tmp_path}/out/t?protocol=simple&format=jsonl&partition-num=1")
    job = Job("feed", config, 1, 0, tmp_path / "feed")
    broker.send(topic, 0, [json.dumps(m) for m in (create, row(1000, 9, id=1))])
    reached = [runner.step(job).checkpoint_ts]
    broker.send(topic, 1, [json.dumps(m) for m in (create, row(900, 9, id=2), row(1000, 9, id=3), watermark(2000))])
    broker.send(topic, 0, [json.dumps(watermark(2000))])
    reached.append(runner.step(job).checkpoint_ts)
    assert reached == [1, 2000]
    assert shown_in(tmp_path / "out") == [*(("INSERT", ts) for ts in (1000, 900, 1000)), ("WATERMARK", 2000)]


def test_a_warning_tells_that_changes_after_the_start_may_have_expired(
    place: Place, spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = tmp_path.name
    broker.create_topic(topic, 1)
    broker.send(topic, 0, [json.dumps(m) for m in FIRST])
    client, gone = AdminClient({"bootstrap.servers": broker.bootstrap}), TopicPartition(topic, 0, 1)
    runner = SparkRunner(spark, f"kafka://{broker.bootstrap}/{topic}?protocol=simple", tmp_path / "look")
    client.delete_records([gone])[gone].result(30)
    steps = [runner.step(place.job("protocol=simple")) for _ in range(2)]
    assert [list(step.warnings) for step in steps] == [
        [f"changes after 1 may be missing: topic {topic} partition 0 up to offset 0 expired"],
        [],
    ]


def test_a_source_without_watermarks_gives_none(
    place: Place, spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Debezium without the extension: the next batch may have older rows, which readers of a watermark leave out."""
    topic = tmp_path.name
    sink = load_config(f"kafka://{broker.bootstrap}/{topic}?protocol=debezium&partition-num=1")
    before = Job("before", sink, 1, 0, place.base / "before")
    config = load_config(f"file://{tmp_path}/out/t?protocol=simple&format=jsonl&partition-num=1")
    runner = SparkRunner(spark, f"kafka://{broker.bootstrap}/{topic}?protocol=debezium", tmp_path / "look2")
    job = Job("feed", config, 1, 0, tmp_path / "feed")
    for messages in ([*FIRST[:1], row(1000, 9, id=1)], [row(1000, 9, id=2), row(900, 9, id=3)]):
        place.source.grow(messages)
        place.runner.step(before)
        assert runner.step(job).checkpoint_ts == 1000
    assert shown_in(tmp_path / "out") == [("INSERT", 1000), ("INSERT", 900), ("INSERT", 1000)]


def test_a_transaction_at_the_target_leaves_whole(
    place: Place, spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    """A step may end within it, and no watermark tells that."""
    topic = f"kafka://{broker.bootstrap}/{tmp_path.name}?protocol=debezium"
    place.source.grow([*FIRST[:1], *(row(1000, 9, id=n) for n in range(3))])
    place.runner.step(Job("before", load_config(f"{topic}&partition-num=1"), 1, 0, place.base / "before"))
    runner, job = SparkRunner(spark, topic, tmp_path / "look2", step=2), place.job("protocol=simple", target_ts=1000)
    reached = [runner.step(job).checkpoint_ts]
    while reached[-1] < 1000:
        reached.append(runner.step(job).checkpoint_ts)
    assert place.commits() == [1000, 1000, 1000]
    assert reached[0] == 999


def test_a_refused_schema_stops_what_comes_after_and_loses_nothing(place: Place) -> None:
    job = place.job("protocol=avro")
    place.source.grow(FIRST + SECOND)
    with pytest.raises(tidecast.SchemaRefused, match="must"):
        place.runner.step(job)
    assert len(place.published()) == 5
    assert place.runner.checkpoint_ts(job) == 1
    (place.base / "registry" / "config.json").write_text('{"compatibility": "NONE"}')
    moved = place.restarted().step(job)
    assert moved.checkpoint_ts == 44
    keys = {base64.b64decode(r["key"])[5:] for r in place.published()}
    assert keys == {bytes([2 * n]) for n in (*range(5), *range(10, 15))}  # as Avro writes such an int


def test_the_log_tells_once_what_a_protocol_does_to_values(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    job = place.job("protocol=debezium")
    kind = {"mysqlType": "bigint", "charset": "binary", "collate": "binary", "length": 20, "unsigned": True}
    schema = table(9, ID, {**ID, "name": "big", "dataType": kind})
    place.source.grow([ddl("CREATE TABLE `d`.`t`", 10, schema), row(20, 9, id=1, big=2)])
    place.runner.step(job)
    place.source.grow([row(30, 9, id=2, big=2)])
    assert place.restarted().step(job).messages.total() == 1
    (message,) = (record.getMessage() for record in caplog.records if "big" in record.getMessage())
    assert message.startswith("topic t, table d.t: big: ")


def test_rules_choose_databases_and_views_and_refuse_what_is_renamed_under_them(place: Place) -> None:
    def of(name: str, sql: str, ts: int, database: str = "d") -> dict[str, Any]:
        return {**ddl(sql, ts, table(ts - 1, ID, database=database, name=name)), "type": sql.split()[0]}

    view = "CREATE ALGORITHM = UNDEFINED DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW `d`.`v` AS SELECT 1"
    renamed = {**of("kept", "RENAME TABLE `other`.`was` TO `d`.`kept`", 30), "type": "RENAME"}
    place.source.grow(
        [
            *(
                {"version": 1, "type": "QUERY", "sql": f"CREATE DATABASE `{db}`", "commitTs": 5}
                for db in ("d", "other")
            ),
            of("t", "CREATE TABLE `d`.`t`", 10),
            {**of("v", view, 12), "tableSchema": {**table(11, ID, name="v"), "indexes": []}},
            of("was", "CREATE TABLE `other`.`was`", 14, database="other"),
            row(15, 9, id=1),
            row(16, 13, database="other", name="was", id=2),
            watermark(20),
            renamed,
            row(31, 29, name="kept", id=3),
        ]
    )
    job = place.job("protocol=simple", rules='[filter]\nrules = ["*.*", "!other.*"]\n')
    with pytest.raises(tidecast.TerminalError, match=r"CDC:ErrSyncRenameTableFailed.*d\.kept.*other\.was"):
        place.runner.step(job)
    shown = [m.get("sql") or m["type"] for m in place.messages() if m["type"] not in ("BOOTSTRAP", "WATERMARK")]
    assert shown == ["CREATE DATABASE `d`", "CREATE TABLE `d`.`t`", view, "INSERT"]


@pytest.mark.parametrize(
    ("parameters", "rules", "words"),
    [
        ("protocol=open-protocol", None, "protocol open-protocol is not written by tidecast"),
        ("protocol=simple", "[filter]\nignore-txn-start-ts = [1]\n", "ignore-txn-start-ts cannot be applied"),
        ("protocol=debezium&debezium-include-start-ts=true", None, "debezium-include-start-ts cannot be applied"),
        (
            "protocol=debezium",
            "[sink.debezium]\ninclude-start-ts = true\n",
            "debezium-include-start-ts cannot be applied",
        ),
        (
            "protocol=simple&large-message-handle-option=claim-check",
            '[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = "claim-check"\n'
            'claim-check-storage-uri = "s3://b/?nonsense=s3cret"\n',
            "the claim-check storage cannot be used",
        ),
    ],
)
def test_what_can_never_be_published_is_refused_at_once(
    place: Place, parameters: str, rules: str | None, words: str
) -> None:
    with pytest.raises(tidecast.TidecastError, match=words) as caught:
        place.runner.check(place.job(parameters, rules=rules).config)
    assert "s3cret" not in str(caught.value)
