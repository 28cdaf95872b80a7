"""Avro schemas, to the byte, without Spark."""

from __future__ import annotations

import json

import pytest

from tidecast import EncodeError
from tidecast.model import Column, DataType, Index, Kind, TableSchema, sanitize
from tidecast.protocols._allowed import join_options, split_options
from tidecast.protocols.avro import AvroOptions, key_schema, value_schema
from tidecast.protocols.avro._json import dumps
from tidecast.protocols.avro._read_schema import read_schema

UTF8 = ("utf8mb4", "utf8mb4_bin")
PRIMARY = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))

ORDER_ITEMS = TableSchema(
    "shop",
    "order-items",
    7,
    1,
    (
        Column("id", DataType("bigint", length=20, unsigned=True), nullable=False),
        Column("sku", DataType("varchar", *UTF8, length=32), nullable=False, default="n/a"),
        Column("qty", DataType("int", length=10, unsigned=True), default="1"),
        Column("price", DataType("decimal", length=12, decimal=3), nullable=False),
        Column("weight", DataType("float", length=12)),
        Column("flags", DataType("bit", length=12, unsigned=True), default=5),
        Column("state", DataType("enum", *UTF8, elements=("new", "paid,late", "done")), nullable=False, default="new"),
        Column("tags", DataType("set", *UTF8, elements=("a", "b", "c"))),
        Column("raw", DataType("varbinary", length=8), default="ab"),
        Column("note", DataType("text", *UTF8, length=65535)),
        Column("meta", DataType("json", length=4294967295)),
        Column("due", DataType("date", length=10)),
        Column("at", DataType("datetime", length=23, decimal=3)),
        Column("ts", DataType("timestamp", length=19), nullable=False, default="CURRENT_TIMESTAMP"),
        Column("dur", DataType("time", length=13, decimal=2)),
        Column("y", DataType("year", length=4, unsigned=True, zerofill=True)),
    ),
    (PRIMARY,),
)

PLAIN = (
    '{"type":"record","name":"order_items","namespace":"default.shop","fields":['
    '{"name":"id","type":{"type":"long","connect.parameters":{"tidb_type":"BIGINT UNSIGNED"}}},'
    '{"default":"n/a","name":"sku","type":{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}},'
    '{"default":1,"name":"qty","type":[{"type":"long","connect.parameters":{"tidb_type":"INT UNSIGNED"}},"null"]},'
    '{"name":"price","type":{"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},'
    '"logicalType":"decimal","precision":12,"scale":3}},'
    '{"default":null,"name":"weight","type":["null",{"type":"float","connect.parameters":{"tidb_type":"FLOAT"}}]},'
    '{"default":"BQ==","name":"flags","type":'
    '[{"type":"bytes","connect.parameters":{"length":"12","tidb_type":"BIT"}},"null"]},'
    '{"default":"new","name":"state","type":'
    '{"type":"string","connect.parameters":{"allowed":"new,paid\\\\,late,done","tidb_type":"ENUM"}}},'
    '{"default":null,"name":"tags","type":'
    '["null",{"type":"string","connect.parameters":{"allowed":"a,b,c","tidb_type":"SET"}}]},'
    '{"default":"YWI=","name":"raw","type":[{"type":"bytes","connect.parameters":{"tidb_type":"BLOB"}},"null"]},'
    '{"default":null,"name":"note","type":["null",{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}]},'
    '{"default":null,"name":"meta","type":["null",{"type":"string","connect.parameters":{"tidb_type":"JSON"}}]},'
    '{"default":null,"name":"due","type":["null",{"type":"string","connect.parameters":{"tidb_type":"DATE"}}]},'
    '{"default":null,"name":"at","type":["null",{"type":"string","connect.parameters":{"tidb_type":"DATETIME"}}]},'
    '{"default":"CURRENT_TIMESTAMP","name":"ts","type":'
    '{"type":"string","connect.parameters":{"tidb_type":"TIMESTAMP"}}},'
    '{"default":null,"name":"dur","type":["null",{"type":"string","connect.parameters":{"tidb_type":"TIME"}}]},'
    '{"default":null,"name":"y","type":["null",{"type":"int","connect.parameters":{"tidb_type":"YEAR"}}]}]}'
)

STRINGS = AvroOptions(
    enable_tidb_extension=True, decimal_handling_mode="string", bigint_unsigned_handling_mode="string", checksum=True
)


def test_the_value_schema_is_the_reference_s() -> None:
    assert value_schema(ORDER_ITEMS, AvroOptions()) == PLAIN


def test_the_key_schema_is_the_reference_s() -> None:
    head = '{"type":"record","name":"order_items","namespace":"default.shop","fields":[{"name":"id","type":'
    block = '{"type":"%s","connect.parameters":{"tidb_type":"BIGINT UNSIGNED"}}}]}'
    assert key_schema(ORDER_ITEMS, AvroOptions()) == head + block % "long"
    assert key_schema(ORDER_ITEMS, STRINGS) == head + block % "string"


def test_extension_and_checksum_fields_follow_the_columns() -> None:
    fields = json.loads(value_schema(ORDER_ITEMS, STRINGS))["fields"]
    assert fields[-6:] == [
        {"default": "", "name": "_tidb_op", "type": "string"},
        {"default": 0, "name": "_tidb_commit_ts", "type": "long"},
        {"default": 0, "name": "_tidb_commit_physical_time", "type": "long"},
        {"default": "", "name": "_tidb_row_level_checksum", "type": "string"},
        {"default": False, "name": "_tidb_corrupted", "type": "boolean"},
        {"default": 0, "name": "_tidb_checksum_version", "type": "int"},
    ]
    assert fields[3] == {
        "name": "price",
        "type": {"type": "string", "connect.parameters": {"tidb_type": "DECIMAL"}},
    }


def test_a_checksum_puts_columns_in_the_order_of_their_ids_but_not_the_key() -> None:
    ids = {"z": 4, "id": 1, "y": 5, "a": 2, "b": 3}
    columns = tuple(Column(name, DataType("int", length=11), nullable=False, id=n) for name, n in ids.items())
    key = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id", "z"))
    table = TableSchema("d", "t", 1, 1, columns, (key,))
    names = [f["name"] for f in json.loads(value_schema(table, STRINGS))["fields"]]
    assert names[:5] == ["id", "a", "b", "z", "y"]
    assert [f["name"] for f in json.loads(key_schema(table, STRINGS))["fields"]] == ["z", "id"]


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("1a", "_1a"),
        ("a-b", "a_b"),
        ("a.b", "a_b"),
        ("中", "_"),
        ("你好", "__"),
        ("é1", "_1"),
        ("-x", "_x"),
        ("9你", "_9_"),
        ("_x", "_x"),
        ("", ""),
        ("😀a", "_a"),
    ],
)
def test_names_are_made_fit_for_avro(name: str, clean: str) -> None:
    assert sanitize(name) == clean


def test_columns_that_share_a_name_in_avro_are_refused() -> None:
    table = TableSchema("d", "t", 1, 1, tuple(Column(n, DataType("int")) for n in ("a-b", "a_b")))
    with pytest.raises(EncodeError, match=r"d\.t: \[CDC:ErrAvroSchemaAPIError\]columns a-b, a_b have one name"):
        value_schema(table, AvroOptions())


def test_a_column_of_the_extension_s_name_is_refused_with_it() -> None:
    table = TableSchema("d", "t", 1, 1, (Column("id", DataType("int")), Column("_tidb_op", DataType("int"))))
    assert '"name":"_tidb_op"' in value_schema(table, AvroOptions())
    with pytest.raises(EncodeError, match=r"d\.t: \[CDC:ErrAvroSchemaAPIError\]column _tidb_op has the name"):
        value_schema(table, AvroOptions(enable_tidb_extension=True))


def test_a_type_that_the_protocol_lacks_is_refused_with_its_column() -> None:
    table = TableSchema("d", "t", 1, 1, (Column("g", DataType("geometry")),))
    with pytest.raises(EncodeError, match=r"d\.t column g: \[CDC:ErrAvroEncodeFailed\]unknown mysql type geometry"):
        value_schema(table, AvroOptions())


@pytest.mark.parametrize(
    ("data_type", "default", "options", "shown"),
    [
        (DataType("float", length=12), "3.14", AvroOptions(), "3.140000104904175"),
        (DataType("double", length=22), "1e21", AvroOptions(), "1e+21"),
        (DataType("double", length=22), "0.0000001", AvroOptions(), "1e-7"),
        (DataType("double", length=22), "-0.5", AvroOptions(), "-0.5"),
        (DataType("double", length=22), "100", AvroOptions(), "100"),
        (DataType("bigint", length=20, unsigned=True), "18446744073709551615", AvroOptions(), "-1"),
        (DataType("bigint", length=20, unsigned=True), "10", STRINGS, '"10"'),
        (DataType("decimal", length=10, decimal=2), "1.5", STRINGS, '"1.5"'),
        (DataType("bit", length=10, unsigned=True), 682, AvroOptions(), '"Aqo="'),
        (DataType("bit", length=24, unsigned=True), 0, AvroOptions(), '"AA=="'),
        (DataType("varchar", *UTF8), "<&>\u2028/", AvroOptions(), '"\\u003c\\u0026\\u003e\\u2028/"'),
        (DataType("varchar", *UTF8), "null", AvroOptions(), '"null"'),
        (DataType("set", *UTF8, elements=("a", "b")), "a,b", AvroOptions(), '"a,b"'),
        (DataType("enum", *UTF8, elements=("a''b",)), "a''b", AvroOptions(), "\"a''b\""),
    ],
)
def test_defaults_are_written_as_the_reference_writes_them(
    data_type: DataType, default: str | int, options: AvroOptions, shown: str
) -> None:
    text = value_schema(TableSchema("d", "t", 1, 1, (Column("c", data_type, default=default),)), options)
    assert f'"fields":[{{"default":{shown},"name":"c"' in text


def test_a_precise_decimal_has_no_default() -> None:
    table = TableSchema("d", "t", 1, 1, (Column("c", DataType("decimal", length=10, decimal=2), default="1.5"),))
    assert '{"default":null,"name":"c","type":["null",{"type":"bytes"' in value_schema(table, AvroOptions())


def test_a_default_that_is_no_number_is_refused_for_a_number() -> None:
    table = TableSchema("d", "t", 1, 1, (Column("c", DataType("int"), default="nextval(`d`.`s`)"),))
    with pytest.raises(EncodeError, match="CDC:ErrAvroEncodeFailed"):
        value_schema(table, AvroOptions())


def test_a_default_of_a_number_that_goes_as_text_may_be_an_expression() -> None:
    column = Column("c", DataType("bigint", length=20, unsigned=True), default="nextval(`d`.`s`)")
    text = value_schema(TableSchema("d", "t", 1, 1, (column,)), STRINGS)
    assert '"fields":[{"default":"nextval(`d`.`s`)","name":"c"' in text
    writer = read_schema(text)
    assert writer is not None
    assert writer.columns[0].default == column.default


def test_options_of_enum_survive_their_text() -> None:
    options = ("a", "b,c", "it's", "x\\y", "")
    assert join_options(options) == "a,b\\,c,it's,x\\y,"
    assert split_options(join_options(options)) == options


def test_controls_and_odd_characters_are_escaped_like_the_reference() -> None:
    assert dumps('"\\\b\f\n\r\t\x01\x1f\x7f/é<') == '"\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/é\\u003c"'


def test_a_registered_schema_reads_back_as_its_table() -> None:
    writer = read_schema(value_schema(ORDER_ITEMS, STRINGS))
    assert writer is not None
    table = writer.table_schema(9, ("id",))
    assert (table.database, table.table, table.handle_key) == ("shop", "order_items", ("id",))
    assert [c.data_type.kind for c in table.columns] == [c.data_type.kind for c in ORDER_ITEMS.columns]
    assert table.column("state").data_type.elements == ("new", "paid,late", "done")
    assert table.column("flags").data_type.length == 12
    assert table.column("flags").default == 5
    assert table.column("raw").default == "ab"
    assert table.column("id").data_type.unsigned
    assert table.column("price").data_type.kind is Kind.DECIMAL
    assert writer.extended
    assert writer.checksums


def test_a_default_that_a_schema_hides_is_not_taken_for_none() -> None:
    columns = (
        Column("precise", DataType("decimal", length=10, decimal=2), True, "9.99"),
        Column("bytes", DataType("varbinary", length=9), True, "ab"),
        Column("number", DataType("int", length=11)),
    )
    table = TableSchema("d", "t", 1, 1, columns)
    for options, known in ((AvroOptions(), {"bytes", "number"}), (STRINGS, {"precise", "bytes", "number"})):
        writer = read_schema(value_schema(table, options))
        assert writer is not None
        assert {c.name for c in writer.columns if c.default_known} == known


@pytest.mark.parametrize(
    "text",
    [
        '"string"',
        "[]",
        "not json",
        "[" * 200_000,
        '{"type":"enum","name":"e","symbols":["a"]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":["null","int"]}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"int"}}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"int","connect.parameters":{"tidb_type":"X"}}}]}',
    ],
)
def test_a_schema_of_somebody_else_is_not_taken_for_one_of_ticdc(text: str) -> None:
    assert read_schema(text) is None
