"""Debezium's envelope read from Avro: TiCDC's, and that of Debezium's own connector, as fastavro writes them."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from debezium_avro import (
    COMMIT_TS,
    ORIGIN,
    SOURCE,
    Subject,
    decoder,
    envelope,
    key,
    optional,
    record,
    required,
    row,
)
from decoded_batches import Message, batch, damaged, said
from hypothesis import given, settings
from hypothesis import strategies as st

from tidecast.model import DataType, Reason
from tidecast.protocols import Rows
from tidecast.protocols.debezium._parse import Said
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder
from tidecast.registry import header

Json = dict[str, Any]


def semantic(kind: str, name: str, version: int | None = 1, **parameters: str) -> Json:
    found: Json = {"connect.name": name, "type": kind}
    if version:
        found["connect.version"] = version
    return found | ({"connect.parameters": parameters} if parameters else {})


DECIMAL = semantic("bytes", "org.apache.kafka.connect.data.Decimal", None, precision="10", scale="4")
DECIMAL |= {"logicalType": "decimal", "precision": 10, "scale": 4}
COLUMNS: list[tuple[str, str, Any, Any, Any]] = [
    ("id", "int", "int", 7, 7),
    ("tiny", "tinyint unsigned", {"connect.type": "int16", "type": "int"}, 255, 255),
    ("u", "bigint unsigned", "long", 2**63 - 1, 2**63 - 1),
    ("us", "bigint unsigned", "string", "18446744073709551615", 2**64 - 1),
    ("f", "float", "float", 1.5, 1.5),
    ("d", "double", "double", 1e300, 1e300),
    ("n", "decimal", DECIMAL, Decimal("-1.2345"), Decimal("-1.2345")),
    ("ns", "decimal", "string", "12.3400", "12.3400"),
    ("v", "varchar", "string", "中文", "中文"),
    ("b", "varbinary", "bytes", b"\0\xff", b"\0\xff"),
    ("bit", "bit", "boolean", True, b"\1"),
    ("bits", "bit", semantic("bytes", "io.debezium.data.Bits", length="12"), b"\x01\x0a", b"\x0a\x01"),
    ("e", "enum", semantic("string", "io.debezium.data.Enum", allowed="a\\,b,c"), "a,b", "a,b"),
    ("s", "set", semantic("string", "io.debezium.data.EnumSet", allowed="x,y"), "x,y", "x,y"),
    ("j", "json", semantic("string", "io.debezium.data.Json"), '{"k": 1}', '{"k": 1}'),
    ("day", "date", semantic("int", "io.debezium.time.Date"), 19691, "2023-11-30"),
    ("at", "datetime", semantic("long", "io.debezium.time.Timestamp"), 1701347696000, "2023-11-30 12:34:56"),
    ("at6", "datetime", semantic("long", "io.debezium.time.MicroTimestamp"), -1, "1969-12-31 23:59:59.999999"),
    ("ts", "timestamp", semantic("string", "io.debezium.time.ZonedTimestamp"), "2023-11-30T12:34:56Z", None),
    ("dur", "time", semantic("long", "io.debezium.time.MicroTime"), -45296123000, "-12:34:56.123000"),
    ("y", "year", semantic("int", "io.debezium.time.Year"), 2023, 2023),
    ("vec", "vector", semantic("string", "io.debezium.data.TiDBVectorFloat32", None), "[1,2.5]", "[1,2.5]"),
]
FIELDS = [optional(name, kind, tidb_type=tidb_type) for name, tidb_type, kind, _, _ in COLUMNS]
WRITTEN = {name: value for name, _, _, value, _ in COLUMNS}
READ = {name: value for name, _, _, _, value in COLUMNS} | {"ts": "2023-11-30 12:34:56"}
NOTHING = dict.fromkeys(READ) | {"id": 8}
VALUES, KEYS = Subject(2, envelope(FIELDS)), Subject(1, key(FIELDS[:1]))


def read(messages: list[Message], *subjects: Subject) -> dict[int, tuple[Any, ...]]:
    return said(decoder(*subjects).decode(batch(messages)))


def only_rows(messages: list[Message], *subjects: Subject) -> Rows:
    (rows,) = decoder(*subjects).decode(batch(messages)).rows
    return rows


def test_every_type_of_ticdcs_becomes_a_column_of_its_own() -> None:
    messages: list[Message] = [
        (KEYS.message({"id": 7}), VALUES.message(row("c", None, WRITTEN))),
        (KEYS.message({"id": 8}), VALUES.message(row("u", WRITTEN | {"id": 8}, NOTHING, commit_ts=COMMIT_TS + 1))),
        (KEYS.message({"id": 8}), VALUES.message(row("d", NOTHING, None, commit_ts=COMMIT_TS + 2))),
    ]
    rows = only_rows(messages, KEYS, VALUES)
    assert rows.reason.null_count == 3
    assert rows.op.to_pylist() == ["c", "u", "d"]
    assert rows.commit_ts.to_pylist() == [COMMIT_TS, COMMIT_TS + 1, COMMIT_TS + 2]
    assert rows.data.to_pylist() == [READ, NOTHING, None]
    assert rows.old.to_pylist() == [None, READ | {"id": 8}, NOTHING]
    schema = rows.version.schema
    assert (schema.database, schema.table, schema.handle_key, schema.version) == ("shop", "t", ("id",), COMMIT_TS)
    assert [c.data_type.mysql_type for c in schema.columns] == [t.partition(" ")[0] for _, t, _, _, _ in COLUMNS]
    assert [c.name for c in schema.columns if c.data_type.unsigned and c.data_type.kind.numeric] == ["tiny", "u", "us"]
    assert [c.name for c in schema.columns if not c.nullable] == ["id"]
    assert not any(c.default_known for c in schema.columns)  # TiCDC leaves defaults out
    told = {c.name: c.data_type for c in schema.columns}
    assert (told["n"].length, told["n"].decimal, told["bits"].length) == (10, 4, 12)
    assert (told["e"].elements, told["s"].elements) == (("a,b", "c"), ("x", "y"))


def test_without_the_extension_the_forms_tell_the_types() -> None:
    fields = [optional(name, kind) for name, _, kind, _, _ in COLUMNS]
    subject = Subject(3, envelope(fields))
    rows = only_rows([(None, subject.message(row("c", None, WRITTEN)))], subject)
    texts = {"us": "18446744073709551615", "u": 2**63 - 1}
    assert rows.data.to_pylist() == [READ | texts]
    assert not rows.version.schema.handle_key
    assert {c.data_type.mysql_type for c in rows.version.schema.columns if c.name in ("b", "v")} == {
        "varbinary",
        "varchar",
    }


def test_a_name_that_avro_refuses_is_the_original_one() -> None:
    column = optional("a-b", "int") | {"name": "a_b"}
    keys, values = Subject(1, key([column])), Subject(2, envelope([column]))
    rows = only_rows([(keys.message({"a_b": 1}), values.message(row("c", None, {"a_b": 1})))], keys, values)
    assert rows.data.to_pylist() == [{"a-b": 1}]
    assert rows.version.schema.handle_key == ("a-b",)


def native(name: str, fields: list[Json], **more: Any) -> Json:
    namespace, _, last = name.rpartition(".")
    return {"type": "record", "name": last, "namespace": namespace, "fields": fields, "connect.name": name, **more}


def plain(name: str, kind: Any) -> Json:
    return {"name": name, "type": kind}


def maybe(name: str, kind: Any) -> Json:
    return {"name": name, "type": ["null", kind], "default": None}


NATIVE_DECIMAL = {
    "type": "bytes",
    "scale": 2,
    "precision": 10,
    "connect.version": 1,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}
NATIVE_SOURCE = native(
    "io.debezium.connector.mysql.Source",
    [
        *(plain(name, "string") for name in ("version", "connector", "name")),
        plain("ts_ms", "long"),
        {
            "name": "snapshot",
            "type": [
                {
                    "type": "string",
                    "connect.version": 1,
                    "connect.parameters": {"allowed": "true,last,false,incremental"},
                    "connect.default": "false",
                    "connect.name": "io.debezium.data.Enum",
                },
                "null",
            ],
            "default": "false",
        },
        plain("db", "string"),
        *(maybe(name, "string") for name in ("sequence", "table")),
        plain("server_id", "long"),
        maybe("gtid", "string"),
        plain("file", "string"),
        plain("pos", "long"),
        plain("row", "int"),
        maybe("thread", "long"),
        maybe("query", "string"),
    ],
)
NATIVE_ORIGIN = {
    "version": "2.4.0.Final",
    "connector": "mysql",
    "name": "dbserver1",
    "ts_ms": 1701326309000,
    "snapshot": "false",
    "db": "inventory",
    "table": "customers",
    "server_id": 223344,
    "file": "mysql-bin.000003",
    "pos": 154,
    "row": 0,
    "thread": 7,
}
BLOCK = native(
    "event.block",
    [plain("id", "string"), plain("total_order", "long"), plain("data_collection_order", "long")],
    **{"connect.version": 1},
)


def native_envelope(columns: list[Json]) -> Json:
    return native(
        "dbserver1.inventory.customers.Envelope",
        [
            maybe("before", native("dbserver1.inventory.customers.Value", columns)),
            maybe("after", "Value"),
            plain("source", NATIVE_SOURCE),
            maybe("transaction", BLOCK),
            plain("op", "string"),
            maybe("ts_ms", "long"),
        ],
        **{"connect.version": 2},
    )


NATIVE_COLUMNS = [
    plain("id", "int"),
    {"name": "level", "type": {"type": "int", "connect.type": "int16", "connect.default": 3}, "default": 3},
    {"name": "email", "type": [{"type": "string", "connect.default": "none"}, "null"], "default": "none"},
    maybe("price", NATIVE_DECIMAL),
    maybe("raw", "bytes"),
    maybe("at", semantic("long", "io.debezium.time.MicroTimestamp")),
    plain("ts", semantic("string", "io.debezium.time.ZonedTimestamp")),
    maybe("connect_at", semantic("long", "org.apache.kafka.connect.data.Timestamp")),
    maybe("connect_day", semantic("int", "org.apache.kafka.connect.data.Date")),
    maybe("connect_time", semantic("int", "org.apache.kafka.connect.data.Time")),
]
NATIVE_ROW = {
    "id": 1001,
    "level": 4,
    "email": "a@b",
    "price": Decimal("-12.30"),
    "raw": b"\0\xff",
    "at": 1701347696123400,
    "ts": "2023-11-30T12:34:56Z",
    "connect_at": 1701347696000,
    "connect_day": 19691,
    "connect_time": 45296123,
}
NATIVE_READ = NATIVE_ROW | {
    "at": "2023-11-30 12:34:56.123400",
    "ts": "2023-11-30 12:34:56",
    "connect_at": "2023-11-30 12:34:56",
    "connect_day": "2023-11-30",
    "connect_time": "12:34:56.123000",
}


def native_row(op: str, before: Json | None, after: Json | None, **source: Any) -> Json:
    return {"before": before, "after": after, "source": NATIVE_ORIGIN | source, "op": op, "ts_ms": 1701326309001}


CUSTOMERS = Subject(12, native_envelope(NATIVE_COLUMNS))
CUSTOMER_KEYS = Subject(11, native("dbserver1.inventory.customers.Key", NATIVE_COLUMNS[:1]))


def test_debeziums_own_connector_through_confluents_converter_is_read() -> None:
    key_bytes = CUSTOMER_KEYS.message({"id": 1001})
    in_transaction = {"transaction": {"id": "g:1", "total_order": 1, "data_collection_order": 1}}
    messages: list[Message] = [
        (key_bytes, CUSTOMERS.message(native_row("r", None, NATIVE_ROW, snapshot="last"))),
        (key_bytes, CUSTOMERS.message(native_row("u", NATIVE_ROW, NATIVE_ROW | {"email": None}) | in_transaction)),
        (key_bytes, CUSTOMERS.message(native_row("d", NATIVE_ROW, None))),
        (key_bytes, None),
    ]
    rows = only_rows(messages, CUSTOMERS, CUSTOMER_KEYS)
    assert rows.at.tolist() == [0, 1, 2]
    assert rows.op.to_pylist() == ["c", "u", "d"]
    assert rows.commit_ts.null_count == 3
    assert rows.data.to_pylist() == [NATIVE_READ, NATIVE_READ | {"email": None}, None]
    assert rows.old.to_pylist() == [None, NATIVE_READ, NATIVE_READ]
    schema = rows.version.schema
    assert (schema.database, schema.table, schema.handle_key) == ("inventory", "customers", ("id",))
    told = {c.name: c for c in schema.columns}
    assert (told["level"].default, told["email"].default, told["price"].default_known) == ("3", "none", False)
    assert told["email"].nullable
    assert not told["level"].nullable
    assert told["level"].data_type.mysql_type == "smallint"
    assert told["price"].data_type == DataType("decimal", length=10, decimal=2)


def test_heartbeats_and_transactions_are_no_rows_and_no_dead_letters() -> None:
    heartbeat = Subject(21, native("io.debezium.connector.common.Heartbeat", [plain("ts_ms", "long")]))
    counts = native("event.collection", [plain("data_collection", "string"), plain("event_count", "long")])
    transaction = Subject(
        22,
        native(
            "io.debezium.connector.common.TransactionMetadataValue",
            [
                plain("status", "string"),
                plain("id", "string"),
                maybe("event_count", "long"),
                maybe("data_collections", {"type": "array", "items": counts}),
                plain("ts_ms", "long"),
            ],
        ),
    )
    key_bytes = CUSTOMER_KEYS.message({"id": 1})
    begin = {"status": "BEGIN", "id": "1", "ts_ms": 1}
    messages: list[Message] = [(key_bytes, heartbeat.message({"ts_ms": 1})), (key_bytes, transaction.message(begin))]
    assert read(messages, heartbeat, transaction, CUSTOMER_KEYS) == {}


def test_op_t_is_a_truncate_table() -> None:
    messages: list[Message] = [(None, CUSTOMERS.message(native_row("t", None, None)))]
    assert read(messages, CUSTOMERS) == {0: ("control",)}
    told = decoder(CUSTOMERS).said(messages[0][1] or b"")
    assert isinstance(told, Said)
    assert told.payload["ddl"] == "TRUNCATE TABLE `inventory`.`customers`"


def test_watermarks_are_told() -> None:
    transaction = optional("transaction", record("event.block", [required("id", "string")]))
    fields = [required("source", record("a.watermark.Source", SOURCE)), required("op", "string")]
    subject = Subject(5, record("a.watermark.Envelope", [*fields, optional("ts_ms", "long"), transaction]))
    origin = ORIGIN | {"db": "", "table": ""}
    messages: list[Message] = [
        (None, subject.message({"source": origin, "op": "m", "ts_ms": 1})),
        (None, subject.message({"source": origin | {"commit_ts": -1}, "op": "m", "ts_ms": 1})),
        (None, subject.message({"source": origin, "op": "m", "ts_ms": 1}) + b"more"),
    ]
    assert read(messages, subject) == {
        0: ("watermark", COMMIT_TS),
        1: (str(Reason.BAD_VALUE), "commit_ts is no time"),
        2: (str(Reason.UNDECODABLE), "not a record of schema id 5"),
    }


@pytest.mark.parametrize(
    ("content", "reason", "detail"),
    [
        (row("x", None, WRITTEN), Reason.BAD_MESSAGE, "unknown op 'x'"),
        (row("c", None, WRITTEN, commit_ts=-1), Reason.BAD_VALUE, "commit_ts is no time"),
    ],
)
def test_what_is_wrong_with_an_envelope_is_told(content: Json, reason: Reason, detail: str) -> None:
    messages: list[Message] = [(None, VALUES.message(content)), (None, VALUES.message(row("c", None, WRITTEN)))]
    found = read(messages, VALUES)
    assert found[0] == (str(reason), detail)
    assert found[1][1] == READ


@pytest.mark.parametrize(
    ("content", "reason", "detail"),
    [
        (row("c", WRITTEN, None), Reason.BAD_MESSAGE, "the row is missing"),
        (row("d", None, WRITTEN), Reason.BAD_MESSAGE, "the row is missing"),
        (row("c", None, WRITTEN | {"us": "-1"}), Reason.BAD_VALUE, "not of its column's type: us"),
        (row("u", WRITTEN | {"ts": "now"}, WRITTEN), Reason.BAD_VALUE, "not of its column's type: ts"),
        (row("c", None, WRITTEN | {"bits": b"123"}), Reason.BAD_VALUE, "not of its column's type: bits"),
        (row("c", None, WRITTEN | {"ns": "1e5"}), Reason.BAD_VALUE, "not of its column's type: ns"),
    ],
)
def test_what_is_wrong_with_a_row_is_told(content: Json, reason: Reason, detail: str) -> None:
    good = row("c", None, WRITTEN)
    messages: list[Message] = [(None, VALUES.message(c)) for c in (good, content, good)]
    found = read(messages, VALUES)
    assert found[1][6:8] == (str(reason), detail)
    assert (found[0][1], found[2][1]) == (READ, READ)


GEOMETRY = native("io.debezium.data.geometry.Geometry", [plain("wkb", "bytes"), maybe("srid", "int")])
NOT_DEBEZIUMS: list[tuple[Any, str]] = [
    ("string", "it is no record"),
    (record("a.b", [required("id", "int")]), "it has no field op and source, so it is no envelope of Debezium's"),
    (native_envelope([plain("g", GEOMETRY)]), "its column g is of type io.debezium.data.geometry.Geometry"),
    (native_envelope([plain("g", ["int", "string"])]), "its field g is a union of several types"),
    (native_envelope([plain("g", {"type": "array", "items": "int"})]), "its field g is of type array"),
    (native_envelope([plain("g", semantic("string", "io.debezium.time.IsoDate"))]), "its column g is of type io.deb"),
    (envelope([optional("g", "string", tidb_type="date")]), "its column g is a date and of Avro's type string"),
]


@pytest.mark.parametrize(("schema", "why"), NOT_DEBEZIUMS)
def test_a_foreign_schema_says_which_field_is_why(schema: Any, why: str) -> None:
    known = decoder(VALUES)
    text = json.dumps(schema)
    known = DebeziumAvroDecoder(known.framing, {header(9): known.schemas[header(2)]._replace(text=text)})  # type: ignore[union-attr]
    ((reason, detail),) = said(known.decode(batch([(None, header(9) + b"x")]))).values()
    assert reason == str(Reason.FOREIGN_SCHEMA)
    assert detail.startswith(f"schema id 9 is not one of Debezium's: {why}")


def test_unknown_ids_and_strange_framing_are_told() -> None:
    message = VALUES.message(row("c", None, WRITTEN))
    assert read([(None, message)]) == {0: (header(2),)}
    lacking = DebeziumAvroDecoder(decoder().framing, {header(2): None})
    assert said(lacking.decode(batch([(None, message)]))) == {
        0: (str(Reason.UNKNOWN_SCHEMA_ID), "the registry knows no schema id 2")
    }
    found = read([(b"{}", message), (None, b"\0\0"), (None, None)], VALUES)
    assert [found[n][0] for n in range(3)] == [str(r) for r in (Reason.BAD_MAGIC, Reason.TRUNCATED, Reason.BAD_MESSAGE)]


def test_rows_of_several_tables_with_one_schema_are_told_apart() -> None:
    tables = [("shop", "t"), ("shop", "u"), ("other", "t"), ("shop", "t")]
    messages: list[Message] = [
        (None, VALUES.message(row("u", WRITTEN if n % 2 else None, WRITTEN | {"id": n}, db=db, table=table)))
        for n, (db, table) in enumerate(tables)
    ]
    found = decoder(VALUES).decode(batch(messages))
    got = {(r.version.schema.database, r.version.schema.table): r for r in found.rows}
    assert {name: rows.at.tolist() for name, rows in got.items()} == {
        ("shop", "t"): [0, 3],
        ("shop", "u"): [1],
        ("other", "t"): [2],
    }
    assert got["shop", "t"].data.to_pylist() == [READ | {"id": 0}, READ | {"id": 3}]
    assert got["shop", "t"].old.to_pylist() == [None, READ]


def messages_of_all_kinds() -> list[Message]:
    ops = [("c", None, WRITTEN), ("u", WRITTEN, NOTHING), ("d", NOTHING, None), ("u", None, WRITTEN)]
    mine: list[Message] = [
        (KEYS.message({"id": n}), VALUES.message(row(op, before, after, commit_ts=COMMIT_TS + n)))
        for n, (op, before, after) in enumerate(ops * 5)
    ]
    theirs: list[Message] = [
        (CUSTOMER_KEYS.message({"id": n}), CUSTOMERS.message(native_row("r", None, NATIVE_ROW | {"id": n})))
        for n in range(9)
    ]
    return [one for pair in zip(mine, theirs, strict=False) for one in pair] + mine[9:]


ALL = (KEYS, VALUES, CUSTOMER_KEYS, CUSTOMERS)


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 40), max_size=5), seed=st.integers(0, 10**6), odd=st.integers(0, 6))
def test_any_split_into_batches_says_the_same_of_damaged_messages(cuts: list[int], seed: int, odd: int) -> None:
    r, messages = random.Random(seed), messages_of_all_kinds()
    for place in r.sample(range(len(messages)), odd):
        key_bytes, value = messages[place]
        assert value is not None
        messages[place] = (key_bytes, damaged(r, value, 5))
    known = decoder(*ALL)
    whole = said(known.decode(batch(messages)))
    ends = sorted({0, *(min(cut, len(messages)) for cut in cuts), len(messages)})
    parts: dict[int, Any] = {}
    for start, end in pairwise(ends):
        parts |= said(known.decode(batch(messages[start:end])), start)
    assert parts == whole
    kinds = {n: len(words) for n, words in whole.items()}
    assert {n: len(words) for n, words in said_without_values(known, messages).items()} == kinds


def said_without_values(known: DebeziumAvroDecoder, messages: list[Message]) -> dict[int, Any]:
    return said(known.decode(batch(messages), values=False))


def test_no_damage_changes_other_rows() -> None:
    r, known = random.Random(3), decoder(*ALL)
    messages = messages_of_all_kinds()
    sound = said(known.decode(batch(messages)))
    for _ in range(300):
        place = r.randrange(len(messages))
        key_bytes, value = messages[place]
        assert value is not None
        spoiled = [*messages]
        spoiled[place] = (key_bytes, damaged(r, value, 5))
        found = said(known.decode(batch(spoiled)))
        assert {n: words for n, words in found.items() if n != place} == {
            n: words for n, words in sound.items() if n != place
        }


def test_a_version_is_read_by_its_own_schemas_alone() -> None:
    messages = messages_of_all_kinds()
    known = decoder(*ALL)
    for rows in known.decode(batch(messages)).rows:
        own = known.of(rows.version)
        assert len(own.schemas) == 2
        chosen = [messages[n] for n in rows.at]
        (again,) = own.decode(batch(chosen)).rows
        assert again.data.equals(rows.data)
        assert again.version.name == rows.version.name


def test_unknown_schemas_are_asked_for_and_nothing_is_read_twice() -> None:
    messages, known = messages_of_all_kinds(), decoder(*ALL)
    first = decoder(CUSTOMER_KEYS, CUSTOMERS, KEYS).decode(batch(messages))
    ((name, places),) = first.unknown
    assert name == header(2)
    second = said(known.only(frozenset([name])).decode(batch(messages)))
    assert second.keys() == {*places.tolist()}


def test_a_batch_without_messages_is_nothing() -> None:
    found = decoder(*ALL).decode(batch([]))
    assert (found.rows, found.rejected, found.control.tolist(), found.unknown) == ([], [], [], [])
    assert found.watermarks[0].dtype == found.watermarks[1].dtype == pa.int64().to_pandas_dtype()


def test_differences_of_before_and_after_are_refused() -> None:
    fields = [
        maybe("before", record("a.B", [required("x", "int")])),
        maybe("after", record("a.A", [required("x", "string")])),
        plain("source", NATIVE_SOURCE),
        plain("op", "string"),
    ]
    subject = Subject(1, record("a.E", fields))
    content = {"before": None, "after": {"x": "1"}, "source": NATIVE_ORIGIN, "op": "c"}
    ((_, detail),) = read([(None, subject.message(content))], subject).values()
    assert "before and after are of different records" in detail
