"""The example messages of the public document decode to what it says, and encode to the same text again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from decoded_events import decode_simple
from encoding import Encoded, encoded
from plans import explained
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidecast.model import RECORD, Events, SchemaHistory
from tidecast.protocols import simple
from tidecast.protocols.simple import SimpleEncoder, SimpleOptions
from tidecast.protocols.simple._avro import DML, beginning

OPTIONS = SimpleOptions()


@pytest.fixture(scope="module")
def examples() -> list[str]:
    """The document's messages, one a line, without its indentation."""
    return (Path(__file__).parents[2] / "golden" / "simple-document.jsonl").read_text().splitlines()


def decode(spark: SparkSession, messages: list[str | bytes], *, ordered: bool = True) -> Events:
    values = [(n, m.encode() if isinstance(m, str) else m) for n, m in enumerate(messages)]
    given = spark.createDataFrame(values, "n bigint, bytes binary")
    known = {"offset": F.col("n"), "value": F.col("bytes"), "partition": F.lit(0), "topic": F.lit("t")}
    columns = [known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD]
    return decode_simple(given.select(*columns), ordered=ordered)


def text(message: Encoded) -> str:
    assert message.value is not None
    return message.value.decode()


def built(messages: list[str], kind: str) -> list[tuple[int, str]]:
    """Return the messages of a type, with the time at which each was built."""
    decoded = ((json.loads(m), m) for m in messages)
    return [(one["buildTs"], m) for one, m in decoded if one["type"] == kind]


def test_the_examples_come_back(examples: list[str], spark: SparkSession) -> None:
    with decode(spark, [*examples]) as events:
        ((ddl_built, ddl),) = built(examples, "ALTER")
        assert [simple.encode_ddl(d, OPTIONS, ddl_built).decode() for d in events.ddl] == [ddl]
        ((bootstrap_built, bootstrap),) = built(examples, "BOOTSTRAP")
        (shown,) = events.bootstraps
        assert simple.encode_bootstrap(shown.schema, OPTIONS, bootstrap_built).decode() == bootstrap
        ((watermark_built, watermark),) = built(examples, "WATERMARK")
        assert events.watermarks is not None
        times = [r["commit_ts"] for r in events.watermarks.collect()]
        assert [simple.encode_watermark(ts, OPTIONS, watermark_built)[1].decode() for ts in times] == [watermark]
        (table,) = events.tables
        assert (table.schema.name, table.schema.version) == ("simple.user", 447984074911121426)
        times = [json.loads(r["value"])["buildTs"] for r in table.frame.select("value").collect()]
        made = encoded(table.frame, table.schema, lambda rows: SimpleEncoder(OPTIONS, np.array(times)))
        rows = {one.kept["offset"]: text(one) for one in made}
    assert rows == {n: m for n, m in enumerate(examples) if json.loads(m)["type"] in ("INSERT", "UPDATE", "DELETE")}
    assert len(rows) == 3


def test_the_examples_have_their_values(examples: list[str], spark: SparkSession) -> None:
    with decode(spark, [*examples]) as events:
        (table,) = events.tables
        rows = table.frame.orderBy("offset").select("op", "table_id", "commit_ts", "old", "data").collect()
    john = {"id": 1, "name": "John Doe", "age": 25, "score": 90.5}
    better = john | {"score": 95.0}
    assert [(r["op"], r["old"] and r["old"].asDict(), r["data"] and r["data"].asDict()) for r in rows] == [
        ("c", None, john),
        ("u", john, better),
        ("d", better, None),
    ]
    assert {r["table_id"] for r in rows} == {148}
    assert rows[0]["commit_ts"] == 447984084414103554


def changed(message: str, **members: Any) -> str:
    return json.dumps({k: v for k, v in (json.loads(message) | members).items() if v is not ...})


BROKEN_COLUMNS: list[dict[str, Any]] = [
    {"name": 5},
    {"name": "ID"},  # MySQL takes it for another `id`
    {"nullable": None},
    {"default": []},
    {"dataType": {"mysqlType": "decimal", "charset": "binary", "collate": "binary", "length": "10"}},
    {"dataType": {"mysqlType": "int", "charset": 5, "collate": "binary"}},
    {"dataType": {"mysqlType": "bit", "charset": "binary", "collate": "binary"}, "default": "x"},
]


def ddl_schema(message: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(message)["tableSchema"]
    return schema


def with_column(message: str, members: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a schema change with its second column changed."""
    one, two, *rest = ddl_schema(message)["columns"]
    return ddl_schema(message) | {"table": "bad", "columns": [one, two | members, *rest]}


def a_map_of_two_billions(message: str) -> bytes:
    """Return a row's message in Avro whose values end after they were counted, too high."""

    def text(name: str) -> bytes:
        return bytes([2 * len(members[name]), *members[name].encode()])

    def number(value: int) -> bytes:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, "long", value)
        return written.getvalue()

    members = json.loads(message)
    head = b"\x16\x06\x06" + number(1) + text("database") + text("table") + number(members["tableID"]) + b"\x00"
    times = b"".join(number(members[name]) for name in ("commitTs", "buildTs", "schemaVersion"))
    return head + times + b"\x00\x00\x00\x02" + number((1 << 31) - 10) + text("table")


def test_odd_messages_are_read_or_refused(examples: list[str], spark: SparkSession) -> None:
    ddl, insert, update, delete, watermark = (
        next(m for m in examples if json.loads(m)["type"] == kind)
        for kind in ("ALTER", "INSERT", "UPDATE", "DELETE", "WATERMARK")
    )
    readable: dict[str | bytes, object] = {
        changed(update, old={"id": "1", "score": "90.5"}): (90.5, "John Doe"),  # the rest did not change
        changed(update, old={"id": "1", "score": "90.5", "name": None, "age": None}): (90.5, None),
        changed(delete, data={"id": "2"}): (95.0, "John Doe"),
        delete + " \r\n": (95.0, "John Doe"),
    }
    refused: dict[str | bytes, str] = {
        insert[:-1]: "bad-json",
        insert + "xyz": "bad-json",
        insert + insert: "bad-json",
        insert + "," + insert: "bad-json",
        insert + "}": "bad-json",
        insert.replace('"', "'"): "bad-json",
        "": "bad-json",
        "null": "bad-json",
        insert.encode().replace(b"John", b"J\xffhn"): "bad-json",
        b"\x16\x06\x06\x02": "undecodable",
        a_map_of_two_billions(insert): "undecodable",
        changed(insert, schemaVersion=7): "unknown-table",
        changed(insert, handleKeyOnly=True): "incomplete-row",
        changed(insert, claimCheckLocation="s3://bucket/1.json", handleKeyOnly=True): "incomplete-row",
        changed(insert, type="UPSERT"): "bad-message",
        changed(insert, data=...): "bad-message",
        changed(insert, data={"id": "1", "age": "old"}): "bad-value",
        changed(watermark, commitTs=...): "bad-message",
        changed(ddl, tableSchema={"schema": "simple"}, buildTs=1): "bad-message",
        **{
            changed(ddl, tableSchema=with_column(ddl, members), buildTs=n): "bad-message"
            for n, members in enumerate(BROKEN_COLUMNS, 2)
        },
        changed(ddl, tableSchema=with_column(ddl, {"name": "\ud800"})): "bad-json",
        changed(ddl, sql=5): "bad-message",
        changed(delete, type="QUERY"): "bad-message",  # no schema change: one has its statement
        changed(ddl, tableSchema=ddl_schema(ddl) | {"table": "empty", "columns": [], "indexes": []}): "",
        changed(insert, table="empty"): "unknown-table",
    }
    refused_reasons = {n: reason for n, reason in enumerate(refused.values(), 1 + len(readable)) if reason}
    with decode(spark, [ddl, *readable, *refused]) as events:
        dead_letters = {r["offset"]: r["reason"] for r in events.dead_letters().collect()}
        table, _ = events.tables  # the other one is that of the row in Avro
        rows = table.good.orderBy("offset").select("old.score", "old.name").collect()
        state = events.history.state() if events.history else b""
    assert [tuple(r) for r in rows] == list(readable.values())
    assert dead_letters == refused_reasons
    assert SchemaHistory(state).state() == state


def test_thousands_of_tables_without_a_schema_end_no_run(examples: list[str], spark: SparkSession) -> None:
    ((_, insert),) = built(examples, "INSERT")
    both = in_avro(changed(insert, table="t0", data={"id": "1"}, old=None))  # the same version as in JSON
    with decode(spark, [*examples, *(changed(insert, table=f"t{n}") for n in range(3000)), both]) as events:
        dead_letters = events.dead_letters().select("reason", "detail").collect()
        assert sum(t.good.count() for t in events.tables) == 3
    assert len(dead_letters) == 3001
    assert {r["reason"] for r in dead_letters} == {"unknown-table"}
    version = json.loads(insert)["schemaVersion"]
    assert {r["detail"] for r in dead_letters} == {
        f"no schema of simple.t{n} in version {version}" for n in range(3000)
    }


def test_a_row_whose_table_has_a_name_that_is_no_text_is_set_aside(examples: list[str], spark: SparkSession) -> None:
    ((_, insert),) = built(examples, "INSERT")
    row = changed(insert, data={"id": "1"}, old=None)
    damaged = [in_avro(row).replace(name, name[:-1] + b"\xaa", 1) for name in (b"\x0csimple", b"\x08user")]
    with decode(spark, [*examples, *damaged]) as events:
        dead_letters = {r["offset"]: r["reason"] for r in events.dead_letters().collect()}
    assert dead_letters == dict.fromkeys(range(len(examples), len(examples) + 2), "bad-message")


def test_a_table_without_handle_key_shows_whole_rows(examples: list[str], spark: SparkSession) -> None:
    ddl = changed(examples[0], preTableSchema=json.loads(examples[0])["preTableSchema"] | {"indexes": []})
    insert = next(m for m in examples if json.loads(m)["type"] == "INSERT")
    with decode(spark, [ddl, insert]) as events:
        (table,) = events.tables
        encoder = SimpleEncoder(OPTIONS, 1708923662983)
        (row,) = encoded(table.frame, table.schema, lambda rows: encoder, reduced=True)
    assert table.schema.handle_key == ()
    assert text(row) == insert


def test_a_claim_check_says_where_the_row_lies(examples: list[str], spark: SparkSession) -> None:
    with decode(spark, [*examples]) as events:
        (table,) = events.tables
        for options in (OPTIONS, SimpleOptions("avro")):
            encoder = SimpleEncoder(options, 1)
            (row,) = encoded(
                table.frame.where("op = 'c'"),
                table.schema,
                lambda rows, encoder=encoder: encoder,  # type: ignore[misc]
                reduced=True,
                location=lambda kept: f"file:///claim/<{kept['offset']}",
            )
            assert row.value
            if options is OPTIONS:
                end = ',"handleKeyOnly":true,"data":{"id":"1"}}'
                assert f'"claimCheckLocation":"file:///claim/\\u003c{row.kept["offset"]}"{end}' in row.value.decode()
            else:
                assert b"\x02\x20file:///claim/<1\x02\x01\x00\x02\x02\x04id\x02\x02\x00\x00" in row.value


def test_a_row_of_an_unknown_time_zone_is_set_aside(spark: SparkSession) -> None:
    kind = {"mysqlType": "timestamp", "charset": "binary", "collate": "binary", "length": 19}
    columns = [{"name": "at", "dataType": kind, "nullable": True, "default": None}]
    table = {"schema": "d", "table": "t", "tableID": 1, "version": 5, "columns": columns, "indexes": []}
    bootstrap = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": table}
    head = {"version": 1, "database": "d", "table": "t", "tableID": 1, "type": "INSERT", "buildTs": 1}
    times = [
        {"location": "Asia/Shanghai", "value": "2024-03-11 08:51:01"},
        {"location": "Middle/Earth", "value": "2024-03-11 08:51:01"},
        {"location": "", "value": "2024-03-11 08:51:01"},
        {"location": " ", "value": "2024-03-11 08:51:01"},
        "2024-03-11 08:51:01",
    ]
    rows = [{**head, "commitTs": 6 + n, "schemaVersion": 5, "data": {"at": at}} for n, at in enumerate(times)]
    with decode(spark, [json.dumps(m) for m in (bootstrap, *rows)]) as events:
        (changes,) = events.tables
        read = {r["offset"]: r["at"] for r in changes.good.select("offset", "data.at").collect()}
        assert read == {1: "2024-03-11 00:51:01", 5: "2024-03-11 08:51:01"}
        assert {r["offset"]: r["reason"] for r in events.dead_letters().collect()} == dict.fromkeys(
            (2, 3, 4), "bad-value"
        )


def test_times_as_objects_and_as_text_stand_side_by_side(spark: SparkSession) -> None:
    kind = {"mysqlType": "timestamp", "charset": "binary", "collate": "binary", "length": 19}
    number = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
    names = {"id": number, "a": kind, "b": kind}
    columns = [{"name": n, "dataType": k, "nullable": True, "default": None} for n, k in names.items()]
    table = {"schema": "d", "table": "t", "tableID": 1, "version": 5, "columns": columns, "indexes": []}
    bootstrap = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": table}
    head = {"version": 1, "database": "d", "table": "t", "tableID": 1, "type": "UPDATE", "buildTs": 1}
    far, plain = {"location": "Asia/Shanghai", "value": "2024-03-11 08:51:01"}, "2024-03-11 08:51:01"
    utc = "2024-03-11 00:51:01"
    images: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"id": "1", "a": far, "b": plain}, {"id": "1", "a": plain, "b": far}),
        ({"id": "2", "a": None, "b": plain}, {"id": "2", "a": plain, "b": None}),
        ({"id": "3", "b": far}, {"id": "3", "a": plain, "b": far}),
        ({"id": "4", "a": far, "b": far}, {"id": "x", "a": {"location": "UTC"}, "b": plain}),
    ]
    rows = [
        {**head, "commitTs": 6 + n, "schemaVersion": 5, "data": data, "old": old}
        for n, (old, data) in enumerate(images)
    ]
    with decode(spark, [json.dumps(m) for m in (bootstrap, *rows)]) as events:
        (changes,) = events.tables
        read = {r["offset"]: (tuple(r["old"]), tuple(r["data"])) for r in changes.good.collect()}
        assert read == {
            1: ((1, utc, plain), (1, plain, utc)),
            2: ((2, None, plain), (2, plain, None)),
            3: ((3, plain, utc), (3, plain, utc)),  # what an update does not name has not changed
        }
        (dead,) = events.dead_letters().collect()
        assert (dead["offset"], dead["detail"]) == (4, "not of its column's type: data id, data a")


def in_avro(message: str) -> bytes:
    """Return a row of JSON as Avro has it, its texts as the numbers that they are."""
    members, out = json.loads(message), io.BytesIO(beginning(DML))
    out.seek(0, io.SEEK_END)
    for side in ("data", "old"):
        members[side] = members[side] and {name: ("long", int(text)) for name, text in members[side].items()}
    fastavro.schemaless_writer(out, DML, members)
    return out.getvalue()


@pytest.mark.parametrize("avro", [False, True])
def test_what_the_type_of_a_row_does_not_have_is_not_read(avro: bool, spark: SparkSession) -> None:
    kind = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
    columns = [{"name": "id", "dataType": kind, "nullable": True, "default": None}]
    table = {"schema": "d", "table": "t", "tableID": 1, "version": 5, "columns": columns, "indexes": []}
    bootstrap = compact({"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": table})
    head = {"version": 1, "database": "d", "table": "t", "tableID": 1, "commitTs": 6, "buildTs": 1, "schemaVersion": 5}
    good, bad = {"id": "7"}, {"id": "5000000000"}
    cases: list[tuple[dict[str, Any], object]] = [
        ({"type": "INSERT", "data": good, "old": bad}, (None, 7)),
        ({"type": "INSERT", "data": bad, "old": good}, "not of its column's type: data id"),
        ({"type": "DELETE", "data": bad, "old": good}, (7, None)),
        ({"type": "DELETE", "data": good, "old": bad}, "not of its column's type: old id"),
        ({"type": "DELETE", "data": good, "old": None}, "the row is missing"),
        ({"type": "UPDATE", "data": good, "old": bad}, "not of its column's type: old id"),
        ({"type": "UPDATE", "data": good, "old": good}, (7, 7)),
        ({"type": "UPDATE", "data": good, "old": None}, (None, 7)),
        ({"type": "UPDATE", "data": None, "old": good}, "the row is missing"),
    ]
    for kinds in ({"INSERT"}, {"DELETE"}, {"INSERT", "DELETE"}, {"UPDATE"}, {"INSERT", "UPDATE", "DELETE"}):
        chosen = [(compact(head | members), wanted) for members, wanted in cases if members["type"] in kinds]
        messages = [in_avro(m) if avro else m for m, _ in chosen]
        with decode(spark, [bootstrap, *messages]) as events:
            (changes,) = events.tables
            rows = changes.frame.select("old.id", "data.id", "detail").orderBy("offset").collect()
        assert [r[2] or (r[0], r[1]) for r in rows] == [wanted for _, wanted in chosen]


def compact(members: Any) -> str:
    return json.dumps(members, separators=(",", ":"))


def test_rows_are_read_wherever_they_stand_in_the_message(spark: SparkSession) -> None:
    kind = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 99}
    column = {"name": "a", "dataType": kind, "nullable": True, "default": None}
    table = {"schema": "d", "table": "t", "tableID": 1, "version": 5, "columns": [column], "indexes": []}
    bootstrap = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": table}
    names = {"version": 1, "database": "d", "table": "t"}
    now = {"commitTs": 447984074911121426, "buildTs": 1708936343598}
    head = names | {"tableID": 1, "type": "INSERT", **now, "schemaVersion": 5}
    short = names | {"type": "INSERT", "commitTs": 6, "buildTs": 1, "schemaVersion": 5}
    # A row as long as what a head has there.
    row: dict[str, Any] = {"data": {"a": "6"}, "x": ""}
    usual = {name: head[name] for name in ("tableID", "type", "commitTs", "buildTs")}
    row["x"] = "x" * (len(compact(usual)) - len(compact(row)))
    turned = names | row | {"schemaVersion": 5} | head
    checksum = {"version": 0, "corrupted": False, "current": 1, "previous": 0}
    trap = ',"schemaVersion":5,"data":{"a":"no"}'
    rows: list[dict[str, Any]] = [
        head | {"data": {"a": "0"}},
        head | {"tableID": 77, "commitTs": 6, "data": {"a": "1"}},
        head | {"checksum": checksum, "data": {"a": "2"}},
        short | {"data": {"a": "3"}},
        {"data": {"a": "4"}} | head,
        names | {"data": {"a": "5"}} | head,
        turned,
        head | {"data": {"a": trap}},
        names | {"data": {"a": trap}} | head,
    ]
    assert compact(turned).index(',"schemaVersion"') == compact(rows[0]).index(',"schemaVersion"')
    messages: list[str | bytes] = [compact(one) for one in (bootstrap, *rows)]
    messages += [json.dumps(rows[0]), " " + json.dumps(rows[0])]
    with decode(spark, messages) as events:
        (changes,) = events.tables
        read = [r["data"]["a"] for r in changes.good.orderBy("offset").collect()]
        assert read == ["0", "1", "2", "3", "4", "5", "6", trap, trap, "0", "0"]
        assert events.dead_letters().count() == 0


def test_messages_are_read_once_whoever_asks(examples: list[str], spark: SparkSession) -> None:
    with decode(spark, [*examples]) as events:
        (table,) = events.tables
        plan = explained(table.good.where("op <> 'd'").select("data.id"))
    assert plan.count("MapInArrow") == 1
