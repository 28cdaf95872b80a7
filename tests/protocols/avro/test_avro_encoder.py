"""Rows encoded as Avro in batches, in process: golden messages that are read and written are the same bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from golden_data import lines

from tidecast.model import Column, Kind
from tidecast.protocols import RoutedTable, Rows
from tidecast.protocols._avro_fields import written
from tidecast.protocols._registered import schema_key
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._encoder import AvroEncoder
from tidecast.protocols.avro._options import AvroOptions
from tidecast.registry import CONFLUENT, RegisteredSchema, header
from tidecast.values import field

ZONE = "Asia/Shanghai"
VARIANTS = {
    "avro": AvroOptions(zone=ZONE),
    "avro-ext": AvroOptions(enable_tidb_extension=True, zone=ZONE),
    "avro-colsel": AvroOptions(
        enable_tidb_extension=True, decimal_handling_mode="string", bigint_unsigned_handling_mode="string", zone=ZONE
    ),
    "avro-checksum": AvroOptions(
        enable_tidb_extension=True,
        decimal_handling_mode="string",
        bigint_unsigned_handling_mode="string",
        checksum=True,
        zone=ZONE,
    ),
}


def decoder(schemas: Path) -> AvroDecoder:
    known = {header(s["id"]): RegisteredSchema(s["schema"], s["id"]) for s in lines(schemas)}
    return AvroDecoder(CONFLUENT, known, ZONE)


def batch(file: Path) -> pa.RecordBatch:
    found = lines(file)
    parts = [[None if m[n] is None else base64.b64decode(m[n]) for m in found] for n in ("key", "value")]
    return pa.RecordBatch.from_arrays([pa.array(part, pa.binary()) for part in parts], names=["key", "value"])


def table_of(rows: Rows) -> tuple[RoutedTable, dict[tuple[str, str, str, int], int]]:
    """Return a table version on its way out, and the ids of its schemas, which its name has."""
    table = RoutedTable(rows.version.schema, rows.version.schema, "topic")
    heads = [bytes.fromhex(head) for head in rows.version.name.split("/")]
    ids = {
        schema_key(table, part): number
        for part, head in zip(("key", "value"), heads, strict=True)
        if isinstance(number := CONFLUENT.schema_id(head) if head else None, int)
    }
    return table, ids


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_read_is_written_byte_for_byte(variant: str, golden: Callable[[str], Path]) -> None:
    messages = batch(golden(f"{variant}.jsonl.gz"))
    seen = 0
    for rows in decoder(golden(f"{variant}.schemas.jsonl.gz")).decode(messages).rows:
        table, ids = table_of(rows)
        encoder = AvroEncoder(VARIANTS[variant], ids)
        expected = messages.take(pa.array(rows.at))
        assert encoder.unencodable(table, rows).null_count == len(rows.at)
        assert encoder.value(table, rows).to_pylist() == expected.column("value").to_pylist()
        if schema_key(table, "key") in ids:
            assert encoder.key(table, rows).to_pylist() == expected.column("key").to_pylist()
        seen += len(rows.at)
    assert seen == sum(m["op"] != "ddl" for m in lines(golden(f"{variant}.jsonl.gz")))


WRONG: dict[str, tuple[Callable[[Column], bool], str | None]] = {
    "missing": (lambda column: not column.nullable, None),
    "element": (lambda column: column.data_type.kind is Kind.ENUM, ""),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_value_that_avro_has_no_form_for_is_named(wrong: str, golden: Callable[[str], Path]) -> None:
    fits, value = WRONG[wrong]

    decoded = decoder(golden("avro-ext.schemas.jsonl.gz")).decode(batch(golden("avro-ext.jsonl.gz")))
    rows = next(r for r in decoded.rows if not r.version.of_key and any(map(fits, r.version.schema.columns)))
    name = next(c.name for c in rows.version.schema.columns if fits(c))
    columns = [
        pa.array([value] * len(rows.at), f.type) if f.name == name else field(rows.data, f.name) for f in rows.data.type
    ]
    broken = replace(rows, data=pa.StructArray.from_arrays(columns, fields=[*rows.data.type]))
    table, ids = table_of(rows)
    said = AvroEncoder(VARIANTS["avro-ext"], ids).unencodable(table, broken).to_pylist()
    assert said == [f"column {name} holds nothing that Avro can say"] * len(rows.at)


def test_numbers_of_any_length_are_written_as_fastavro_writes_them() -> None:
    numbers = [0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), None]
    for kind in (["null", "long"], ["long", "null"]):
        (cells,) = written(kind, pa.array(numbers, pa.int64()))
        for number, found in zip(numbers, cells.to_pylist(), strict=True):
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, kind, number)
            assert found == stream.getvalue(), number
