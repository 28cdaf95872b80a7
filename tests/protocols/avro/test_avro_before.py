"""Avro with the row before (`avro-include-before-value`): deletes are values, and updates show what they changed."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from golden_data import lines
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.config import build_config
from tidecast.model import Column, DataType, Index, TableSchema, compose, sanitize
from tidecast.protocols import DecodeOptions, RoutedTable, Rows, protocol_named
from tidecast.protocols._registered import schema_key
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._encoder import AvroEncoder
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import key_schema, value_schema
from tidecast.registry import CONFLUENT, RegisteredSchema, header
from tidecast.values import row_type

ZONE = "Asia/Shanghai"
EXTENDED = AvroOptions(
    enable_tidb_extension=True,
    decimal_handling_mode="string",
    bigint_unsigned_handling_mode="string",
    checksum=True,
    include_before_value=True,
    zone=ZONE,
)
PLAIN = AvroOptions(include_before_value=True, zone=ZONE)
_T = TableSchema(
    "my-db",
    "t 1",
    1,
    1,
    (
        Column("id", DataType("int", length=11), nullable=False, id=1),
        Column("v", DataType("varchar", "utf8mb4", "utf8mb4_bin", length=9), id=2),
    ),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)


@pytest.mark.unit
@pytest.mark.parametrize("extension", [False, True])
def test_the_schema_has_the_row_before_behind_the_columns(extension: bool) -> None:
    text = value_schema(_T, AvroOptions(enable_tidb_extension=extension, include_before_value=True))
    columns = (
        '{"name":"id","type":{"type":"int","connect.parameters":{"tidb_type":"INT"}}},'
        '{"default":null,"name":"v","type":["null",{"type":"string","connect.parameters":{"tidb_type":"TEXT"}}]}'
    )
    before = (
        '{"default":null,"name":"_ticdc_before","type":["null",{"fields":[' + columns + '],"name":"t_1_before",'
        '"namespace":"default.my_db","type":"record"}]}'
    )
    more = (
        ',{"default":0,"name":"_tidb_commit_ts","type":"long"},{"default":0,"name":"_tidb_commit_physical_time","type":"long"}'
        if extension
        else ""
    )
    assert text == (
        '{"type":"record","name":"t_1","namespace":"default.my_db","fields":['
        + columns
        + ","
        + before
        + ',{"default":"","name":"_tidb_op","type":"string"}'
        + more
        + "]}"
    )
    fastavro.parse_schema(json.loads(text))


@pytest.mark.unit
@pytest.mark.parametrize("options", [PLAIN, AvroOptions()], ids=["before", "tombstones"])
def test_a_tombstone_without_a_key_is_none(options: AvroOptions) -> None:
    """A column selector may drop all that tells rows apart."""
    rows = pa.array([{"id": 1, "v": "a"}], row_type(_T))
    changes = {"op": ["d"], "commit_ts": [5], "old": rows, "data": pa.nulls(1, rows.type)}
    sent = Rows.of_changes(_T, pa.RecordBatch.from_pydict(changes))
    wrong = AvroEncoder(options, {}).unencodable(RoutedTable(_T, _T.selecting(frozenset({"v"})), "topic"), sent)
    assert (wrong.null_count == 0) is not options.include_before_value
    assert AvroEncoder(options, {}).unencodable(RoutedTable(_T, _T, "topic"), sent).null_count == 1


def _golden(golden: Callable[[str], Path]) -> Iterator[Rows]:
    """Yield the rows of Simple messages, which show the row before and both checksums."""
    messages = lines(golden("simple-json-checksum.jsonl.gz"))
    parts = {
        part: pa.array([base64.b64decode(m[part] or "") for m in messages], pa.binary()) for part in ("key", "value")
    }
    batch = pa.RecordBatch.from_pydict({**parts, "offset": pa.array(range(len(messages)), pa.int64())})
    make = protocol_named("simple").reader
    assert make
    reader = make(DecodeOptions(ordered=True))
    reader.controls(batch)
    yield from reader.decoder.decode(batch).rows


def _sent(rows: Rows, options: AvroOptions) -> tuple[Rows, pa.RecordBatch, AvroDecoder]:
    """Return those rows that have a form, as messages, and a decoder that knows their schemas."""
    schema = rows.version.schema
    routed = RoutedTable(schema, schema, "topic")
    ids = {schema_key(routed, "key"): 1, schema_key(routed, "value"): 2}
    encoder = AvroEncoder(options, ids)
    rows = rows.take(~np.asarray(encoder.unencodable(routed, rows).is_valid()))
    known = {header(n): RegisteredSchema(text(schema, options), n) for n, text in ((1, key_schema), (2, value_schema))}
    batch = pa.RecordBatch.from_arrays([encoder.key(routed, rows), encoder.value(routed, rows)], names=["key", "value"])
    return rows, batch, AvroDecoder(CONFLUENT, known, ZONE)


def _said(row: dict[str, Any] | None, names: dict[str, str]) -> dict[str, Any] | None:
    """Return a row by its names in Avro; a decimal as its text."""
    if row is None:
        return None
    return {name: format(row[n], "f") if isinstance(row[n], Decimal) else row[n] for name, n in names.items()}


@pytest.mark.unit
@pytest.mark.parametrize("options", [EXTENDED, PLAIN], ids=["extension", "plain"])
def test_rows_come_back_with_the_row_before(options: AvroOptions, golden: Callable[[str], Path]) -> None:
    compared = dict.fromkeys("cud", 0)
    for sent in _golden(golden):
        rows, batch, decoder = _sent(sent, options)
        if not len(rows.at):
            continue
        decoded = decoder.decode(batch)
        assert not decoded.rejected
        (read,) = decoded.rows
        assert read.version.shows_before
        assert read.reason.null_count == len(read.reason), {*read.detail.to_pylist()}
        assert read.op.to_pylist() == rows.op.to_pylist()
        names = {sanitize(column.name): column.name for column in sent.version.schema.columns if not column.virtual}
        for side in ("old", "data"):
            got = [_said(one, {name: name for name in names}) for one in getattr(read, side).to_pylist()]
            assert got == [_said(one, names) for one in getattr(rows, side).to_pylist()], sent.version.schema.name
        if options is EXTENDED:
            assert read.commit_ts.to_pylist() == rows.commit_ts.to_pylist()
            for got, expected, op in zip(
                read.checksum.to_pylist(), rows.checksum.to_pylist(), rows.op.to_pylist(), strict=True
            ):
                member = "previous" if op == "d" else "current"
                assert (got or {}).get(member) == (expected or {}).get(member)
        for op in rows.op.to_pylist():
            compared[op] += 1
        schema = fastavro.parse_schema(json.loads(decoder.schemas[header(2)].text))  # type: ignore[union-attr]
        for value, op in zip(batch.column("value").to_pylist(), rows.op.to_pylist(), strict=True):
            said: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
            assert said["_tidb_op"] == op
            assert (said["_ticdc_before"] is None) == (op == "c")
            if op == "d":
                assert all(said[name] == shown for name, shown in said["_ticdc_before"].items())
    assert min(compared.values()) > 50, compared


@pytest.mark.unit
def test_damage_in_the_row_before_is_found(golden: Callable[[str], Path]) -> None:
    sent = next(rows for rows in _golden(golden) if rows.version.schema.table == "t_int" and "u" in rows.op.to_pylist())
    _, batch, decoder = _sent(sent, EXTENDED)
    values = batch.column("value").to_pylist()
    cut = [value[:-1] for value in values]
    (read,) = decoder.decode(
        pa.RecordBatch.from_arrays([batch.column("key"), pa.array(cut, pa.binary())], names=["key", "value"])
    ).rows
    assert read.reason.null_count == 0
    heads = pa.array([value[:5] for value in values], pa.binary())
    (places,) = decoder.decode(
        pa.RecordBatch.from_arrays([batch.column("key"), heads], names=["key", "value"]), values=False
    ).rows
    assert places.commit_ts.null_count == len(values)


@pytest.mark.unit
def test_an_old_row_without_a_form_is_not_sent_as_none() -> None:
    (rows,) = [_changes("u", {"id": None, "v": "x"}, {"id": 1, "v": "y"})]
    routed = RoutedTable(_T, _T, "topic")
    encoder = AvroEncoder(PLAIN, {schema_key(routed, "key"): 1, schema_key(routed, "value"): 2})
    assert encoder.unencodable(routed, rows).to_pylist() == ["column id held nothing that Avro can say"]


def _changes(op: str, old: dict[str, Any] | None, data: dict[str, Any] | None) -> Rows:
    kind = pa.struct({"id": pa.int32(), "v": pa.string()})
    return Rows.of_changes(
        _T,
        pa.RecordBatch.from_pydict(
            {
                "op": [op],
                "commit_ts": pa.array([5], pa.int64()),
                "old": pa.array([old], kind),
                "data": pa.array([data], kind),
            }
        ),
    )


@pytest.mark.unit
def test_the_uri_and_the_file_set_it() -> None:
    uri = "kafka://h/t?protocol=avro&schema-registry=http://r"
    told = {"sink": {"kafka-config": {"codec-config": {"avro-include-before-value": True}}}}
    assert build_config(f"{uri}&avro-include-before-value=true", {}).codec_options().avro_include_before_value
    assert build_config(uri, told).codec_options().avro_include_before_value
    assert not build_config(uri, {}).codec_options().avro_include_before_value


_T0 = compose(1_700_000_000_000)
_N = {**ID, "name": "n", "nullable": True}


def test_history_and_watermarks_come_from_such_topics(spark: SparkSession, tmp_path: Path) -> None:
    topic = GrowingTopic(tmp_path / "source")
    update: Said = row(_T0 + 4, _T0, kind="UPDATE", id=1, n=5) | {"old": {"id": "1", "n": "1"}}
    changes = [row(_T0 + 1 + n, _T0, id=n, n=n) for n in range(3)]
    topic.grow([ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,`n` INT)", _T0, table(_T0, ID, _N)), *changes, update])
    registry = f"file://{tmp_path}/schemas"
    sink = (
        f"file://{tmp_path}/sink/t?protocol=avro&enable-tidb-extension=true&avro-enable-watermark=true"
        "&avro-include-before-value=true"
    )
    options: dict[str, Any] = {"schema_registry": registry, "spark": spark}
    tidecast.convert(topic.uri, sink, **options)
    # A batch of deletes alone.
    more = GrowingTopic(tmp_path / "more")
    more.grow([ddl("CREATE TABLE `d`.`t` (`id` INT PRIMARY KEY,`n` INT)", _T0, table(_T0, ID, _N))])
    more.grow(
        [row(_T0 + 6, _T0, kind="DELETE", id=2, n=2), watermark(_T0 + 6), row(_T0 + 8, _T0, kind="DELETE", id=0, n=0)]
    )
    tidecast.convert(more.uri, sink, **options)
    done = tidecast.replicate(
        sink, str(tmp_path / "history"), mode="history", checkpoint=str(tmp_path / "one"), ddl="evolve", **options
    )
    assert not done.dead_letters
    found = spark.read.format("delta").load(f"{tmp_path}/history/d/t").collect()
    shown = sorted((r["id"], r["n"], r["_valid_from"] - _T0, r["_valid_to"] and r["_valid_to"] - _T0) for r in found)
    assert shown == [(0, 0, 1, 8), (1, 1, 2, 4), (1, 5, 4, None), (2, 2, 3, 6)]
    tidecast.replicate(
        sink, str(tmp_path / "now"), resolved_only=True, checkpoint=str(tmp_path / "two"), ddl="evolve", **options
    )
    rows = spark.read.format("delta").load(f"{tmp_path}/now/d/t").collect()
    assert sorted(map(tuple, rows)) == [(0, 0), (1, 5)]  # the watermark does not cover the last delete
