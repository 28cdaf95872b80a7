"""The examples of the documents decode: TiCDC's page on Debezium, and the ways of Debezium's own connector."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from decoded_events import decoded as decode
from encoding import encoded
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidecast
from tidecast.model import RECORD, Column, DataType, Events, Index, Kind, Reason, TableSchema, row_type
from tidecast.protocols import debezium

Json = dict[str, Any]

SOURCE: Json = {
    "version": "2.4.0.Final",
    "connector": "TiCDC",
    "name": "test_cluster",
    "ts_ms": 0,
    "snapshot": "false",
    "db": "test",
    "table": "table1",
    "server_id": 0,
    "gtid": None,
    "file": "",
    "pos": 0,
    "row": 0,
    "thread": 0,
    "query": None,
    "commit_ts": 1,
    "cluster_id": "test_cluster",
}


def source_of(commit_ts: int | None) -> Json:
    """Return a source: that of Debezium's own connector has no commit-ts."""
    return SOURCE | {"commit_ts": commit_ts, "connector": "TiCDC" if commit_ts else "mysql"}


TINY = {"type": "int16", "optional": True, "field": "tiny"}


def envelope(*columns: Json) -> Json:
    sides = [{"type": "struct", "optional": True, "field": side, "fields": columns} for side in ("before", "after")]
    return {"type": "struct", "optional": False, "name": "c.test.table1.Envelope", "version": 1, "fields": sides}


def records(spark: SparkSession, messages: Iterable[tuple[str | None, str | None]]) -> DataFrame:
    rows = [
        ("t", 0, n, None, key and key.encode(), value and value.encode(), None)
        for n, (key, value) in enumerate(messages)
    ]
    return spark.createDataFrame(rows, RECORD)


def read(spark: SparkSession, *messages: tuple[Any, Any], indent: int | None = None, **options: Any) -> Events:
    def text(message: Any) -> str | None:
        return message if message is None or isinstance(message, str) else json.dumps(message, indent=indent)

    return decode(records(spark, [(text(k), text(v)) for k, v in messages]), "debezium", ordered=True, **options)


ROW_KEY = {"payload": {"tiny": 1}, "schema": {"type": "struct", "fields": [TINY], "optional": False}}
ROW_VALUE: Json = {
    "payload": {
        "source": SOURCE,
        "ts_ms": 1701326309000,
        "transaction": None,
        "op": "u",
        "before": {"tiny": 2},
        "after": {"tiny": 1},
    },
    "schema": envelope(TINY),
}


@pytest.mark.parametrize("indent", [None, 2], ids=["compact", "pretty"])
def test_the_documents_row_is_read(indent: int | None, spark: SparkSession) -> None:
    with read(spark, (ROW_KEY, ROW_VALUE), indent=indent) as events:
        (table,) = events.tables
        (row,) = table.frame.collect()
        assert events.rejected.count() == 0
    assert (table.schema.name, table.schema.handle_key, table.rows) == ("test.table1", ("tiny",), 1)
    assert table.schema.column("tiny").data_type.kind is Kind.INTEGER
    assert (row["op"], row["commit_ts"], row["old"]["tiny"], row["data"]["tiny"]) == ("u", 1, 2, 1)
    assert (row["reason"], events.has_commit_ts, events.position) == (None, True, "offset")


def test_rows_of_partitions_without_a_commit_ts_begin_at_an_offset(spark: SparkSession) -> None:
    """Debezium's own connector has none; where rows begin nowhere, there would be none to publish or to apply."""
    undated = ROW_VALUE | {"payload": ROW_VALUE["payload"] | {"source": {"db": "test", "table": "table1"}}}
    messages = records(spark, [(None, None), (json.dumps(ROW_KEY), json.dumps(undated))])
    with decode(messages, "debezium", ordered=False) as events:
        (table,) = events.tables
    assert (events.position, table.rows, table.rows_from, table.upserts_from) == (None, 1, 1, 1)


@pytest.mark.parametrize("indent", [None, 2], ids=["compact", "pretty"])
def test_the_documents_schema_change_is_read(indent: int | None, spark: SparkSession) -> None:
    column = {
        "name": "id",
        "jdbcType": 4,
        "nativeType": None,
        "comment": None,
        "defaultValueExpression": None,
        "enumValues": None,
        "typeName": "INT",
        "typeExpression": "INT",
        "charsetName": None,
        "length": 0,
        "scale": None,
        "position": 1,
        "optional": False,
        "autoIncremented": False,
        "generated": False,
    }
    content = {"defaultCharsetName": "", "primaryKeyColumnNames": ["id"], "columns": [column], "comment": None}
    sql = "RENAME TABLE test.table1 to test.table2"
    change = {"type": "ALTER", "id": '"test"."table2","test"."table1"', "table": content}
    payload = {"source": SOURCE, "ts_ms": 1701326309000, "databaseName": "test", "schemaName": None, "ddl": sql}
    key = {"payload": {"databaseName": "test"}, "schema": {"type": "struct", "optional": False}}
    value = {"payload": payload | {"tableChanges": [change]}, "schema": {"type": "struct", "optional": False}}
    with read(spark, (key, value), (key, value), indent=indent) as events:
        (ddl,) = events.ddl  # once, though every partition has it
        assert events.rejected.count() == 0
    assert (ddl.type, ddl.sql, ddl.commit_ts, ddl.position) == ("RENAME", sql, 1, 0)
    assert ddl.schema is not None
    assert (ddl.schema.name, ddl.schema.handle_key) == ("test.table2", ("id",))
    assert [(c.name, c.data_type.mysql_type, c.nullable) for c in ddl.schema.columns] == [("id", "int", False)]


@pytest.mark.parametrize("indent", [None, 2], ids=["compact", "pretty"])
def test_the_documents_watermark_is_read(indent: int | None, spark: SparkSession) -> None:
    source = SOURCE | {"db": "", "table": "", "commit_ts": 3}
    payload = {"source": source, "op": "m", "ts_ms": 1701326309000, "transaction": None}
    key = {"payload": {}, "schema": {"fields": [], "optional": False, "type": "struct"}}
    with read(spark, (key, {"payload": payload, "schema": envelope()}), indent=indent) as events:
        assert events.watermark == 3
        assert events.watermarks is not None
        assert [row["commit_ts"] for row in events.watermarks.collect()] == [3]
        assert (events.tables, events.ddl, events.rejected.count()) == ((), (), 0)


NATIVE = {name: SOURCE[name] for name in ("version", "ts_ms", "db", "table")} | {"connector": "mysql", "ts_ms": 5}
NATIVE_COLUMNS: list[Json] = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "boolean", "optional": True, "field": "flag"},
    {"type": "bytes", "optional": True, "field": "raw"},
    {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "field": "price",
    },
]


def test_messages_of_debeziums_own_connector_are_read(spark: SparkSession) -> None:
    """Schema first, payload in another order, snapshots, no key, no commit-ts, tombstones."""
    row = {"id": 7, "flag": True, "raw": "AQI=", "price": "/4U="}
    payload = {"before": None, "after": row, "source": NATIVE, "op": "r", "ts_ms": 6, "transaction": None}
    key = {"schema": {"type": "struct", "fields": NATIVE_COLUMNS[:1], "optional": False}, "payload": {"id": 7}}
    deleted = payload | {"before": row, "after": None, "op": "d"}
    schema = envelope(*NATIVE_COLUMNS)

    def compact(message: Json) -> str:
        return json.dumps(message, separators=(",", ":"))

    messages = [
        (compact(key), compact({"schema": schema, "payload": payload})),
        (compact(key), compact({"schema": schema, "payload": deleted})),
        (compact(key), None),
    ]
    with read(spark, *messages) as events:
        (table,) = events.tables
        rows = table.frame.orderBy("offset").collect()
        assert events.rejected.count() == 0
    assert not events.has_commit_ts
    assert table.schema.handle_key == ("id",)
    assert [r["op"] for r in rows] == ["c", "d"]
    for image in (rows[0]["data"], rows[1]["old"]):
        assert (image["id"], bytes(image["flag"]), bytes(image["raw"]), str(image["price"])) == (
            7,
            b"\1",
            b"\1\2",
            "-1.23",
        )


def test_messages_without_a_schema_need_one_from_elsewhere(spark: SparkSession) -> None:
    table = TableSchema(
        "test",
        "table1",
        0,
        1,
        (Column("tiny", DataType("tinyint", length=4), nullable=False),),
        (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("tiny",)),),
    )
    key, value = {"payload": {"tiny": 1}}, {"payload": ROW_VALUE["payload"]}
    bare = (json.dumps({"tiny": 1}), json.dumps(ROW_VALUE["payload"]))
    with read(spark, (key, value)) as events:
        assert events.tables == ()
        assert [r["reason"] for r in events.rejected.collect()] == [Reason.UNKNOWN_TABLE]
    with read(spark, (key, value), bare, schemas=[table]) as events:
        (found,) = events.tables
        assert found.schema == table
        assert [tuple(r) for r in found.frame.select("op", "old.tiny", "data.tiny").collect()] == [("u", 2, 1)] * 2


def test_thousands_of_tables_without_a_schema_end_no_run(spark: SparkSession) -> None:
    payload = {"source": SOURCE, "op": "c", "before": None, "after": {"tiny": 1}}
    rows = [
        ({"payload": {"tiny": 1}}, {"payload": payload | {"source": SOURCE | {"table": f"t{n}"}}}) for n in range(3000)
    ]
    with read(spark, (ROW_KEY, ROW_VALUE), *rows) as events:
        letters = events.dead_letters().select("reason", "detail").collect()
        assert sum(t.good.count() for t in events.tables) == 1
    assert {r["reason"] for r in letters} == {Reason.UNKNOWN_TABLE}
    assert {r["detail"].split(" before ")[0] for r in letters} == {f"no schema of test.t{n}" for n in range(3000)}


BITS = {"type": "bytes", "name": "io.debezium.data.Bits", "optional": True, "field": "c"}
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "optional": True, "field": "c"}
DEEP: Json = {"deep": "@"}


def test_schemas_that_no_table_can_have_end_no_run(spark: SparkSession) -> None:
    """One is in the message of a row, another in a schema change."""

    def changed(type_name: str, length: int, scale: int | None = None, **more: Any) -> tuple[Json, Json]:
        key, change = shown("tiny", "c", sql=f"ALTER TABLE `bad` MODIFY `c` {type_name}", commit_ts=1)
        change["payload"]["source"]["table"] = "bad"
        change["payload"]["tableChanges"][0]["table"]["columns"][1] |= {
            "typeName": type_name,
            "length": length,
            "scale": scale,
            **more,
        }
        return key, change

    impossible = "test.bad has a column that no table can have: c "
    foreign = "the schema in the message is not one of Debezium's for a row"
    member = "a schema has a member that is not of its type"
    broken = "tableChanges is not of Debezium's form"
    digits = "connect.decimal.precision"
    columns: list[tuple[str, Json]] = [
        (impossible + "bit(1000000000,0)", BITS | {"parameters": {"length": "1000000000"}}),
        (impossible + "decimal(10,99999)", DECIMAL | {"parameters": {"scale": "99999", digits: "10"}}),
        (impossible + "decimal(10,-5)", DECIMAL | {"parameters": {"scale": "-5", digits: "10"}}),
        (member, TINY | {"field": 5}),
        ("test.bad has two columns of one name: tiny and Tiny", TINY | {"field": "Tiny"}),
        (foreign, TINY | {"default": DEEP}),
    ]
    changes: list[tuple[str, tuple[Json, Json]]] = [
        (impossible + "bit(1000000000,0)", changed("BIT", 10**9)),
        (impossible + "decimal(10,99999)", changed("DECIMAL", 10, 99999)),
        (impossible + "binary(1000000000,0)", changed("BINARY", 10**9)),
        (member, changed("INT", 11, optional="no")),
        (broken, changed("INT", 11, defaultValueExpression=DEEP)),
    ]
    messages = [m for _, m in changes]
    source = SOURCE | {"table": "bad"}
    for _, column in columns:
        row = {"payload": {"source": source, "op": "c", "after": {"tiny": 1}}, "schema": envelope(TINY, column)}
        messages.append(({"payload": {"tiny": 1}}, row))
    deep = "[" * 980 + "]" * 980  # Java takes it, and Python does not
    texts = [(json.dumps(key), json.dumps(value).replace(json.dumps(DEEP), deep)) for key, value in messages]
    with read(spark, *texts, (ROW_KEY, ROW_VALUE)) as events:
        assert [(t.schema.table, t.good.count()) for t in events.tables] == [("table1", 1)]
        letters = events.dead_letters().orderBy("offset").collect()
    assert [x["detail"] for x in letters] == [words for words, _ in (*changes, *columns)]


def shown(*names: str, sql: str, commit_ts: int | None = None) -> tuple[Json, Json]:
    """Return a schema change without a schema, of a table of integers whose key is the first of them."""
    nothing = dict.fromkeys(("length", "scale", "charsetName", "enumValues", "defaultValueExpression"))
    columns = [nothing | {"name": n, "typeName": "INT", "optional": n != names[0]} for n in names]
    content = {"defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": [names[0]], "columns": columns}
    payload = {"source": source_of(commit_ts), "databaseName": "test", "ddl": sql}
    change = {"type": "ALTER", "id": '"test"."table1"', "table": content}
    return {"payload": {"databaseName": "test"}}, {"payload": payload | {"tableChanges": [change]}}


def bare_row(commit_ts: int | None = None, before: Json | None = None, **after: int) -> tuple[Json, Json]:
    source = source_of(commit_ts)
    payload = {"source": source, "op": "u" if before else "c", "before": before, "after": after}
    return {"payload": {"id": 1}}, {"payload": payload}


@pytest.mark.parametrize("first", [None, 0, 1, 2, 3, 5, 6], ids=str)
def test_rows_are_read_wherever_they_stand_in_the_message(first: int | None, spark: SparkSession) -> None:
    rows = [
        bare_row(2, id=1, c=7),
        bare_row(3, before={"id": 1, "c": 7}, id=1, c=8),
        bare_row(4, id=2, c=9),
    ]
    texts = [json.dumps(value, separators=(",", ":")) for _, value in rows]
    # The row before `op`, as long as what another message has there; and a name of more bytes.
    turned = json.loads(texts[0])["payload"]
    turned = {"payload": {name: turned[name] for name in ("source", "before", "after", "op")}}
    turned["payload"]["after"] = {"id": 3, "c": 5}
    longer = dict(turned["payload"], after={"id": 4, "c": 6}, source=turned["payload"]["source"] | {"name": "ö"})
    # One side before `op`, and the other behind it, where the whole row of TiCDC's messages is.
    updates = (bare_row(5, before={"id": n, "c": 1}, id=n, c=2)[1]["payload"] for n in (5, 6))
    orders = ("source", "before", "op", "after"), ("after", "source", "op", "before")
    apart = [{"payload": {name: one[name] for name in order}} for one, order in zip(updates, orders, strict=True)]
    others = (turned, {"payload": longer}, *apart)
    texts += [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in others]
    if first is not None:
        texts.insert(0, texts.pop(first))
    messages = [('{"payload":{"id":1}}', text) for text in texts]
    with read(spark, shown("id", "c", sql="CREATE TABLE `test`.`table1`", commit_ts=1), *messages) as events:
        (table,) = events.tables
        rows_read = table.frame.select("reason", "old", "data").collect()
    read_rows = [(reason, *(side and tuple(side) for side in sides)) for reason, *sides in rows_read]
    expected = [
        (None, None, (1, 7)),
        (None, (1, 7), (1, 8)),
        (None, None, (2, 9)),
        (None, None, (3, 5)),
        (None, None, (4, 6)),
        (None, (5, 1), (5, 2)),
        (None, (6, 1), (6, 2)),
    ]
    assert sorted(read_rows, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize(
    ("columns", "message", "strange"),
    [
        (("id", "c"), bare_row(2, id=1, c=7), None),
        (("id", "c"), bare_row(2, id=1), None),  # a column selector may leave columns out
        (("id", "c"), bare_row(2, c=7, id=1), None),
        (("id",), bare_row(2, id=1, c=7), "c"),
        (("id",), bare_row(2, id=1, before={"id": 1, "c": 7}), "c"),
        (("id",), bare_row(2, id=1, before={"id": 1}), None),
        (("id",), bare_row(2, id=1, after=7), "after"),
        (("id", "before", "after"), bare_row(2, id=1, after=7, before={"id": 1, "after": 3}), None),
        (("id", "after"), bare_row(2, id=1, after=7, c=8), "c"),
    ],
)
def test_a_row_with_a_column_that_its_table_lacks_is_bad(
    columns: tuple[str, ...],
    message: tuple[Json, Json],
    strange: str | None,
    separators: tuple[str, str],
    spark: SparkSession,
) -> None:
    texts = [json.dumps(part, separators=separators) for part in message]
    with read(spark, shown(*columns, sql="CREATE TABLE `test`.`table1`", commit_ts=1), (texts[0], texts[1])) as events:
        (table,) = events.tables
        (row,) = table.frame.collect()
    detail = strange and f"column {strange} is not in the table"
    assert (row["reason"], row["detail"]) == (strange and Reason.BAD_VALUE, detail)


_MEMBERS = {
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x","u":"y"}': None,
    '"op":"c","before":null,"after":{"id":1,"n":null,"t":null,"u":"y"}': None,
    '"op":"c","before":null,"after":{"id":1,"n":null,"t":"x","u":null}': None,
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x, y, z","u":"y, "}': None,
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x"}': None,
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x","u":"y","u":"z"}': None,
    '"op":"u","before":{"id":1,"n":2,"t":",","u":"y"},"after":{"id":1,"n":3,"t":"x","u":"y"}': None,
    '"op":"u","before":{"id":1,"n":2,"t":"x","u":null},"after":{"id":1,"n":3,"t":null,"u":"y"}': None,
    '"op":"u","after":{"id":1,"n":2,"t":"x","u":"y"}': None,
    '"op":"d","after":null,"before":{"id":1,"n":2,"t":"x","u":"y"}': None,
    # One more than the columns, or one instead of a column.
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x","u":"y","z":3}': "z",
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x","z":3}': "z",
    '"op":"c","after":{"id":1,"n":2,"t":"x","u":"y","z":3}': "z",
    '"op":"u","before":{"id":1,"n":2,"t":"x","z":3},"after":{"id":1,"n":2,"t":"x","u":null}': "z",
    '"op":"u","before":{"id":1,"n":2,"t":"x","u":"y"},"after":{"id":1,"n":2,"t":"x","u":"y","z":3}': "z",
    '"op":"u","after":{"id":1,"n":2,"t":"x","u":"y","z":3}': "z",
    '"op":"d","after":null,"before":{"id":1,"n":2,"t":"x","u":"y","z":3}': "z",
    # Texts with commas, plain and escaped, and with what no JSON has unescaped.
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x, y","u":"y","z":3}': "z",
    r'"op":"c","before":null,"after":{"id":1,"n":2,"t":"x\u002cy","u":"y","z":3}': "z",
    r'"op":"c","before":null,"after":{"id":1,"n":2,"t":",\u0001,,\u0001","u":"y","z":3}': "z",
    # NULLs that are not where they seem to be.
    '"op":"c","before":null,"after":{"z":{"id":null},"n":2,"t":"x","u":"y"}': "z",
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":"x","z":{"n":1,"u":null}}': "z",
    '"op":"c","before":null,"after":{"id":1,"n":2,"t":{"n":1,"u":null,"y":1},"z":3}': "z",
    r'"op":"c","before":null,"after":{"id":1,"z,\"n":null,"t":"x","u":"y"}': 'z,"n',
}
"""What comes after the head of a message, and which member of its row is no column."""


def test_members_that_are_no_columns_are_found_in_messages_of_ticdc(spark: SparkSession) -> None:
    kinds = {"id": "bigint", "n": "int", "t": "varchar", "u": "varchar"}
    columns = tuple(
        Column(name, DataType(kind, "utf8mb4", length=20), nullable=name != "id") for name, kind in kinds.items()
    )
    key = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))
    table = TableSchema("test", "table1", 0, 1, columns, (key,))
    head = json.dumps({"payload": {"source": SOURCE | {"commit_ts": 2}}}, separators=(",", ":"))[:-2]
    messages = [('{"payload":{"id":1}}', f"{head},{rest}}}}}") for rest in _MEMBERS]
    with read(spark, *messages, schemas=[table]) as events:
        (found,) = events.tables
        details = [row["detail"] for row in found.frame.orderBy("offset").collect()]
    told = dict(zip(_MEMBERS, details, strict=True))
    assert told == {rest: name and f"column {name} is not in the table" for rest, name in _MEMBERS.items()}


def test_rows_without_a_commit_ts_and_a_schema_have_that_of_their_place(spark: SparkSession) -> None:
    """The same statement may come again: Debezium's own connector sends each once."""
    create, add = shown("id", sql="CREATE TABLE table1"), shown("id", "c", sql="ALTER TABLE table1 ADD COLUMN c INT")
    drop = shown("id", sql="ALTER TABLE table1 DROP COLUMN c")
    with read(spark, create, add, bare_row(id=1, c=7), drop, bare_row(id=2), add, bare_row(id=3, c=9)) as events:
        assert events.rejected.count() == 0
        assert len(events.ddl) == 4
        found = {row["offset"]: row for table in events.tables for row in table.frame.collect()}
    assert {n: row["reason"] for n, row in found.items()} == {2: None, 4: None, 6: None}
    assert {n: row["data"].asDict() for n, row in found.items()} == {
        2: {"id": 1, "c": 7},
        4: {"id": 2},
        6: {"id": 3, "c": 9},
    }


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("{", Reason.BAD_JSON),
        ("[]", Reason.BAD_JSON),
        ('{"payload":{}}', Reason.BAD_MESSAGE),
        ('{"payload":{"op":"x","source":{"db":"a","table":"b","commit_ts":1}}}', Reason.BAD_MESSAGE),
        ('{"payload":{"op":"m","source":{}}}', Reason.BAD_MESSAGE),
        ('{"payload":{"op":"c","source":{"db":"a","table":"b","connector":"TiCDC"},"after":{}}}', Reason.BAD_MESSAGE),
        ('{"payload":{"op":"c","source":{"db":"a","commit_ts":1}}}', Reason.BAD_MESSAGE),
        ('{"payload":{"ddl":"x","source":{"db":"a"},"tableChanges":[{"table":{}}]}}', Reason.BAD_MESSAGE),
        (
            '{"payload":{"op":"c","source":{"db":"a","table":"b","commit_ts":1},"after":{}},"schema":{"fields":[]}}',
            Reason.FOREIGN_SCHEMA,
        ),
    ],
)
def test_what_cannot_be_read_is_rejected(message: str, reason: Reason, spark: SparkSession) -> None:
    with read(spark, (None, message)) as events:
        assert [row["reason"] for row in events.rejected.collect()] == [reason]
        assert events.tables == ()


@pytest.mark.parametrize("schema", [None, envelope(TINY)], ids=["bare", "schema"])
def test_a_message_ends_where_it_ends(schema: Json | None, spark: SparkSession) -> None:
    """What more there is, or less, may be a part of what was lost."""
    payload = ROW_VALUE["payload"]
    change = shown("tiny", sql="CREATE TABLE table1", commit_ts=1)
    parts = {"payload": payload} if schema is None else {"payload": payload, "schema": schema}
    forms = [parts, dict(reversed(parts.items())), *([payload] if schema is None else [])]
    texts = [json.dumps(form, separators=gaps) for form in forms for gaps in ((",", ":"), None)]
    more = [text + rest for text in texts for rest in ("}", "]", " x", "{}", ",", text)]
    with read(spark, change, *((ROW_KEY, text) for text in (*more, *(text[:-1] for text in texts)))) as events:
        assert {row["reason"] for row in events.rejected.collect()} == {Reason.BAD_JSON}
        assert events.tables == ()
    with read(spark, change, *((ROW_KEY, text + rest) for text in texts for rest in ("", " ", "\r\n"))) as events:
        assert events.rejected.isEmpty()
        assert sum(t.good.count() for t in events.tables) == 3 * len(texts)


def test_a_row_whose_key_cannot_be_read_is_rejected(spark: SparkSession) -> None:
    with read(spark, ("{", ROW_VALUE)) as events:
        assert [row["reason"] for row in events.rejected.collect()] == [Reason.BAD_JSON]
        assert events.tables == ()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ({"type": "int32", "optional": True, "field": "c"}, '"text"'),
        ({"type": "int64", "optional": True, "field": "c", "tidb_type": "bigint unsigned"}, "18446744073709551616"),
        ({"type": "string", "optional": True, "field": "c", "tidb_type": "blob"}, '"*"'),
        (
            {"type": "int64", "optional": True, "field": "c", "name": "io.debezium.time.Timestamp"},
            "9223372036854775807",
        ),
        ({"type": "string", "optional": True, "field": "c", "name": "io.debezium.time.ZonedTimestamp"}, '"noon"'),
    ],
)
def test_a_value_that_is_not_of_its_type_makes_the_row_bad(column: Json, value: str, spark: SparkSession) -> None:
    payload = json.dumps(ROW_VALUE["payload"] | {"op": "c", "before": None, "after": {"c": "@"}}, separators=(",", ":"))
    schema = json.dumps(envelope(column), separators=(",", ":"))
    message = f'{{"payload":{payload.replace(chr(34) + "@" + chr(34), value)},"schema":{schema}}}'
    with read(spark, (json.dumps({"payload": {}}), message)) as events:
        (table,) = events.tables
        assert [row["reason"] for row in table.frame.collect()] == [Reason.BAD_VALUE]


def test_many_times_leave_sparks_code_small_enough_to_compile(compiled: SparkSession) -> None:
    times = [f"c{n}" for n in range(8)]
    name = "io.debezium.time.Timestamp"
    schema = envelope(*({"type": "int64", "optional": True, "field": c, "name": name} for c in times))
    payload = ROW_VALUE["payload"] | {"op": "c", "before": None, "after": dict.fromkeys(times, 1577934245006)}
    compiled.conf.set("spark.sql.codegen.fallback", False)
    try:
        with read(compiled, ({"payload": {}}, {"payload": payload, "schema": schema})) as events:
            (row,) = events.tables[0].frame.collect()
    finally:
        compiled.conf.unset("spark.sql.codegen.fallback")
    assert set(row["data"]) == {"2020-01-02 03:04:05.006"}


@pytest.mark.parametrize(("zone", "first"), [("UTC", 1), ("Asia/Shanghai", 1), ("America/New_York", 18001)])
def test_the_first_moments_of_a_timestamp_go_by_the_server_s_clock(spark: SparkSession, zone: str, first: int) -> None:
    """TiCDC compares the clock of its zone with the first moment of UTC, and takes what is earlier for no moment."""
    table = TableSchema("d", "t", 1, 1, (Column("at", DataType("timestamp")),))
    options = debezium.DebeziumOptions(disable_schema=True, zone=zone)
    seconds = (1, 18000, 18001, 90000)
    rows = spark.createDataFrame([(s,) for s in seconds], "s long").select(
        "s",
        F.lit("c").alias("op"),
        F.lit(1).alias("commit_ts"),
        F.struct(F.date_format(F.timestamp_seconds("s"), "yyyy-MM-dd HH:mm:ss").alias("at")).alias("data"),
        F.lit(None).cast(row_type(table)).alias("old"),
    )
    told = encoded(rows, table, lambda rows: debezium.DebeziumEncoder(options, 1, whole=True), keep=("s",))
    shown = {one.kept["s"]: json.loads(one.value or b"")["payload"]["after"]["at"] for one in told}
    epoch = "1970-01-01T00:00:00Z"
    assert shown == {
        s: dt.datetime.fromtimestamp(s, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if s >= first else epoch for s in seconds
    }
    named = [damage for _, damage in debezium.lossy_columns(table, options)]
    assert ("the first hours of 1970 become the zero value" in named) == (first > 1)


def test_verify_counts_a_schema_change_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    key, change = shown("tiny", sql="ALTER TABLE `t` MODIFY `tiny` TINYINT", commit_ts=1)
    change["payload"]["tableChanges"] = "none"
    frame = records(spark, [(json.dumps(key), json.dumps(change)), (json.dumps(ROW_KEY), json.dumps(ROW_VALUE))])
    frame.coalesce(1).write.parquet(str(tmp_path / "topic"))
    source = f"file://{tmp_path}/topic?protocol=debezium"
    letters = str(tmp_path / "letters")
    by_spark = tidecast.verify(source, tz="UTC", spark=spark, dead_letters=letters)
    for report in (by_spark, tidecast.verify(source, tz="UTC")):
        assert (dict(report.dead_letters), dict(report.verdicts)) == ({"bad-message": 1}, {"none": 1})
    (letter,) = (json.loads(line) for file in (tmp_path / "letters").rglob("*.json*") for line in lines_of(file))
    assert letter["detail"] == "tableChanges is not of Debezium's form"


def lines_of(file: Path) -> list[str]:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode().splitlines()
