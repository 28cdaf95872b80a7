"""Debezium's envelope read from Avro: TiCDC's, and that of Debezium's own connector, as fastavro writes them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from debezium_avro import (
    COLUMNS,
    COMMIT_TS,
    KEYS,
    NOTHING,
    ORIGIN,
    READ,
    SOURCE,
    VALUES,
    WRITTEN,
    Subject,
    decoder,
    envelope,
    key,
    only_rows,
    optional,
    read,
    record,
    required,
    row,
    semantic,
)
from debezium_native import (
    CUSTOMER_KEYS,
    CUSTOMERS,
    NATIVE_READ,
    NATIVE_ROW,
    maybe,
    native,
    native_envelope,
    native_row,
    plain,
)
from decoded_batches import Message, batch

from tidecast.model import Column, DataType, Reason, TableSchema
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import Said


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


def test_what_an_operation_does_not_have_is_not_shown() -> None:
    """Only updates have both rows."""
    messages: list[Message] = [(None, VALUES.message(row(op, WRITTEN, WRITTEN))) for op in "cud"]
    rows = only_rows(messages, VALUES)
    assert [old is None for old in rows.old.to_pylist()] == [True, False, False]
    assert [data is None for data in rows.data.to_pylist()] == [False, False, True]


def test_a_default_that_is_a_fraction_has_its_own_digits() -> None:
    column = {"name": "d", "type": {"type": "double", "connect.default": 3.14}, "default": 3.14}
    subject = Subject(3, native_envelope([plain("id", "int"), column]))
    rows = only_rows([(None, subject.message(native_row("c", None, {"id": 1, "d": 2.5})))], subject)
    assert rows.version.schema.column("d").default == "3.14"


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


def table(*columns: Column, version: int = 5) -> TableSchema:
    return TableSchema("shop", "t", 0, version, columns)


KEPT = Column("k", DataType("varchar", "utf8mb4", "utf8mb4_bin", length=20), nullable=False, default="x")
MOMENT = Column("at", DataType("datetime", length=23, decimal=3))
PICK = Column("e", DataType("enum", "utf8mb4", "utf8mb4_bin", elements=("a", "b")))
EXACT = Column("n", DataType("decimal", length=12, decimal=3))
MORE = Column("more", KEPT.data_type)
LESS = [
    optional("e", semantic("string", "io.debezium.data.Enum", allowed="a,b"), tidb_type="enum"),
    optional("k", "string", tidb_type="varchar"),
    optional("at", semantic("long", "io.debezium.time.Timestamp"), tidb_type="datetime"),
    optional("n", "string", tidb_type="decimal"),
]
SAID = {"e": "b", "k": "kk", "at": 1701347696120, "n": "1.500"}
OTHER = replace(PICK, data_type=replace(PICK.data_type, elements=("a", "c")))


@pytest.mark.parametrize(
    ("known", "chosen"),
    [
        ([], None),
        ([table(KEPT, MOMENT, PICK, EXACT)], 0),
        ([table(KEPT, MOMENT, PICK, EXACT), table(KEPT, MOMENT, PICK, EXACT, version=6)], 1),
        ([table(KEPT, MOMENT, PICK, EXACT), table(KEPT, MOMENT, PICK, EXACT, MORE, version=6)], 0),
        ([table(KEPT, MOMENT, PICK, EXACT, MORE)], 0),
        ([table(KEPT, MOMENT, OTHER, EXACT)], None),
        ([table(KEPT, MOMENT, PICK)], None),
    ],
)
def test_a_table_that_a_schema_change_has_shown_tells_more(known: list[TableSchema], chosen: int | None) -> None:
    """Rows have its types and its order of columns."""
    tables = Known(ordered=True)
    for schema in known:
        tables = tables.with_version(schema, schema.version)
    subject = Subject(2, envelope(LESS))
    reader = replace(decoder(subject), known=tables)
    messages = batch([(None, subject.message(row("c", None, SAID)))])
    (rows,) = reader.decode(messages).rows
    assert rows.reason.null_count == 1
    assert reader.of(rows.version).decode(messages).rows[0].version == rows.version
    if chosen is None:
        assert [c.name for c in rows.version.schema.columns] == ["e", "k", "at", "n"]
        assert rows.data.to_pylist() == [SAID | {"at": "2023-11-30 12:34:56.120"}]
    else:
        assert rows.version.schema.columns == (KEPT, MOMENT, PICK, EXACT)
        assert rows.version.schema.version == known[chosen].version
        exact = {"n": Decimal("1.500"), "at": "2023-11-30 12:34:56.120"}
        assert rows.data.to_pylist() == [SAID | exact]
