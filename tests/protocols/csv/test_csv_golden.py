"""CSV rows that TiCDC's own encoder wrote, and the values that Simple messages of the same rows have."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_data import lines

from tidecast._csv_format import CsvFormat, csv_format
from tidecast.model import Column, DataType, TableSchema
from tidecast.protocols import Decoded, DecodeOptions, RoutedTable, Rows, protocol_named
from tidecast.protocols._schema_file import Tables, schema_files
from tidecast.protocols.csv._columns import CsvDecoder
from tidecast.protocols.csv._encoder import CsvEncoder, csv_header
from tidecast.topics._sink_lines import Shown, TooShort, line_spans, seen
from tidecast.values import row_type

GOLDEN = Path("tests/golden/public")
FORMATS = {
    "default": CsvFormat(),
    "commit-ts": CsvFormat(include_commit_ts=True),
    "noquote": CsvFormat(
        delimiter="|",
        quote="",
        null="NULL",
        terminator="\n",
        binary_encoding_method="hex",
        include_commit_ts=True,
        output_old_value=True,
    ),
    "header": CsvFormat(delimiter="$^", quote="", output_field_header=True, terminator="\n"),
}


@cache
def _tables() -> Tables:
    files = [line for line in lines(GOLDEN / "csv.jsonl.gz") if line["kind"] == "schema" and line["output_column_id"]]
    folders = [line["path"].partition("/meta/")[0] for line in files]
    return schema_files(
        pa.RecordBatch.from_pydict(
            {
                "topic": folders,
                "offset": pa.array([1] * len(files), pa.int64()),
                "value": [line["schema"].encode() for line in files],
            }
        )
    ).tables


@cache
def _csv(config: str) -> Mapping[str, tuple[str, bytes, list[int]]]:
    """Return by table its content of a file, the key of its version, and the commit-ts of its rows."""
    parts: dict[str, tuple[str, list[bytes], list[int]]] = {}
    for line in lines(GOLDEN / "csv.jsonl.gz"):
        if line["kind"] == "row" and line["config"] == config:
            _, texts, times = parts.setdefault(line["table"], (line["header"], [], []))
            texts.append(b64decode(line["value"]))
            times.append(int(line["commit_ts"]))
    return {
        table: (header, b"".join([b64decode(header), *texts]), times) for table, (header, texts, times) in parts.items()
    }


def _key(table: str) -> bytes:
    return next(key for key, schema in _tables().items() if schema.table == table)


@cache
def _inserted() -> Mapping[str, list[dict[str, Any]]]:
    """Return by table the rows that were inserted, as Simple messages show them."""
    messages = list(lines(GOLDEN / "simple-json.jsonl.gz"))
    parts = {part: pa.array([b64decode(m[part] or "") for m in messages], pa.binary()) for part in ("key", "value")}
    batch = pa.RecordBatch.from_pydict({**parts, "offset": pa.array(range(len(messages)), pa.int64())})
    make = protocol_named("simple").reader
    assert make
    reader = make(DecodeOptions(ordered=True))
    reader.controls(batch)
    found: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for rows in reader.decoder.decode(batch).rows:
        for at, op, row in zip(rows.at, rows.op.to_pylist(), rows.data.to_pylist(), strict=True):
            if op in ("c", "u"):
                found[rows.version.schema.table].append((int(at), row))
    return {table: [row for _, row in sorted(rows, key=lambda one: one[0])] for table, rows in found.items()}


def _decoded(config: str, table: str, form: CsvFormat) -> Decoded:
    _, content, _ = _csv(config)[table]
    return _of_content(content, table, form)


def _of_content(content: bytes, table: str, form: CsvFormat) -> Decoded:
    starts, ends, _, whole = line_spans(content, form)
    assert whole
    values = [content[start:end] for start, end in zip(starts, ends, strict=True)]
    keys = [_key(table) + b"2026-01-01/CDC00000000000000000001.csv"] * len(values)
    return CsvDecoder(_tables(), form, "Asia/Shanghai").decode(
        pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    )


@pytest.mark.parametrize("config", FORMATS)
def test_rows_have_the_values_of_simple_messages(config: str) -> None:
    alike, others = 0, []
    for table, (_, _, times) in _csv(config).items():
        decoded = _decoded(config, table, FORMATS[config])
        assert not decoded.rejected, (table, [r.detail.to_pylist()[:1] for r in decoded.rejected])
        (rows,) = decoded.rows
        assert rows.reason.null_count == len(rows.reason), (table, {*rows.detail.to_pylist()})
        assert {*rows.op.to_pylist()} == {"c"}
        assert rows.commit_ts.to_pylist() == (times if FORMATS[config].include_commit_ts else [None] * len(times))
        names = [field.name for field in rows.data.type if "_now" not in field.name]  # made again, at another time
        expected = [{name: row.get(name) for name in names} for row in _inserted()[table]]
        lost = "NULL" if config == "noquote" else None  # such a text looks like NULL there
        expected = [{n: None if lost and v == lost else v for n, v in row.items()} for row in expected]
        for row in rows.data.to_pylist():
            row = {n: None if lost and row[n] == lost else row[n] for n in names}
            alike += row in expected
            others += [] if row in expected else [(table, row)]
    # TiDB makes one event of what a transaction does to a row: two of these rows were changed by the next statement.
    assert {table for table, _ in others} == {"t_pk_ubig", "t_nokey"}, others
    assert (alike, len(others)) == (sum(len(times) for _, _, times in _csv(config).values()) - 2, 2)


def test_a_handle_key_before_the_columns_is_passed_over() -> None:
    form = replace(FORMATS["commit-ts"], output_handle_key=True)
    before = re.compile(rb'^("I","[^"]+","[^"]+",[0-9]+,)', re.MULTILINE)
    for table, (_, content, times) in _csv("commit-ts").items():
        content, found = before.subn(rb'\1"{1, ""a"", 2}",', content)
        assert found == len(times)
        schema = _tables()[_key(table)]
        told = {"csv-output-handle-key": "true"}
        assert seen(csv_format(told), told, content, Shown([(schema.database, table)], len(schema.columns))) == form
        (rows,), (others,) = (
            _of_content(content, table, form).rows,
            _decoded("commit-ts", table, FORMATS["commit-ts"]).rows,
        )
        assert (rows.data.equals(others.data), rows.commit_ts.to_pylist()) == (True, times), table


@pytest.mark.parametrize("config", FORMATS)
def test_a_file_shows_how_it_was_written(config: str) -> None:
    form = FORMATS[config]
    for table, (_, content, _) in _csv(config).items():
        schema = _tables()[_key(table)]
        params = {"csv-null": form.null, "csv-binary-encoding-method": form.binary_encoding_method}
        made = CsvFormat(null=form.null, binary_encoding_method=form.binary_encoding_method)
        shown = Shown([(schema.database, table)], len(schema.columns))
        assert seen(made, params, content, shown) == form, table
        # The beginning of a file shows the same, or that it is too short.
        for length in (1, 40, 200, 5000):
            try:
                assert seen(made, params, content[:length], shown, whole=len(content) <= length) == form, table
            except TooShort:
                assert length < len(content)


@pytest.mark.parametrize("config", FORMATS)
def test_lines_that_were_read_are_written_byte_for_byte(config: str) -> None:
    form, compared = FORMATS[config], 0
    for table, (_, content, _) in _csv(config).items():
        (rows,) = _decoded(config, table, form).rows
        schema = rows.version.schema
        routed = RoutedTable(schema, schema, "")
        encoder = CsvEncoder(form, "Asia/Shanghai")
        assert encoder.unencodable(routed, rows).null_count == len(rows.at)
        lines = encoder.value(routed, rows).to_pylist()
        starts, ends, _, _ = line_spans(content, form)
        assert lines == [content[start:end] for start, end in zip(starts, ends, strict=True)], table
        compared += len(lines)
    assert compared == 1239


def test_a_header_names_the_fields() -> None:
    compared = 0
    for table, (header, _, _) in _csv("header").items():
        schema = _tables()[_key(table)]
        hidden = "v_" in table or table in ("t_gen", "t_expr")  # a header names virtual columns, too
        if not hidden:
            assert csv_header(RoutedTable(schema, schema, ""), FORMATS["header"]) + "\n" == b64decode(header).decode()
            compared += 1
    assert compared


def test_a_header_has_no_marks_where_rows_have_them() -> None:
    form = CsvFormat(output_field_header=True)
    for table, (_, content, times) in _csv("default").items():
        names = b64decode(_csv("header")[table][0]).rstrip(b"\n").replace(b"$^", b",")
        content = names + b"\r\n" + content
        schema = _tables()[_key(table)]
        assert seen(CsvFormat(), {}, content, Shown([(schema.database, table)], len(schema.columns))) == form, table
        assert len(line_spans(content, form)[0]) == len(times), table
        if csv_header(RoutedTable(schema, schema, ""), FORMATS["header"]) == names.replace(b",", b"$^").decode():
            assert csv_header(RoutedTable(schema, schema, ""), form) == names.decode()


@pytest.mark.parametrize(
    ("delimiter", "text", "shown"),
    [
        ("n", "one\n\r\\", "o\\ne\\n\\r\\\\"),
        ("\\|", "a\\|b\\c|", "a\\\\\\|b\\\\c|"),
        ("||", "|||", "\\|\\||"),
        (". ", "a. b.", "a\\.\\ b."),
    ],
)
def test_each_character_is_escaped_once(delimiter: str, text: str, shown: str) -> None:
    schema = TableSchema("d", "t", 1, 2, (Column("a", DataType("text", "utf8mb4", "utf8mb4_bin"), nullable=True),))
    columns = [pa.array(["c"]), pa.array([{"a": text}], row_type(schema)), pa.array([None], row_type(schema))]
    rows = Rows.of_changes(schema, pa.RecordBatch.from_arrays(columns, ["op", "data", "old"]))
    encoder = CsvEncoder(CsvFormat(delimiter, ""))
    assert encoder.value(RoutedTable(schema, schema, ""), rows).to_pylist() == [
        delimiter.join(["I", "t", "d", shown]).encode()
    ]


@pytest.mark.parametrize("old_value", [False, True])
def test_an_enum_of_the_invalid_value_has_no_form(old_value: bool) -> None:
    listed, named = (DataType("enum", "utf8mb4", "utf8mb4_bin", elements=one) for one in (("a", "b"), ("a", "")))
    schema = TableSchema("d", "t", 1, 2, (Column("e", listed, nullable=True), Column("f", named, nullable=True)))
    values = [("a", ""), ("", "a"), (None, None)]
    images = [{"e": e, "f": f} for e, f in values]
    columns = [
        pa.array([*"cccdu"]),
        pa.array([*images, None, images[0]], row_type(schema)),
        pa.array([None, None, None, images[1], images[1]], row_type(schema)),
    ]
    rows = Rows.of_changes(schema, pa.RecordBatch.from_arrays(columns, ["op", "data", "old"]))
    encoder = CsvEncoder(CsvFormat(output_old_value=old_value))
    no_form = "column e holds nothing that CSV can say"
    expected = [None, no_form, None, no_form, no_form if old_value else None]
    assert encoder.unencodable(RoutedTable(schema, schema, ""), rows).to_pylist() == expected
