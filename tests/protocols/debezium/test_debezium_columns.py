"""Debezium decoded in batches, in process: every golden message, any split into batches, and damaged messages."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decoded_batches import Message, Said, batch, damaged, said
from differences import assert_messages_equal
from golden_data import Line, lines
from hypothesis import given, settings
from hypothesis import strategies as st

from tidecast.model import Column, DataType, TableSchema
from tidecast.protocols import DecodeOptions, RoutedTable
from tidecast.protocols.debezium import DebeziumEncoder, DebeziumOptions
from tidecast.protocols.debezium._columns import DebeziumDecoder
from tidecast.protocols.debezium._decode_schema import Field, column_field
from tidecast.protocols.debezium._field_columns import read_column
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._read import DebeziumReader
from tidecast.protocols.debezium._schema import Form, column_schema
from tidecast.values import to_numpy

ZONE = "Asia/Shanghai"
CLOCK = 250
"""The golden encoder's clock is that many milliseconds after the commit."""
Golden = Callable[[str], Path]


def with_offsets(messages: list[Message], first: int = 0) -> pa.RecordBatch:
    offsets = pa.array(np.arange(first, first + len(messages)))
    return batch(messages).append_column("offset", offsets)


def messages_of(file: Path) -> tuple[list[Line], list[Message]]:
    found = lines(file)
    return found, [(base64.b64decode(one["key"]), base64.b64decode(one["value"])) for one in found]


def decoder_of(messages: list[Message]) -> DebeziumDecoder:
    """Return a decoder that knows the tables of messages."""
    reader = DebeziumReader(DecodeOptions(ordered=True, zone=ZONE))
    reader.controls(with_offsets(messages))
    return reader.decoder


@pytest.fixture(scope="module")
def rich(golden: Golden) -> tuple[list[Message], DebeziumDecoder]:
    _, messages = messages_of(golden("debezium-ext.jsonl.gz"))
    return messages, decoder_of(messages)


OPTIONS = {
    "debezium": DebeziumOptions(zone=ZONE),
    "debezium-ext": DebeziumOptions(enable_tidb_extension=True, zone=ZONE),
    "debezium-noschema": DebeziumOptions(disable_schema=True, zone=ZONE),
}


@pytest.mark.parametrize("variant", OPTIONS)
def test_what_is_read_is_written_byte_for_byte(variant: str, golden: Golden) -> None:
    """But for the defaults that stand for NULL, which are read as what they are."""
    told, messages = messages_of(golden(f"{variant}.jsonl.gz"))
    decoded = decoder_of(messages).decode(with_offsets(messages))
    got: dict[int, tuple[str, str]] = {}
    for rows in decoded.rows:
        assert rows.reason.null_count == len(rows.at), rows.detail
        encoder = DebeziumEncoder(OPTIONS[variant], (to_numpy(rows.commit_ts) >> 18) + CLOCK, whole=True)
        table = RoutedTable(rows.version.schema, rows.version.schema, "topic")
        parts = (part.to_pylist() for part in (encoder.key(table, rows), encoder.value(table, rows)))
        got |= {at: (key.decode(), value.decode()) for at, key, value in zip(rows.at.tolist(), *parts, strict=True)}
    want = {n: m for n, m in enumerate(told) if m["kind"] == "dml"}
    assert decoded.rejected == []
    sent = {n: tuple((part or b"").decode() for part in messages[n]) for n in want}
    assert_messages_equal(got, sent, want)


def every(decoder: DebeziumDecoder, messages: list[Message], cuts: list[int]) -> Said:
    found: Said = {}
    for first, end in pairwise([0, *sorted(cuts), len(messages)]):
        found |= said(decoder.decode(with_offsets(messages[first:end], first)), first)
    return found


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_split_into_batches_says_the_same(data: st.DataObject, rich: tuple[list[Message], DebeziumDecoder]) -> None:
    messages, decoder = rich
    some = messages[:400]
    cuts = data.draw(st.lists(st.integers(0, len(some)), max_size=6))
    assert every(decoder, some, cuts) == every(decoder, some, [])


def test_a_damaged_message_says_nothing_of_its_neighbours(rich: tuple[list[Message], DebeziumDecoder]) -> None:
    messages, decoder = rich
    r = random.Random(7)
    some = [r.choice(messages) for _ in range(2_000)]
    hurt = {place for place in range(len(some)) if r.random() < 0.5}
    both = [
        (key, damaged(r, value, 200)) if place in hurt and value else (key, value)
        for place, (key, value) in enumerate(some)
    ]
    whole, found = every(decoder, some, []), every(decoder, both, [])
    assert {place: found[place] for place in found if place not in hurt} == {
        place: whole[place] for place in whole if place not in hurt
    }
    left = {place for place, (key, value) in enumerate(both) if key is not None and not value}
    assert found.keys() == {*range(len(both))} - left
    assert found == every(decoder, both, [700, 1400])


def test_rows_are_in_the_same_part_without_their_values(rich: tuple[list[Message], DebeziumDecoder]) -> None:
    messages, decoder = rich
    whole, places = (decoder.decode(with_offsets(messages), values=values) for values in (True, False))
    assert [(r.version.name, r.at.tolist()) for r in whole.rows] == [
        (r.version.name, r.at.tolist()) for r in places.rows
    ]
    assert [r.commit_ts for r in whole.rows] == [r.commit_ts for r in places.rows]
    assert (whole.control == places.control).all()


@pytest.mark.parametrize("number", ["18446744073709551616", "1e400", "-9223372036854775809", "1.5", "true", '"7"'])
def test_a_number_that_its_column_cannot_hold_is_no_other_number(
    number: str, rich: tuple[list[Message], DebeziumDecoder]
) -> None:
    messages, decoder = rich
    rows = next(
        r
        for r in decoder.decode(with_offsets(messages)).rows
        if any(c.data_type.mysql_type == "bigint" for c in r.version.schema.columns)
    )
    column = next(c.name for c in rows.version.schema.columns if c.data_type.mysql_type == "bigint")
    at = next(int(n) for n, op in zip(rows.at, rows.op.to_pylist(), strict=True) if op == "c")
    key, value = messages[at]
    members = json.loads(value or b"")
    shown = json.dumps(members["payload"]["after"][column])
    assert value is not None
    wrong = value.replace(f'"{column}":{shown}'.encode(), f'"{column}":{number}'.encode(), 1)
    assert wrong != value
    found = every(decoder, [(key, wrong)], [])
    (reasons,) = found.values()
    assert "bad-value" in reasons or "bad-json" in reasons


SOURCE = {"connector": "mysql", "db": "shop", "table": "it`s", "file": "b.1", "pos": 4}


@pytest.mark.parametrize("wrapped", [False, True])
def test_messages_of_debezium_that_are_no_rows_are_no_dead_letters(wrapped: bool) -> None:
    """Heartbeats, the ends of transactions and tombstones are passed over; TRUNCATE TABLE is a schema change."""

    def sent(payload: object) -> bytes:
        return json.dumps({"schema": {"type": "struct"}, "payload": payload} if wrapped else payload).encode()

    ends = {"id": "file=b.1,pos=4", "event_count": 2, "data_collections": [], "ts_ms": 3}
    messages: list[Message] = [
        (sent({"serverName": "s"}), sent({"ts_ms": 1})),
        (sent({"id": ends["id"]}), sent({"status": "BEGIN", **ends})),
        (sent({"id": ends["id"]}), sent({"status": "END", **ends})),
        (sent({"id": 1}), None),
        (None, sent({"before": None, "after": None, "source": SOURCE, "op": "t", "ts_ms": 5})),
    ]
    reader = DebeziumReader(DecodeOptions(ordered=True, zone=ZONE))
    controls = reader.controls(with_offsets(messages[-1:]))
    assert [(change.sql, change.type) for _, change in controls.ddl] == [("TRUNCATE TABLE `shop`.`it``s`", "TRUNCATE")]
    assert said(reader.decoder.decode(with_offsets(messages))) == {4: ("control",)}


def test_each_drop_of_a_statement_about_several_tables_names_its_own() -> None:
    source = {"connector": "mysql", "db": "d", "table": "a,b"}
    said = [{"source": source, "ddl": f"DROP TABLE `{name}`", "tableChanges": []} for name in "ab"]
    controls = DebeziumReader(DecodeOptions(ordered=True)).controls(
        with_offsets([(None, json.dumps(payload).encode()) for payload in said])
    )
    assert [(change.type, change.database, change.table) for _, change in controls.ddl] == [
        ("ERASE", "d", "a"),
        ("ERASE", "d", "b"),
    ]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"op": "x", "source": SOURCE}, "unknown op 'x'"),
        ({"source": SOURCE}, "neither op nor ddl"),
        ({"op": "c", "source": {"db": "d"}}, "source without table"),
        ({"op": "t", "source": {"db": "d"}}, "unknown op 't'"),
        ({"op": "t", "source": SOURCE, "before": {"id": 1}, "after": None}, "op 't' with a row"),
        ({"op": "m", "source": SOURCE | {"commit_ts": 5}, "before": None, "after": {"id": 1}}, "op 'm' with a row"),
        ({"op": "m", "source": SOURCE}, "a watermark without commit_ts"),
        ({"op": "c", "source": SOURCE | {"connector": "TiCDC"}}, "of TiCDC, and without commit_ts"),
        ({"op": "c", "source": SOURCE | {"commit_ts": 1.5}}, "commit_ts is no whole number of 64 bits"),
        ({"op": 5, "source": SOURCE}, "source, op or ddl is of another type than Debezium's"),
        ([], "its value is no JSON object"),
    ],
)
def test_a_message_that_cannot_be_used_tells_why(payload: object, words: str) -> None:
    reader = DebeziumReader(DecodeOptions(ordered=True, zone=ZONE))
    (found,) = said(reader.decoder.decode(with_offsets([(b"{}", json.dumps(payload).encode())]))).values()
    assert found[1] == words


NUMBERS = TableSchema(
    "shop",
    "t",
    0,
    9,
    (
        Column("id", DataType("bigint", length=20, unsigned=True), default="18446744073709551615"),
        Column("d", DataType("decimal", length=65, decimal=30), default="1.5"),
        Column("m", DataType("decimal", length=10, decimal=2)),
        Column("b", DataType("varbinary", length=9), default="x"),
    ),
)
LARGE = {"id": str(2**64 - 1), "d": "-12345678901234567890123456789012345.5", "m": "12.50", "b": "AAE="}


@pytest.mark.parametrize(("known", "shown"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("extended", [True, False])
def test_large_numbers_may_be_text_and_binary_values_bytes(known: bool, shown: bool, extended: bool) -> None:
    """As newer TiCDC writes them with its options for that."""
    tables = Known(True)
    tables = tables.with_version(NUMBERS, 5) if known else tables
    columns = [column_schema(column, extended) | {"type": "string"} for column in NUMBERS.columns]
    columns[0]["default"] = str(2**64 - 1)
    columns[1]["default"] = "1.5"
    columns[3] |= {"type": "bytes", "default": "eA=="}
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": columns}]}
    source = {"db": "shop", "table": "t", "connector": "TiCDC", "commit_ts": 9}
    message: dict[str, Any] = {"payload": {"source": source, "op": "c", "before": None, "after": LARGE}}
    message |= {"schema": schema} if shown else {}
    decoder = DebeziumDecoder(tables)
    (found,) = said(
        decoder.decode(with_offsets([(None, json.dumps(message, separators=(",", ":")).encode())]))
    ).values()
    row: dict[str, Any] = {"id": 2**64 - 1, "d": LARGE["d"], "m": Decimal("12.50"), "b": b"\0\1"}
    if not known:
        row |= {"m": "12.50"} if extended else {name: LARGE[name] for name in ("id", "d", "m")}
    assert found[1] == row


def test_a_default_beyond_a_long_may_be_wrapped() -> None:
    schema = {"tidb_type": "bigint unsigned", "type": "int64", "optional": True, "field": "c", "default": -1}
    assert column_field(schema).column.default == "18446744073709551615"


DECIMAL = {"type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal", "field": "c"}


@pytest.mark.parametrize("before", ["int", "decimal", "bigint"])
@pytest.mark.parametrize(
    ("now", "value", "row"),
    [
        ({"type": "string", "optional": True, "field": "c", "default": "abc"}, "12", "12"),
        (DECIMAL | {"parameters": {"scale": "0"}, "default": "Dw=="}, "DA==", "12"),
    ],
)
def test_a_default_need_be_no_number_where_a_known_version_has_numbers(
    before: str, now: dict[str, Any], value: str, row: str
) -> None:
    """As after a column of numbers became one of text."""
    column = Column("c", DataType(before, unsigned=before == "bigint"), nullable=True, default="1")
    tables = Known(True).with_version(TableSchema("shop", "t", 0, 5, (column,)), 5)
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [now]}]}
    source = {"db": "shop", "table": "t", "connector": "TiCDC", "commit_ts": 9}
    message = {"payload": {"source": source, "op": "c", "before": None, "after": {"c": value}}, "schema": schema}
    sent = with_offsets([(None, json.dumps(message, separators=(",", ":")).encode())])
    (found,) = said(DebeziumDecoder(tables).decode(sent)).values()
    assert found[1] == {"c": row}


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        (DECIMAL | {"parameters": {"scale": "2", "connect.decimal.precision": "10"}, "default": "AJY="}, "1.50"),
        (DECIMAL | {"parameters": {"scale": "30"}, "default": "/w=="}, "-0.000000000000000000000000000001"),
        ({"type": "bytes", "optional": True, "default": "YWI=", "field": "c"}, "ab"),
        ({"type": "bytes", "optional": True, "default": "/w==", "field": "c"}, None),  # no text
        ({"type": "string", "optional": True, "default": "YWI=", "field": "c"}, "YWI="),
    ],
)
def test_defaults_of_debezium_come_as_bytes_where_values_do(schema: dict[str, Any], default: str | None) -> None:
    column = column_field(schema).column
    assert (column.default, column.default_known) == (default, default is not None)


@pytest.mark.parametrize(
    ("form", "shown", "default"),
    [
        ("time.Timestamp", "2020-01-01 12:00:00", "2020-01-01 12:00:00"),
        ("time.MicroTimestamp", "2020-01-01 12:00:00.12", "2020-01-01 12:00:00.12"),
        ("time.Timestamp", "CURRENT", None),
        ("", "\1", 1),
        ("", "\ufffd", None),
        ("data.Bits", "\2\1", 513),
        ("data.Bits", "\0\ufffd", None),
        ("data.Bits", "AQI=", 513),
    ],
)
def test_defaults_of_older_ticdc_may_be_text(form: str, shown: str, default: str | int | None) -> None:
    types = {"": "boolean", "data.Bits": "bytes"}
    schema: dict[str, Any] = {"type": types.get(form, "int64"), "optional": True, "default": shown, "field": "c"}
    schema |= {"name": f"io.debezium.{form}", "version": 1} if form else {}
    schema |= {"parameters": {"length": "16"}} if form == "data.Bits" else {}
    column = column_field(schema).column
    assert (column.default, column.default_known) == (default, default is not None)


def test_a_decimal_whose_digits_nobody_counts_is_read() -> None:
    """As Debezium's own connector writes BIGINT UNSIGNED in its mode `precise`."""
    field = column_field(DECIMAL | {"parameters": {"scale": "0"}})
    most = base64.b64encode(bytes(28)[:-1] + b"\1").decode()
    cells = read_column(field, ["AP//////////", "/w==", None, most, base64.b64encode(b"\1" * 28).decode(), ""])
    assert cells.values.to_pylist() == ["18446744073709551615", "-1", None, "1", None, None]


@pytest.mark.parametrize(
    ("digits", "shown", "expected"),
    [
        ((10, 2), 12.3, "12.30"),
        ((10, 2), 99999999.99, "99999999.99"),
        ((10, 2), 100000000, None),  # a wider column's, whose statement was not seen
        ((10, 2), 500000000.0, None),
        ((10, 2), 1.234, None),
        ((20, 0), 12345678901234567000, "12345678901234567000"),
        ((20, 0), 1e20, "99999999999999999999"),  # the double next to it
        ((20, 0), 1.1e20, None),
        ((38, 0), 1e300, None),
        ((40, 1), -1e39, "-999999999999999999999999999999999999999.9"),
        ((40, 1), 0.5, "0.5"),
        ((40, 1), 1e300, None),
        ((10, 2), float("nan"), None),  # as Avro may have it
        ((0, 0), float("-inf"), None),
        ((0, 0), 12.5, "12.5"),
    ],
)
def test_a_decimal_that_comes_as_a_double_is_one_of_its_column(
    digits: tuple[int, int], shown: float, expected: str | None
) -> None:
    length, decimal = digits
    field = Field(Column("c", DataType("decimal", length=length, decimal=decimal)), Form("double"))
    cells = read_column(field, [shown])
    (value,) = cells.values.to_pylist()
    assert (None if value is None else str(value)) == expected
    assert (cells.bad is not None) == (expected is None)


def test_a_default_of_more_digits_is_rounded_to_its_column() -> None:
    """TiCDC writes it as it was typed where a row has NULL."""
    field = Field(Column("c", DataType("decimal", length=10, decimal=2), default="1.555"), Form("double"))
    cells = read_column(field, [1.555, 1.55, None, 1.554])
    assert [*map(str, cells.values.to_pylist())] == ["1.56", "1.55", "None", "None"]


@pytest.mark.parametrize(
    ("data_type", "form", "number", "expected"),
    [
        (DataType("datetime", length=19), "Timestamp", 1700000000000, "2023-11-14 22:13:20"),
        (DataType("datetime", length=19), "Timestamp", 1700000000500, None),  # of a column with digits
        (DataType("datetime", length=21, decimal=1), "Timestamp", 1700000000500, "2023-11-14 22:13:20.5"),
        (DataType("datetime", length=21, decimal=1), "Timestamp", -1, None),
        (DataType("datetime", length=24, decimal=4), "MicroTimestamp", 1700000000000100, "2023-11-14 22:13:20.0001"),
        (DataType("datetime", length=24, decimal=4), "MicroTimestamp", 1700000000000010, None),
        (DataType("time", length=10), "MicroTime", -1000000, "-00:00:01"),
        (DataType("time", length=10), "MicroTime", -1500000, None),
        (DataType("time", length=13, decimal=2), "MicroTime", -1500000, "-00:00:01.50"),
    ],
)
def test_a_time_with_more_digits_than_its_column_is_none_of_it(
    data_type: DataType, form: str, number: int, expected: str | None
) -> None:
    field = Field(Column("c", data_type), Form("int64", f"io.debezium.time.{form}"), digits=True)
    cells = read_column(field, [number])
    assert cells.values.to_pylist() == [expected]
    assert (cells.bad is not None) == (expected is None)


@pytest.mark.parametrize(
    ("form", "unit", "digits"), [("Timestamp", 1000, 3), ("MicroTimestamp", 1_000_000, 6)], ids=lambda value: str(value)
)
def test_a_column_whose_digits_nobody_tells_has_room_for_all_that_its_form_shows(
    form: str, unit: int, digits: int
) -> None:
    shape = {"type": "int64", "optional": True, "name": f"io.debezium.time.{form}", "field": "c"}
    field = column_field(shape)
    cells = read_column(field, [1700000000 * unit, 1700000000 * unit + unit // 2])
    whole = "2023-11-14 22:13:20"
    assert cells.values.to_pylist() == [
        f"{whole}.000000" if digits == 6 else whole,
        f"{whole}.5".ljust(20 + digits, "0"),
    ]
    assert (field.column.data_type.decimal, field.column.data_type.length) == (digits, 20 + digits)


def test_a_double_beyond_a_float_is_no_float() -> None:
    cells = read_column(Field(Column("c", DataType("float", length=12)), Form("float")), [3.4e38, 1e39, None])
    assert cells.values.to_pylist() == [3.3999999521443642e38, None, None]
