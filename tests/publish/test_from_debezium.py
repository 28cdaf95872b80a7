"""What a source of Debezium leaves out, and Simple says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from debezium_avro import fastavro_reads
from growing_topic import ID, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.changefeed import Job, SparkRunner
from tidecast.config import load_config
from tidecast.registry import open_registry

TS = 1_700_000_000_000 << 18
_LEFT_WITH_0 = "rows without a commit-ts leave with 0 in its place"


def column(name: str, mysql_type: str, length: int, **more: Any) -> Said:
    charset = "utf8mb4" if "elements" in more else "binary"
    collate = "utf8mb4_bin" if "elements" in more else "binary"
    data_type = {"mysqlType": mysql_type, "charset": charset, "collate": collate, "length": length, **more}
    return {"name": name, "dataType": data_type, "nullable": True, "default": None}


def message(record: Said) -> Said:
    found: Said = json.loads(base64.b64decode(record["value"]))
    return found


def test_schema_changes_and_types_come_back_whole(spark: SparkSession, tmp_path: Path) -> None:
    whole = table(
        TS,
        ID,
        column("micro", "datetime", 26, decimal=6),
        column("milli", "timestamp", 23, decimal=3),
        column("span", "time", 10),
        column("day", "date", 10),
        column("doc", "json", 4294967295),
        column("pick", "enum", 2, elements=["ab", "c"]),
        column("picks", "set", 4, elements=["ab", "c"]),
    )
    other = {**table(TS + 2, ID, name="parts"), "tableID": 8}
    of_other = {**row(TS + 3, TS + 2, id=1, name="parts"), "tableID": 8}
    moment = {**row(TS + 1, TS, id=1), "data": {"id": "1", "micro": "2024-01-01 00:00:00.123456"}}
    drop = {**ddl("DROP TABLE `d`.`t`", TS + 6, whole), "type": "ERASE"}
    messages = [
        ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", TS, whole),
        moment,
        {
            **ddl("CREATE TABLE `d`.`parts` (`id` INT PRIMARY KEY)", TS + 2, other),
            "tableSchema": {**other, "tableID": 8},
        },
        of_other,
        ddl("TRUNCATE TABLE `d`.`t`", TS + 4, whole),
        ddl("ALTER TABLE `d`.`parts` EXCHANGE PARTITION `p` WITH TABLE `d`.`t`", TS + 5, other),
        drop,
    ]
    source, config = tmp_path / "source.jsonl", tmp_path / "feed.toml"
    source.write_text(
        "".join(json.dumps({"value": base64.b64encode(json.dumps(m).encode()).decode()}) + "\n" for m in messages)
    )
    config.write_text('[sink]\ndispatchers = [{ matcher = ["*.*"], topic = "{schema}_{table}" }]\n')
    debezium = f"file://{tmp_path}/debezium/top?protocol=debezium&enable-tidb-extension=true"
    tidecast.convert(f"file://{source}?protocol=simple", f"{debezium}&partition-num=1", tz="UTC", spark=spark)
    sink = f"file://{tmp_path}/simple/top?protocol=simple&partition-num=1&format=jsonl"
    tidecast.convert(debezium, sink, config=str(config), tz="UTC", spark=spark)
    found = spark.read.text(f"{tmp_path}/simple/*").selectExpr("value", "_metadata.file_path AS file").collect()
    records = sorted(((r.file.split("/")[-2], json.loads(r.value)) for r in found), key=lambda r: r[1]["offset"])
    by_topic: dict[str, list[Said]] = {}
    for topic, record in records:
        by_topic.setdefault(topic, []).append(message(record))
    assert {topic: [m["type"] for m in told if m["type"] != "BOOTSTRAP"] for topic, told in by_topic.items()} == {
        "d_t": ["CREATE", "INSERT", "TRUNCATE", "ERASE"],
        "d_parts": ["CREATE", "INSERT", "ALTER"],
    }
    created, *_, truncated, dropped = by_topic["d_t"]
    types = [c["dataType"] for c in whole["columns"]]
    assert [c["dataType"] for c in created["tableSchema"]["columns"]] == types
    assert created["tableSchema"] == truncated["tableSchema"] == dropped["tableSchema"]
    (inserted,) = (m for m in by_topic["d_t"] if m["type"] == "INSERT")
    assert inserted["data"]["micro"] == moment["data"]["micro"]
    assert by_topic["d_parts"][-1]["tableSchema"]["table"] == "parts"


def test_schema_changes_of_a_table_with_a_unique_key_alone_leave_with_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Debezium's schema changes show primary keys alone; the key of a row's message tells the other ones."""
    unique = {"name": "u", "unique": True, "primary": False, "nullable": False, "columns": ["id"]}
    of = {name: {**table(TS, ID, name=name), "indexes": [unique]} for name in ("t", "now")}
    messages = [
        ddl("CREATE TABLE `d`.`t` (`id` INT NOT NULL, UNIQUE KEY `u` (`id`))", TS, of["t"]),
        row(TS + 1, TS, id=1),
        ddl("TRUNCATE TABLE `d`.`t`", TS + 2, of["t"]),
        {**ddl("RENAME TABLE `d`.`t` TO `d`.`now`", TS + 3, of["now"]), "preTableSchema": of["t"]},
        row(TS + 4, TS, name="now", id=2),
        watermark(TS + 5),
    ]
    source = tmp_path / "source" / "top"
    source.mkdir(parents=True)
    lines = [json.dumps({"value": base64.b64encode(json.dumps(m).encode()).decode()}) + "\n" for m in messages]
    (source / "0.jsonl").write_text("".join(lines))
    debezium = f"file://{tmp_path}/debezium/top?protocol=debezium&enable-tidb-extension=true"
    tidecast.convert(f"file://{source}?protocol=simple", f"{debezium}&partition-num=1", tz="UTC", spark=spark)
    runner = SparkRunner(spark, debezium, tmp_path / "look")
    assert [(t.name, t.handle_key) for t in runner.tables()] == [("d.now", ("id",))]
    rules = tmp_path / "feed.toml"
    rules.write_text('[sink]\ndispatchers = [{ matcher = ["*.*"], topic = "{schema}_{table}" }]\n')
    sink = f"file://{tmp_path}/simple/top?protocol=simple&partition-num=1&format=jsonl"
    runner.step(Job("feed", load_config(sink, rules), 1, 0, tmp_path / "feed"))
    found = spark.read.text(f"{tmp_path}/simple/d_*").selectExpr("value", "_metadata.file_path AS file").collect()
    lines_found = [(r.file.split("/")[-2], json.loads(r.value)) for r in found]
    records = sorted(lines_found, key=lambda line: (line[0], int(line[1]["offset"])))
    told = [(topic, kind) for topic, record in records if (kind := message(record)["type"]) != "BOOTSTRAP"]
    assert told == [
        *(("d_now", kind) for kind in ("INSERT", "WATERMARK")),
        *(("d_t", kind) for kind in ("CREATE", "INSERT", "TRUNCATE", "RENAME")),
    ]


@pytest.mark.parametrize(
    "batches",
    [[["CREATE"], ["old"], ["ALTER"], ["new"]], [["old"], ["ALTER"], ["new", "TRUNCATE"], ["last"]]],
    ids=["all is there", "begun after CREATE"],
)
def test_a_table_keeps_its_unique_key_over_schema_changes_that_do_not_show_it(
    batches: list[list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    """In batches of their own, too: as a table without a key it would keep each row that it ever had."""
    unique = {"name": "u", "unique": True, "primary": False, "nullable": False, "columns": ["id"]}
    more = column("more", "int", 11)
    was, now = ({**table(ts, ID, *columns), "indexes": [unique]} for ts, columns in ((TS, ()), (TS + 10, (more,))))
    updated = {"type": "UPDATE", "old": {"id": "1", "more": None}}
    said = {
        "CREATE": [ddl("CREATE TABLE `d`.`t` (`id` INT NOT NULL, UNIQUE KEY `u` (`id`))", TS, was)],
        "old": [row(TS + 1, TS, id=1), row(TS + 2, TS, id=2)],
        "ALTER": [ddl("ALTER TABLE `d`.`t` ADD COLUMN `more` INT", TS + 10, now)],
        "new": [row(TS + 11, TS + 10, id=1, more=5) | updated, row(TS + 12, TS + 10, kind="DELETE", id=2, more=0)],
        "TRUNCATE": [ddl("TRUNCATE TABLE `d`.`t`", TS + 20, now)],
        "last": [row(TS + 21, TS + 10, id=1, more=4), row(TS + 22, TS + 10, id=1, more=5) | updated],
    }
    shown = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": was}
    messages = [shown, *(m for batch in batches for name in batch for m in said[name])]
    lines = [json.dumps({"value": base64.b64encode(json.dumps(m).encode()).decode()}) + "\n" for m in messages]
    (tmp_path / "source.jsonl").write_text("".join(lines))
    debezium = "protocol=debezium&enable-tidb-extension=true&partition-num=1"
    whole = f"file://{tmp_path}/whole/top?{debezium}&format=jsonl"
    tidecast.convert(f"file://{tmp_path}/source.jsonl?protocol=simple", whole, tz="UTC", spark=spark)
    found = [line.value for line in spark.read.text(f"{tmp_path}/whole/top").collect()]
    records = iter(sorted(found, key=lambda line: int(json.loads(line)["offset"])))
    growing = tmp_path / "growing" / "top"
    growing.mkdir(parents=True)
    source = f"file://{growing}?{debezium}"
    sink = f"file://{tmp_path}/simple/top?protocol=simple&partition-num=1"
    for n, batch in enumerate(batches):
        (growing / f"{n}.jsonl").write_text("".join(next(records) + "\n" for name in batch for _ in said[name]))
        runner = SparkRunner(spark, source, tmp_path / "look")
        runner.step(Job("feed", load_config(sink), 1, 0, tmp_path / "feed"))
        direct: Any = {"checkpoint": f"{tmp_path}/checkpoint", "ddl": "evolve", "tz": "UTC", "spark": spark}
        assert not tidecast.replicate(source, f"{tmp_path}/direct", **direct).dead_letters
    assert not tidecast.replicate(sink, f"{tmp_path}/sent", ddl="evolve", tz="UTC", spark=spark).dead_letters
    for tables in ("direct", "sent"):
        there = spark.read.format("delta").load(f"{tmp_path}/{tables}/d/t").select("id", "more").collect()
        assert [tuple(one) for one in there] == [(1, 5)]


def native(shape: dict[str, str], number: int, **values: Any) -> Said:
    """Return a message of Debezium's own connector, which tells no commit-ts."""
    fields = [{"type": "int32", "optional": False, "field": "id"}]
    key = {"type": "struct", "optional": False, "name": "s.d.t.Key", "fields": [*fields]}
    fields += [{"type": kind, "optional": True, "field": name} for name, kind in shape.items()]
    sides = [
        {"type": "struct", "optional": True, "name": "s.d.t.Value", "field": side, "fields": fields}
        for side in ("before", "after")
    ]
    source = {"connector": "mysql", "db": "d", "table": "t"}
    payload = {"before": None, "after": {"id": number, **values}, "source": source, "op": "c"}
    envelope = {"type": "struct", "optional": False, "name": "s.d.t.Envelope", "fields": sides}
    parts = {
        "key": {"schema": key, "payload": {"id": number}},
        "value": {"schema": envelope, "payload": payload},
    }
    return {name: base64.b64encode(json.dumps(part).encode()).decode() for name, part in parts.items()}


def test_shapes_of_a_table_without_versions_stay_apart(spark: SparkSession, tmp_path: Path) -> None:
    messages = [
        native({"v": "string"}, 1, v="one"),
        native({"v": "string", "w": "int32"}, 2, v="two", w=22),
        native({"w": "int32", "v": "string"}, 3, v="three", w=33),
    ]
    source, registry = tmp_path / "source.jsonl", tmp_path / "registry"
    source.write_text("".join(json.dumps(m) + "\n" for m in messages))
    registry.mkdir()
    (registry / "config.json").write_text('{"compatibility": "NONE"}')
    sinks = {"avro": "/top?protocol=avro&format=jsonl", "csv": "?protocol=csv"}
    for name, sink in sinks.items():
        tidecast.convert(
            f"file://{source}?protocol=debezium",
            f"file://{tmp_path}/{name}{sink}",
            schema_registry=f"file://{registry}",
            tz="UTC",
            spark=spark,
        )
    found = spark.read.text(f"{tmp_path}/avro/top").collect()
    values = [base64.b64decode(json.loads(line.value)["value"]) for line in found]
    assert {fastavro_reads(value, open_registry(f"file://{registry}"))[1]["id"]: value[5:] for value in values} == {
        1: b"\x02\x02\x06one",
        2: b"\x04\x02\x06two\x02\x2c",
        3: b"\x06\x02\x42\x02\x0athree",
    }
    assert len({value[:5] for value in values}) == 3
    lines = {path.parts[-3]: path.read_bytes() for path in (tmp_path / "csv").glob("d/t/*/*/CDC*.csv")}
    assert sorted(lines.items(), key=lambda one: int(one[0])) == [
        ("1", b'"I","t","d",1,"one"\r\n'),
        ("2", b'"I","t","d",2,"two",22\r\n'),
        ("3", b'"I","t","d",3,33,"three"\r\n'),
    ]


def test_a_changefeed_sends_schema_changes_without_a_commit_ts_before_the_rows_of_their_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    truncated = {"source": {"connector": "mysql", "db": "d", "table": "t"}, "op": "t"}
    messages = [
        native({"v": "string"}, 1, v="one"),
        {"key": None, "value": base64.b64encode(json.dumps(truncated).encode()).decode()},
        native({"v": "string"}, 2, v="two"),
    ]
    source = tmp_path / "source" / "top"
    source.mkdir(parents=True)
    places = [{"partition": 0, "offset": n} for n in range(len(messages))]
    lines = [json.dumps(place | m) + "\n" for place, m in zip(places, messages, strict=True)]
    (source / "0.jsonl").write_text("".join(lines))
    runner = SparkRunner(spark, f"file://{source}?protocol=debezium", tmp_path / "look")
    config = load_config(f"file://{tmp_path}/simple/top?protocol=simple&partition-num=1&format=jsonl")
    done = runner.step(Job("feed", config, 1, 0, tmp_path / "feed"))
    found = spark.read.text(f"{tmp_path}/simple/top").collect()
    records = sorted((json.loads(line.value) for line in found), key=lambda record: int(record["offset"]))
    assert [message(record)["type"] for record in records] == ["BOOTSTRAP", "TRUNCATE", "INSERT", "INSERT"]
    (warning,) = done.warnings
    assert warning.startswith(_LEFT_WITH_0)


@pytest.mark.parametrize(
    "sink",
    [
        "/top?protocol=simple",
        "/top?protocol=simple&encoding-format=avro",
        "/top?protocol=canal-json&layout=topics&enable-tidb-extension=true",
        "/top?protocol=debezium",
        "/top?protocol=debezium-avro",
        "/top?protocol=avro&enable-tidb-extension=true",
        "?protocol=csv&csv-include-commit-ts=true",
    ],
)
def test_rows_that_left_without_a_commit_ts_are_read_without_one(
    spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    source, registry = tmp_path / "source.jsonl", f"file://{tmp_path}/registry"
    source.write_text(json.dumps(native({"v": "string"}, 1, v="one")) + "\n")
    to, config = f"file://{tmp_path}/sink{sink}", tmp_path / "feed.toml"
    config.write_text("[sink.csv]\ninclude-commit-ts = true\n")
    debezium = f"file://{source}?protocol=debezium"
    done = tidecast.convert(debezium, to, config=str(config), schema_registry=registry, tz="UTC", spark=spark)
    assert [warning.partition(":")[0] for warning in done.warnings] == [_LEFT_WITH_0]
    with tidecast.read(spark, to, schema_registry=registry, tz="UTC") as events:
        (changes,) = events.tables
        assert [(r["data"]["id"], r["commit_ts"]) for r in changes.frame.collect()] == [(1, None)]
        assert not events.has_commit_ts


@pytest.mark.parametrize("sink", ["/top?protocol=avro", "?protocol=csv"])
def test_who_sends_no_commit_ts_is_not_warned_of_one(spark: SparkSession, tmp_path: Path, sink: str) -> None:
    source, registry = tmp_path / "source.jsonl", f"file://{tmp_path}/registry"
    source.write_text(json.dumps(native({"v": "string"}, 1, v="one")) + "\n")
    debezium, to = f"file://{source}?protocol=debezium", f"file://{tmp_path}/sink{sink}"
    done = tidecast.convert(debezium, to, schema_registry=registry, tz="UTC", spark=spark)
    assert (done.messages.total(), done.warnings) == (1, [])


@pytest.mark.parametrize(("sink", "left"), [("/top?protocol=simple", False), ("?protocol=csv", True)])
def test_a_schema_change_of_a_table_whose_key_nothing_tells_is_a_warning(
    spark: SparkSession, tmp_path: Path, sink: str, left: bool
) -> None:
    unique = {"name": "u", "unique": True, "primary": False, "nullable": False, "columns": ["id"]}
    said = ddl("ALTER TABLE `d`.`t` COMMENT = 'x'", TS, {**table(TS, ID), "indexes": [unique]})
    source = tmp_path / "source.jsonl"
    source.write_text(json.dumps({"value": base64.b64encode(json.dumps(said).encode()).decode()}) + "\n")
    debezium = f"file://{tmp_path}/debezium/top?protocol=debezium"
    tidecast.convert(f"file://{source}?protocol=simple", f"{debezium}&partition-num=1", tz="UTC", spark=spark)
    done = tidecast.convert(debezium, f"file://{tmp_path}/sink{sink}", tz="UTC", spark=spark)
    warning = "d.t: nothing has told its key yet, and a schema change does not leave: ALTER TABLE `d`.`t` COMMENT = 'x'"
    assert (done.ddl, done.warnings) == ((1, []) if left else (0, [warning]))
