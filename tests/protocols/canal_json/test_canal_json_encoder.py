"""Events as Canal-JSON: every golden message comes out byte for byte, and reads back."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from differences import assert_messages_equal
from encoding import encoded
from golden_data import ONE_OF_EACH, Line, lines
from golden_events import ZONE, GoldenEvents

from tidecast.model import LOGICAL_BITS, Column, DataType, Ddl, Index, TableSchema, physical_ms
from tidecast.protocols import DecodeOptions, RoutedTable, Rows
from tidecast.protocols.canal_json import CanalEncoder, CanalOptions, encode_ddl, encode_watermark
from tidecast.protocols.canal_json._column_types import mysql_type
from tidecast.protocols.canal_json._read import CanalReader
from tidecast.values import row_type, to_numpy

BUILT_AFTER_MS = 250  # the golden messages were built that long after their commit
OPTIONS = {
    "canal-json": CanalOptions(zone=ZONE),
    "canal-json-ext": CanalOptions(enable_tidb_extension=True, zone=ZONE),
    "canal-json-compatible": CanalOptions(enable_tidb_extension=True, content_compatible=True, zone=ZONE),
    "canal-json-deletekey": CanalOptions(
        enable_tidb_extension=True, delete_only_output_handle_key_columns=True, zone=ZONE
    ),
}


def value_of(message: Line) -> bytes:
    return base64.b64decode(message["value"])


@pytest.mark.parametrize("variant", OPTIONS)
def test_rows_are_written_byte_for_byte(variant: str, golden: Callable[[str], Path], decoded: GoldenEvents) -> None:
    options, few = OPTIONS[variant], None if variant == "canal-json-compatible" else ONE_OF_EACH
    # Simple does not tell the scale of FLOAT(M,D) and DOUBLE(M,D), which whole types show.
    source = decoded("canal-json-compatible" if options.content_compatible else "simple-json")
    own = {m["n"]: m for m in lines(golden(f"{variant}.jsonl.gz")) if m["kind"] == "dml"}
    want = {n: m for n, m in own.items() if few is None or (m["db"], m["table"]) in few}

    def encoder(rows: Rows) -> CanalEncoder:
        return CanalEncoder(options, (to_numpy(rows.commit_ts) >> LOGICAL_BITS) + BUILT_AFTER_MS)

    got: dict[int, bytes | str] = {}
    for table in (source.events if few is None else source.only(few)).tables:
        for one in encoded(table.frame, table.schema, encoder):
            number = source.numbers[one.kept["offset"]]
            if number in want:
                got[number] = one.wrong or one.value or b""
    assert want
    assert_messages_equal(got, {n: value_of(m) for n, m in want.items()}, want)


@pytest.mark.parametrize("variant", ["canal-json", "canal-json-ext"])
def test_schema_changes_and_watermarks_are_written_byte_for_byte(
    variant: str, golden: Callable[[str], Path], decoded: GoldenEvents
) -> None:
    options, source = OPTIONS[variant], decoded("simple-json")
    want = [value_of(m) for m in lines(golden(f"{variant}.jsonl.gz")) if m["kind"] == "ddl"]
    got = [encode_ddl(d, options, physical_ms(d.commit_ts) + BUILT_AFTER_MS) for d in source.events.ddl]
    assert got == want != []
    marks = [m for m in lines(golden(f"{variant}.jsonl.gz")) if m["kind"] == "watermark"]
    for m in marks:
        ts = int(m["commit_ts"])
        assert encode_watermark(ts, options, physical_ms(ts) + BUILT_AFTER_MS) == (None, value_of(m))
    assert bool(marks) == options.enable_tidb_extension


@pytest.mark.parametrize("claimed", [False, True], ids=["handle-key-only", "claim-check"])
def test_large_rows_show_their_handle_keys(claimed: bool, decoded: GoldenEvents) -> None:
    source = decoded("simple-json")
    (table,) = source.only({("orc", "t_uk")}).tables
    where = (lambda kept: "s3://claims/1.json") if claimed else None
    options = OPTIONS["canal-json-ext"]
    made = encoded(table.frame, table.schema, lambda rows: CanalEncoder(options, 1), reduced=True, location=where)
    for one in made:
        message = json.loads(one.value or b"")
        assert message["data"][0].keys() == {"a"} == message["sqlType"].keys() == message["mysqlType"].keys()
        assert (message["old"] is not None) == (message["type"] == "UPDATE")
        del message["_tidb"]["commitTs"]
        assert message["_tidb"] == (
            {"claimCheckLocation": "s3://claims/1.json"} if claimed else {"onlyHandleKey": True}
        )
    assert made


def test_a_row_of_which_no_column_leaves_is_json_still(decoded: GoldenEvents) -> None:
    (table,) = decoded("simple-json").only({("orc", "t_uk")}).tables
    options = OPTIONS["canal-json-ext"]
    made = encoded(table.frame, table.schema, lambda rows: CanalEncoder(options, 1), columns=frozenset())
    assert {json.dumps(json.loads(one.value or b"")["data"]) for one in made} == {"[{}]"}


@pytest.mark.parametrize(
    ("data_type", "shown"),
    [
        (DataType("decimal", length=10, decimal=2), "decimal(10,2)"),
        (DataType("decimal", length=10, unsigned=True), "decimal(10,0) unsigned"),
        (DataType("decimal", unsigned=True), "decimal unsigned"),  # of a source that does not tell its digits
        (DataType("time", length=10), "time"),
        (DataType("time"), "time(6)"),
        (DataType("enum", elements=("it's", "a\\b", "\0\r\n\t")), "enum('it''s','a\\b','\\0\\r\\n\t')"),
    ],
)
def test_a_whole_type_has_the_digits_that_are_known(data_type: DataType, shown: str) -> None:
    assert mysql_type(data_type, whole=True) == shown


def test_all_texts_have_the_escapes_of_values() -> None:
    """Also names, types and statements: TiCDC writes the short forms of three control characters alone."""
    odd, shown = "<\b\f\n\x7f>", "\\u003c\\u0008\\u000c\\n\x7f\\u003e"
    options = CanalOptions(content_compatible=True, only_output_updated_columns=True)
    columns = (Column(odd, DataType("enum", elements=(odd.replace("\n", ""),)), nullable=False),)
    table = TableSchema(odd, odd, 1, 2, columns, Index.of_key((odd,)))
    rows = Rows.of_changes(
        table,
        pa.RecordBatch.from_arrays(
            [
                pa.array(["u"]),
                pa.array([{odd: odd.replace("\n", "")}], row_type(table)),
                pa.array([{odd: ""}], row_type(table)),
                pa.array([1 << 18]),
            ],
            ["op", "old", "data", "commit_ts"],
        ),
    )
    (value,) = CanalEncoder(options, 3).value(RoutedTable(table, table, ""), rows).to_pylist()
    element = shown.replace(r"\n", "")
    assert value.decode() == (
        f'{{"id":0,"database":"{shown}","table":"{shown}","pkNames":["{shown}"],"isDdl":false,"type":"UPDATE","es":1,'
        f'"ts":3,"sql":"","sqlType":{{"{shown}":4}},"mysqlType":{{"{shown}":"enum(\'{element}\')"}},'
        f'"old":[{{"{shown}":"1"}}],"data":[{{"{shown}":"0"}}]}}'
    )
    ddl = Ddl("QUERY", odd, 1 << 18, named=(odd, odd))
    assert f'"database":"{shown}","table":"{shown}",' in encode_ddl(ddl, options, 3).decode()
    assert f'"sql":"{shown}",' in encode_ddl(ddl, options, 3).decode()


def test_an_exchange_of_a_partition_has_a_type_of_its_own() -> None:
    sql = "ALTER TABLE `d`.`t` EXCHANGE PARTITION `p` WITH TABLE `d`.`u`"
    value = encode_ddl(Ddl("ALTER", sql, 1 << 18, named=("d", "t")), CanalOptions(), 3)
    message = json.loads(value)
    assert [message[name] for name in ("type", "database", "table")] == ["QUERY", "d", "u"]
    reader = CanalReader(DecodeOptions())
    told = reader.controls(pa.RecordBatch.from_pydict({"value": [value], "offset": pa.array([0], pa.int64())}))
    assert [(change.type, change.database, change.table) for _, change in told.ddl] == [("ALTER", "d", "t")]
