"""Debezium's envelope written as Avro: to the byte as TiCDC does, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from debezium_avro import (
    COMMIT_TS,
    Subject,
    decoder,
    envelope,
    fastavro_reads,
    key,
    optional,
    record,
    required,
    written,
)
from decoded_batches import batch
from hypothesis import given, settings
from hypothesis import strategies as st

from tidecast._errors import EncodeError
from tidecast.model import Column, DataType, Ddl, Index, TableSchema
from tidecast.protocols import CodecOptions, DecodeOptions, RoutedTable, Rows, codec_for
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions
from tidecast.protocols.debezium.avro._read import DebeziumAvroReader
from tidecast.protocols.debezium.avro._write_values import avro_column
from tidecast.registry import Registry, open_registry
from tidecast.values import arrow_type

Golden = Callable[[str], Path]
Json = dict[str, Any]
UTF8 = ("utf8mb4", "utf8mb4_bin")


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return open_registry(f"file://{tmp_path}/schemas")


def test_without_avro_enable_watermark_nothing_but_rows_leaves(registry: Registry) -> None:
    for options in (CodecOptions(enable_tidb_extension=True), CodecOptions(avro_enable_watermark=True)):
        codec = codec_for("debezium-avro", options, registry)
        assert codec.watermark is None
        assert codec.ddl(Ddl("CREATE", "CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY)", COMMIT_TS, TABLE)) == []


def test_the_first_database_of_a_schema_change_is_known_to_the_next_run(registry: Registry) -> None:
    options = CodecOptions(enable_tidb_extension=True, avro_enable_watermark=True)
    first = codec_for("debezium-avro", options, registry)
    create = Ddl("CREATE", "CREATE TABLE `my-db`.`t3` (`id` INT PRIMARY KEY)", COMMIT_TS, TABLE)
    ((_, one),) = first.ddl(create)
    second = codec_for("debezium-avro", options, registry, first.state())
    other = replace(TABLE, database="other")
    ((_, two),) = second.ddl(replace(create, sql="CREATE TABLE `other`.`t3` (`id` INT PRIMARY KEY)", schema=other))
    assert one[:5] == two[:5]


COLUMNS = {
    "id": (DataType("int", length=11), "int", "int"),
    "a-b": (DataType("tinyint", length=3, unsigned=True), "tinyint unsigned", {"connect.type": "int16", "type": "int"}),
    "n": (
        DataType("decimal", length=10, decimal=2),
        "decimal",
        {
            "connect.name": "org.apache.kafka.connect.data.Decimal",
            "connect.parameters": {"precision": "10", "scale": "2"},
            "logicalType": "decimal",
            "precision": 10,
            "scale": 2,
            "type": "bytes",
        },
    ),
    "b": (DataType("varbinary", length=9), "varbinary", "bytes"),
    "bits": (
        DataType("bit", length=12, unsigned=True),
        "bit",
        {
            "connect.name": "io.debezium.data.Bits",
            "connect.parameters": {"length": "12"},
            "connect.version": 1,
            "type": "bytes",
        },
    ),
    "e": (
        DataType("enum", *UTF8, elements=("<a", "b,c")),
        "enum",
        {
            "connect.name": "io.debezium.data.Enum",
            "connect.parameters": {"allowed": "<a,b\\,c"},
            "connect.version": 1,
            "type": "string",
        },
    ),
    "vec": (
        DataType("vector", length=-1),
        "vector",
        {"connect.name": "io.debezium.data.TiDBVectorFloat32", "type": "string"},
    ),
}
TABLE = TableSchema(
    "my-db",
    "t.3",
    0,
    1,
    tuple(Column(name, kind, name != "id", default=None) for name, (kind, _, _) in COLUMNS.items()),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)
ROUTED = RoutedTable(TABLE, TABLE, "my.topic")
ROW = {"id": 7, "a-b": 255, "n": Decimal("-12.30"), "b": b"\0\xff", "bits": b"\x0a\x01", "e": "b,c", "vec": "[1]"}


def rows_of(table: TableSchema, *changes: tuple[str, Json | None, Json | None]) -> Rows:
    kind = pa.struct([(c.name, arrow_type(c.data_type)) for c in table.columns])
    frame = pa.RecordBatch.from_arrays(
        [
            pa.array([op for op, _, _ in changes]),
            pa.array([COMMIT_TS + n for n in range(len(changes))], pa.int64()),
            pa.array([old for _, old, _ in changes], kind),
            pa.array([data for _, _, data in changes], kind),
        ],
        names=["op", "commit_ts", "old", "data"],
    )
    return Rows.of_changes(table, frame)


def test_schemas_are_those_of_ticdc_to_the_byte(registry: Registry) -> None:
    codec = codec_for("debezium-avro", CodecOptions(enable_tidb_extension=True, cluster_id="a-1"), registry)
    fields = [
        optional(name, kind, tidb_type=tidb) | {"name": name.replace("-", "_")}
        for name, (_, tidb, kind) in COLUMNS.items()
    ]
    (key_subject, key_text), (value_subject, value_text) = codec.schemas_of(ROUTED)
    assert (key_subject, value_subject) == ("my.topic-key", "my.topic-value")

    def as_go(schema: Json) -> str:
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c")

    assert key_text == as_go(key(fields[:1], "a_1.my_db.t_3"))
    assert value_text == as_go(envelope(fields, "a_1.my_db.t_3"))


def test_messages_are_those_of_ticdc_to_the_byte(registry: Registry) -> None:
    codec = codec_for("debezium-avro", CodecOptions(enable_tidb_extension=True, cluster_id="a"), registry)
    changes = [("c", None, ROW), ("u", ROW, dict.fromkeys(ROW) | {"id": 7}), ("d", ROW, None)]
    keys, values = written(codec, ROUTED, rows_of(TABLE, *changes))
    assert keys == [b"\0\0\0\0\x01\x02\x0e"] * 3
    row = bytes.fromhex("020e02fe030204fb32020400ff0204010a0206622c6302065b315d")
    nothing = bytes.fromhex("020e000000000000")
    for n, (value, sides) in enumerate(
        zip(values, (b"\0\2" + row, b"\2" + row + b"\2" + nothing, b"\2" + row + b"\0"), strict=True)
    ):
        assert value.startswith(b"\0\0\0\0\x02" + sides + b"\x162.4.0.Final\x0aTiCDC\x02a")
        _, got = fastavro_reads(value, registry)
        assert got["source"]["ts_ms"] == COMMIT_TS >> 18
        assert got["source"]["commit_ts"] == COMMIT_TS + n
        assert (got["source"]["db"], got["source"]["table"], got["op"]) == ("my-db", "t.3", "cud"[n])


def test_numbers_of_fixed_width_need_no_row_on_either_side(registry: Registry) -> None:
    kinds = {"f": DataType("float", length=12), "d": DataType("double", length=22), "flag": DataType("bit", length=1)}
    table = replace(TABLE, columns=(TABLE.columns[0], *(Column(name, kind) for name, kind in kinds.items())))
    row = {"id": 7, "f": 1.0, "d": -2.0, "flag": b"\1"}
    shown = bytes.fromhex("020e020000803f0200000000000000c00201")
    for op, old, data, sides in (("c", None, row, b"\0\2" + shown), ("d", row, None, b"\2" + shown + b"\0")):
        codec = codec_for("debezium-avro", CodecOptions(), registry)
        _, (value,) = written(codec, RoutedTable(table, table, "t"), rows_of(table, (op, old, data)))
        assert value[5:].startswith(sides + b"\x162.4.0.Final")


def test_an_update_shows_no_old_row_where_it_is_told_not_to(registry: Registry) -> None:
    codec = codec_for("debezium-avro", CodecOptions(debezium_output_old_value=False), registry)
    changes = [("u", ROW, ROW), ("d", ROW, None), ("u", None, ROW)]
    _, values = written(codec, ROUTED, rows_of(TABLE, *changes))
    said = [fastavro_reads(value, registry)[1] for value in values]
    assert [(one["before"] is None, one["after"] is None) for one in said] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def large(value: int) -> tuple[TableSchema, Rows]:
    columns = (TABLE.columns[0], Column("u", DataType("bigint", length=20, unsigned=True)))
    table = replace(TABLE, columns=columns)
    return table, rows_of(table, ("c", None, {"id": 1, "u": value}), ("c", None, {"id": 2, "u": None}))


def test_a_number_too_large_for_a_long_is_refused_or_goes_as_text(registry: Registry) -> None:
    table, rows = large(2**63)
    routed = RoutedTable(table, table, "t")
    codec = codec_for("debezium-avro", CodecOptions(), registry)
    wrong = codec.encoder.unencodable(routed, rows).to_pylist()
    assert wrong == ["column u overflows avro long: set avro-bigint-unsigned-handling-mode=string", None]
    assert codec.lossy_columns(routed)[0][1].startswith("numbers from 2^63 on are not sent")
    _, fitting = large(2**63 - 1)
    assert codec.encoder.unencodable(routed, fitting).null_count == 2
    text = codec_for("debezium-avro", CodecOptions(avro_bigint_unsigned_handling_mode="string"), registry)
    assert text.lossy_columns(routed) == []
    _, values = written(text, routed, rows)
    assert fastavro_reads(values[0], registry)[1]["after"]["u"] == str(2**63)


def test_what_has_no_schema_is_refused(registry: Registry) -> None:
    codec = codec_for("debezium-avro", CodecOptions(), registry)
    unknown = replace(TABLE, columns=(TABLE.columns[0], Column("n", DataType("decimal"))))
    with pytest.raises(EncodeError, match="unknown precision"):
        codec.prepare_value(RoutedTable(unknown, unknown, "t"))
    twice = replace(TABLE, columns=(*TABLE.columns, Column("a_b", DataType("int", length=11))))
    with pytest.raises(EncodeError, match="have one name in Avro"):
        codec.prepare_value(RoutedTable(twice, twice, "t"))
    source = replace(TABLE, table="Source")
    with pytest.raises(EncodeError, match="record that is in every message"):
        codec.prepare_value(RoutedTable(source, source, "t"))


def test_a_day_of_no_calendar_is_null_or_the_first_one(registry: Registry) -> None:
    kinds = {
        "d": DataType("date", length=10),
        "at": DataType("datetime", length=19),
        "at6": DataType("datetime", length=26, decimal=6),
    }
    columns = [Column(f"{name}{n}", kind, bool(n)) for name, kind in kinds.items() for n in (0, 1)]
    days = replace(TABLE, columns=(TABLE.columns[0], *columns))
    zero = {"d": "0000-00-00", "at": "0000-00-00 00:00:00", "at6": "2023-02-31 00:00:00.000000"}
    rows = rows_of(days, ("c", None, {"id": 1, **{f"{name}{n}": text for name, text in zero.items() for n in (0, 1)}}))
    codec = codec_for("debezium-avro", CodecOptions(), registry)
    _, (value,) = written(codec, RoutedTable(days, days, "t"), rows)
    after = fastavro_reads(value, registry)[1]["after"]
    assert after == {"id": 1} | {f"{name}0": 0 for name in zero} | {f"{name}1": None for name in zero}


def test_a_not_null_column_without_a_value_is_refused(registry: Registry) -> None:
    codec = codec_for("debezium-avro", CodecOptions(), registry)
    rows = rows_of(TABLE, ("c", None, ROW | {"id": None}))
    assert codec.encoder.unencodable(ROUTED, rows).to_pylist() == ["column id is NOT NULL and has no value"]


VALUES = {
    "id": st.integers(-(2**31), 2**31 - 1),
    "a-b": st.integers(0, 255),
    "n": st.decimals(min_value=-99999999, max_value=99999999, places=2),
    "b": st.binary(max_size=9),
    "bits": st.integers(0, 4095).map(lambda n: n.to_bytes(2, "big")),
    "e": st.sampled_from(["", "<a", "b,c"]),
    "vec": st.sampled_from(["[]", "[1,2.5]"]),
}
SOME = st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items() if name != "id"})


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(st.tuples(st.sampled_from("cud"), VALUES["id"], SOME, SOME), min_size=1, max_size=6),
    extended=st.booleans(),
)
def test_any_rows_survive(
    changes: list[tuple[str, int, Json, Json]], extended: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    registry = open_registry(f"file://{tmp_path_factory.mktemp('schemas')}")
    codec = codec_for("debezium-avro", CodecOptions(enable_tidb_extension=extended), registry)
    full = [
        (op, None if op == "c" else {"id": n, **old}, None if op == "d" else {"id": n, **data})
        for op, n, old, data in changes
    ]
    rows = rows_of(TABLE, *full)
    keys, values = written(codec, ROUTED, rows)
    for value, (op, old, data) in zip(values, full, strict=True):
        got = fastavro_reads(value, registry)[1]
        assert got["op"] == op
        assert [got[side] and got[side]["n"] for side in ("before", "after")] == [s and s["n"] for s in (old, data)]
    reader = DebeziumAvroReader(DecodeOptions(registry=registry))
    messages = batch(list(zip(keys, values, strict=True)))
    for name, _ in reader.decoder.decode(messages).unknown:
        reader.learn([name])
    (again,) = reader.decoder.decode(messages).rows
    assert (again.old.to_pylist(), again.data.to_pylist()) == (rows.old.to_pylist(), rows.data.to_pylist())


def test_ticdcs_first_form_is_read() -> None:
    """TiCDC's first form: names of JSON, key columns that are not optional, and commit-ts in no schema."""
    columns = [required("id", "int"), optional("v", "string")]
    source = [required(n, "string") for n in ("version", "connector", "name", "db")]
    fields = [
        optional("before", record("a.d.t.Value", columns)),
        optional("after", "a.d.t.Value"),
        required("source", record("io.debezium.connector.mysql.Source", [*source, optional("table", "string")])),
        required("op", "string"),
        optional("ts_ms", "long"),
    ]
    subject = Subject(4, record("a.d.t.Envelope", fields, **{"connect.version": 1}))
    origin = {"version": "", "connector": "TiCDC", "name": "a", "db": "d", "table": "t"}
    content = {"before": None, "after": {"id": 1, "v": "x"}, "source": origin, "op": "c", "ts_ms": 1}
    (rows,) = decoder(subject).decode(batch([(None, subject.message(content))])).rows
    assert rows.data.to_pylist() == [{"id": 1, "v": "x"}]
    assert rows.commit_ts.to_pylist() == [None]


@pytest.mark.parametrize(
    ("default", "mode", "want"),
    [
        ("1.555", "string", "1.555"),
        ("1.5", "string", "1.5"),
        ("1.555", "precise", b"\x00\x9b"),
        ("-1.555", "precise", b"\xff\x64"),
    ],
)
def test_a_decimal_that_is_null_is_its_default_as_it_was_typed(default: str, mode: Any, want: str | bytes) -> None:
    """A precise one has as many digits as its column: the others are rounded down."""
    price = Column("price", DataType("decimal", length=10, decimal=2), default=default)
    values = pa.array([None, Decimal("1.20")], arrow_type(price.data_type))
    first, second = avro_column(price, values, DebeziumAvroOptions(decimal_handling_mode=mode)).to_pylist()
    assert (first, second) == (want, "1.20" if mode == "string" else b"\x78")
