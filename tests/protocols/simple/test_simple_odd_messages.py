"""Simple messages as others might write them, and such as are none, decoded in process."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from decoded_batches import batch, said
from golden_data import lines

from tidecast.model import Column, DataType, Index, TableSchema
from tidecast.protocols import DecodeOptions
from tidecast.protocols.simple import SimpleOptions, encode_bootstrap
from tidecast.protocols.simple._avro import DML, beginning
from tidecast.protocols.simple._columns import SimpleDecoder
from tidecast.protocols.simple._read import SimpleReader
from tidecast.protocols.simple._schema import from_avro

TEXT = ("utf8mb4", "utf8mb4_bin")
COLUMNS = {
    "id": DataType("bigint"),
    "u": DataType("bigint", unsigned=True),
    "dc": DataType("decimal", length=30, decimal=10),
    "x": DataType("double"),
    "t": DataType("varchar", *TEXT, length=200),
    "b": DataType("varbinary", length=9),
    "e": DataType("enum", *TEXT, elements=("a", "b")),
    "ts": DataType("timestamp", length=19),
}
TABLE = TableSchema("shop", "orders", 7, 9, tuple(Column(name, kind) for name, kind in COLUMNS.items()), ())
HEAD: dict[str, Any] = {"version": 1, "database": "shop", "table": "orders", "tableID": 7, "type": "INSERT"}
HEAD |= {"commitTs": 447984074911121426, "buildTs": 1708936343598, "schemaVersion": 9}
ROW: dict[str, Any] = {"id": "1", "u": "18446744073709551615", "dc": "12.5", "x": "0.1", "t": "é", "b": "AP8Q"}
ROW |= {"e": "2", "ts": {"location": "Asia/Shanghai", "value": "2024-03-11 08:51:01"}}
READ: dict[str, Any] = {"id": 1, "u": 2**64 - 1, "dc": Decimal("12.5000000000"), "x": 0.1, "t": "é"}
READ |= {"b": b"\0\xff\x10", "e": "b", "ts": "2024-03-11 00:51:01"}
DECODER = SimpleDecoder({TABLE.key: TABLE}, "+09:00")


def decoded(*values: bytes | None) -> list[tuple[Any, ...]]:
    """Return what is said of each message."""
    found = said(DECODER.decode(batch([(None, value) for value in values])))
    assert found.keys() == {*range(len(values))}
    return [found[n] for n in range(len(values))]


def in_json(**members: Any) -> bytes:
    return json.dumps(HEAD | members).encode()


def avro_value(name: str, value: Any) -> Any:
    if name == "ts" and isinstance(value, dict):
        return ("Timestamp", value)
    branch = {"id": "long", "u": "UnsignedBigint", "x": "double", "b": "bytes", "e": "long"}.get(name, "string")
    return (branch, {"value": value} if name == "u" else value)


def in_avro(data: dict[str, Any] | None = None, old: dict[str, Any] | None = None, **members: Any) -> bytes:
    out = io.BytesIO()
    sides = {
        name: side and {c: v if isinstance(v, tuple) or v is None else avro_value(c, v) for c, v in side.items()}
        for name, side in (("data", data), ("old", old))
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(DML), HEAD | members | sides)
    return beginning(DML) + out.getvalue()


AVRO_ROW = ROW | {"id": 1, "u": -1, "x": 0.1, "b": b"\0\xff\x10", "e": 2}
BOTH: list[tuple[Callable[..., bytes], dict[str, Any]]] = [(in_json, ROW), (in_avro, AVRO_ROW)]
both = pytest.mark.parametrize(("write", "row"), BOTH, ids=["json", "avro"])


@both
def test_a_row_is_read(write: Callable[..., bytes], row: dict[str, Any]) -> None:
    ((_, data, op, commit_ts, _, _, reason, _, old),) = decoded(write(data=row))
    assert (data, op, commit_ts, reason, old) == (READ, "c", HEAD["commitTs"], None, None)


@both
def test_an_old_row_has_the_values_that_it_does_not_show(write: Callable[..., bytes], row: dict[str, Any]) -> None:
    part = {"id": row["id"], "t": None}
    update, delete, bare = decoded(
        write(type="UPDATE", data=row, old=part), write(type="DELETE", old=part), write(type="UPDATE", data=row)
    )
    assert update[8] == READ | {"t": None}
    assert delete[1] == dict.fromkeys(COLUMNS) | {"id": 1}
    assert (bare[1], bare[8], bare[6]) == (READ, None, None)


@both
def test_a_row_of_the_wrong_side_is_missing(write: Callable[..., bytes], row: dict[str, Any]) -> None:
    found = decoded(write(data=row), write(old=row), write(type="DELETE", data=row), write(type="UPDATE", old=row))
    assert [words[6:8] for words in found] == [(None, None), *[("bad-message", "the row is missing")] * 3]


@both
def test_values_of_other_types_are_named(write: Callable[..., bytes], row: dict[str, Any]) -> None:
    avro = write is in_avro
    wrong = {
        "id": ("string", "1") if avro else "1x",
        "u": ("double", 1.0) if avro else "18446744073709551616",
        "dc": "0." + "1" * 31,
        "x": ("float", 1.0) if avro else "1e400",
        "t": ("bytes", b"x") if avro else {"no": "text"},
        "b": "AP8Q" if avro else "AP8",
        "e": 3 if avro else "3",
        "ts": {"location": "Nowhere/City", "value": "2024-03-11 08:51:01"},
    }
    if avro:
        wrong["b"] = ("string", "AP8Q")
    messages = [write(type="UPDATE", data=row | {name: value}, old=row) for name, value in wrong.items()]
    messages.append(write(type="UPDATE", data=row | {"id": wrong["id"]}, old=row | {"t": wrong["t"], "e": wrong["e"]}))
    found = decoded(write(data=row), *messages, write(data=row))
    want = [f"not of its column's type: data {name}" for name in wrong]
    want.append("not of its column's type: old t, old e, data id")
    assert [words[6:8] for words in found[1:-1]] == [("bad-value", detail) for detail in want]
    assert [found[0][1], found[-1][1]] == [READ, READ]


@both
def test_a_time_without_its_zone_is_one_of_the_readers(write: Callable[..., bytes], row: dict[str, Any]) -> None:
    plain = write(data=row | {"ts": "2024-03-11 09:51:01"})
    elsewhere = write(data=row | {"ts": {"location": "UTC", "value": "2024-03-11 00:51:01"}})
    assert [words[1] for words in decoded(write(data=row), plain, elsewhere)] == [READ] * 3


def test_numbers_in_avro_may_have_the_forms_that_the_documentation_names() -> None:
    columns = (Column("u", COLUMNS["u"]), Column("bit", DataType("bit", length=9, unsigned=True)))
    table = replace(TABLE, columns=columns)
    reader = SimpleDecoder({table.key: table})
    forms = [(("long", 7), ("long", 257)), (("string", str(2**64 - 1)), ("string", "257"))]
    wrong = [(("long", 7), ("long", 1 << 16)), (("string", "x"), ("long", 1))]
    values = [in_avro({"u": u, "bit": bit}) for u, bit in (*forms, *wrong)]
    found = said(reader.decode(batch([(None, value) for value in values])))
    assert [found[n][1] for n in range(2)] == [{"u": u, "bit": b"\x01\x01"} for u in (7, 2**64 - 1)]
    details = [f"not of its column's type: data {name}" for name in ("bit", "u")]
    assert [found[n][6:8] for n in (2, 3)] == [("bad-value", detail) for detail in details]


def test_a_column_that_comes_twice_in_place_of_another_is_no_row() -> None:
    summed = {"checksum": {"version": 2, "corrupted": False, "current": 7, "previous": 0}}
    whole, avro = in_json(**summed, data=ROW), in_avro(AVRO_ROW, **summed)
    entry = b"\x02e\x02\x04"
    assert (whole.count(b'"e": "2"'), avro.count(entry)) == (1, 1)
    found = decoded(
        whole,
        whole.replace(b'"e": "2"', b'"t": "2"'),
        in_json(**summed, data={k: v for k, v in ROW.items() if k != "e"}),
        avro,
        avro.replace(entry, b"\x02x\x02\x04"),
        avro.replace(entry, b"\x02?\x02\x04"),
    )
    assert [words[7] for words in found] == [None, "not a row's record", None] * 2
    assert found[2][1] == found[5][1] == READ | {"e": None}


def test_a_number_is_read_as_it_is_written() -> None:
    digits = "12345678901234567890.0123456789"
    text = json.dumps(HEAD | {"data": ROW | {"id": 1, "dc": None, "x": 0.1, "u": 2**64 - 1}})
    exact, beyond, plain = decoded(
        text.replace('"dc": null', f'"dc": {digits}').encode(),
        text.replace('"u": 18446744073709551615', '"u": 18446744073709551616').encode(),
        in_json(data=ROW),
    )
    assert exact[1] == READ | {"dc": Decimal(digits)}
    assert beyond[6:8] == ("bad-value", "not of its column's type: data u")
    assert plain[1] == READ


BAD_JSON: list[bytes | None] = [None, b"", b"{", b"[]", b"5", in_json(data=ROW)[:-1], in_json(data=ROW) + b"x"]
BAD_JSON += [in_json(data=ROW | {"t": "\ud800"}), in_json(data=ROW).replace(b'"1"', b'"\xff"')]
BAD_JSON += [in_json(version="1"), in_json(commitTs=1.0), in_json(commitTs=2**63), in_json(tableID=True)]
BAD_JSON += [in_json(table=5), in_json(checksum=5), in_json(checksum={"version": 1 << 31}), in_json(handleKeyOnly="no")]
BAD_MESSAGE: dict[str, list[bytes | None]] = {
    "no type, or no version": [b"{}", in_json(version=None)],
    "unknown type": [in_json(type="PUT")],
    "no commitTs": [in_json(commitTs=None)],
    "a row without its database, table or schemaVersion": [in_json(schemaVersion=None), in_json(database=None)],
    "a schema change without sql": [
        in_json(type="CREATE"),
        in_json(type="CREATE", sql=5),
        in_json(type="ALTER", sql=""),
    ],
}
PART = "only the handle key, or the place where the whole message lies"


def test_what_is_no_message_has_its_reason() -> None:
    good = in_json(data=ROW)
    cases: dict[tuple[str, str], list[bytes | None]] = {("bad-json", "no message of Simple's form"): BAD_JSON}
    cases |= {("bad-message", words): messages for words, messages in BAD_MESSAGE.items()}
    cases["incomplete-row", PART] = [in_json(handleKeyOnly=True), in_json(claimCheckLocation="file:///x")]
    cases["bad-value", "commitTs -5 is no time"] = [in_json(commitTs=-5), in_avro(commitTs=-5)]
    cases["unknown-table", "no schema of shop.orders in version 8"] = [
        in_json(schemaVersion=8),
        in_avro(schemaVersion=8),
    ]
    for want, messages in cases.items():
        found = decoded(good, *messages, good)
        assert found[1:-1] == [want] * len(messages)
        assert [found[0][1], found[-1][1]] == [READ, READ]


def test_an_empty_location_is_that_of_no_other_message() -> None:
    (told,) = decoded(in_json(data=ROW, claimCheckLocation="", handleKeyOnly=False))
    assert told == decoded(in_json(data=ROW))[0]


def test_avro_is_taken_whole_or_not_at_all() -> None:
    good = in_avro(AVRO_ROW)
    head = len(in_avro()) - 2
    cut = [good[:n] for n in range(1, len(good))]
    found = decoded(good, *cut, good + b"\0", good[:1] + b"\x04" + good[2:], good)
    assert [found[0][1], found[-1][1]] == [READ, READ]
    assert list(found[1:head]) == [("undecodable", "no message of Simple's form")] * (head - 1)
    assert {words[6:8] for words in found[head:-2]} == {("undecodable", "not a row's record")}
    assert found[-2] == ("undecodable", "no message of Simple's form")


def test_a_map_may_have_blocks_and_no_more_entries_than_columns() -> None:
    head = in_avro()[:-2]
    one, two = b"\x04id\x02\x02", b"\x02t\x08\x04hi"
    blocks = head + b"\x02" + b"\x02" + one + b"\x01" + bytes([len(two) * 2]) + two + b"\0" + b"\0"
    many = head + b"\x02" + b"\xfe\xff\x07" + b"\0\0" * 65535 + b"\0" + b"\0"
    endless = head + b"\x02" + b"\xff" * 9 + b"\x01" + one
    found = decoded(blocks, many, endless, in_avro(AVRO_ROW))
    assert found[0][1] == dict.fromkeys(COLUMNS) | {"id": 1, "t": "hi"}
    assert [words[6:8] for words in found[1:3]] == [("undecodable", "not a row's record")] * 2
    assert found[3][1] == READ


@pytest.mark.parametrize("variant", ["simple-json", "simple-avro", "simple-json-pretable", "simple-avro-pretable"])
def test_marks_find_every_control_message(variant: str, golden: Callable[[str], Path]) -> None:
    marks = SimpleReader.marks
    assert marks
    for line in lines(golden(f"{variant}.jsonl.gz")):
        value = base64.b64decode(line["value"])
        found = value.startswith(tuple(marks.begins)) or any(mark in value for mark in marks.holds)
        assert found or line["kind"] not in ("ddl", "bootstrap")


def test_marks_find_what_others_write() -> None:
    marks = SimpleReader.marks
    assert marks
    message = HEAD | {"type": "CREATE", "sql": "CREATE DATABASE a"}
    escaped = json.dumps(message, indent=2).replace("sql", "s\\u0071l")
    bootstrap = json.dumps(HEAD | {"type": "BOOTSTRAP"}).replace("BOOT", "\\u0042OOT")
    for value in (json.dumps(message), escaped, bootstrap):
        assert DECODER.decode(batch([(None, value.encode())])).control.tolist() == [0]
        assert any(mark in value.encode() for mark in marks.holds)


@both
def test_rows_hold_what_their_version_says(write: Callable[..., bytes], row: dict[str, Any]) -> None:
    value = write(data=row)
    (rows,) = DECODER.decode(batch([(None, value)])).rows
    assert value.startswith(rows.version.value_begins or b"")
    assert len(rows.version.value_holds) == (2 if write is in_avro else 3)
    assert all(part in value for part in rows.version.value_holds)


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_a_bootstrap_of_all_partitions_counts_once(encoding: Any) -> None:
    schema = TableSchema(
        "shop", "orders", 7, 9, (Column("id", COLUMNS["id"]),), (Index("p", True, True, False, ("id",)),)
    )
    values = [encode_bootstrap(schema, SimpleOptions(encoding), built) for built in (1, 1, 2)]
    messages = batch([(None, value) for value in [*values, b"\x16\x04\x04"]])
    reader = SimpleReader(DecodeOptions())
    said_by = reader.controls(messages.append_column("offset", pa.array(np.arange(4))))
    assert [(places, one.schema) for places, one in said_by.bootstraps] == [([0, 1], schema), ([2], schema)]
    assert {*reader.decoder.schemas} == {schema.key}


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_times_of_unknown_digits_are_told_with_all(encoding: Any) -> None:
    kinds = (DataType("datetime"), DataType("time"), DataType("datetime", length=19), DataType("time", length=13))
    schema = TableSchema("shop", "orders", 7, 9, tuple(Column(f"c{n}", kind) for n, kind in enumerate(kinds)))
    messages = batch([(None, encode_bootstrap(schema, SimpleOptions(encoding), 1))])
    said_by = SimpleReader(DecodeOptions()).controls(messages.append_column("offset", pa.array(np.arange(1))))
    ((_, told),) = said_by.bootstraps
    shown = [(column.data_type.length, column.data_type.decimal) for column in told.schema.columns]
    assert shown == [(26, 6), (17, 6), (19, 0), (13, 2)]


def test_an_exchange_of_a_partition_is_an_alter_whatever_wrote_it() -> None:
    sql = "ALTER TABLE `shop`.`parts` EXCHANGE PARTITION `p` WITH TABLE `shop`.`orders`"
    messages = batch([(None, in_json(type="QUERY", sql=sql))])
    said = SimpleReader(DecodeOptions()).controls(messages.append_column("offset", pa.array([0])))
    ((_, told),) = said.ddl
    assert (told.type, told.database, told.table) == ("ALTER", "shop", "parts")


def test_a_row_that_claims_to_be_a_bootstrap_is_rejected() -> None:
    messages = batch([(None, in_json(type="BOOTSTRAP", data=ROW)), (None, in_json(type="BOOTSTRAP", tableSchema=None))])
    said = SimpleReader(DecodeOptions()).controls(messages.append_column("offset", pa.array(np.arange(2))))
    (rejected,) = said.rejected
    assert (rejected.at.tolist(), rejected.reason.to_pylist()) == ([0, 1], ["bad-message"] * 2)
    assert not said.bootstraps


def test_each_byte_of_a_default_that_is_no_text_is_lost_alone() -> None:
    kind = {"mysqlType": "binary", "charset": "binary", "collate": "binary", "length": 4}
    column = {"name": "b", "dataType": kind, "nullable": True, "default": b"\xe2\x82a\xff"}
    schema = from_avro({"database": "d", "table": "t", "tableID": 1, "version": 1, "columns": [column], "indexes": []})
    assert schema.columns[0].default == "\ufffd\ufffda\ufffd"
