"""The golden JSON messages of Debezium say the same in Avro, as fastavro reads it, and survive it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from debezium_avro import (
    COMMIT_TS,
    fastavro_reads,
    written,
)
from decoded_batches import Message, batch
from golden_data import Line, lines

from tidecast.model import Column, DataType, Ddl, Kind
from tidecast.protocols import CodecOptions, DecodeOptions, RoutedTable, Rows, codec_for
from tidecast.protocols.debezium._read import DebeziumReader
from tidecast.protocols.debezium.avro._read import DebeziumAvroReader
from tidecast.registry import Registry, open_registry

ZONE = "Asia/Shanghai"
Golden = Callable[[str], Path]
Json = dict[str, Any]
UTF8 = ("utf8mb4", "utf8mb4_bin")


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return open_registry(f"file://{tmp_path}/schemas")


def of_json(data_type: DataType, value: Any) -> Any:
    """Return a value of the golden JSON as Avro must show it, but for a DECIMAL, which JSON rounds to a double."""
    match data_type.kind:
        case _ if value is None:
            return None
        case Kind.BINARY:
            return base64.b64decode(value)
        case Kind.BIT if data_type.length > 1:
            return base64.b64decode(value)
        case Kind.FLOAT:
            return float(np.float32(value))
        case Kind.DOUBLE | Kind.DECIMAL:
            return float(value)
        case Kind.INTEGER if data_type.mysql_type == "bigint" and data_type.unsigned:
            return str(value % 2**64)  # JSON wraps
    return value


def golden_rows(messages: list[Line]) -> tuple[list[Rows], list[Ddl]]:
    parts: list[Message] = [(base64.b64decode(m["key"]), base64.b64decode(m["value"])) for m in messages]
    records = batch(parts).append_column("offset", pa.array(range(len(parts)), pa.int64()))
    reader = DebeziumReader(DecodeOptions(ordered=True, zone=ZONE))
    found = reader.decoder.decode(records)
    told = reader.controls(records.take(pa.array(found.control)))
    return list(reader.decoder.decode(records).rows), [ddl for _, ddl in told.ddl]


def test_golden_rows_say_in_avro_what_they_say_in_json(golden: Golden, registry: Registry) -> None:
    messages = lines(golden("debezium-ext.jsonl.gz"))
    groups, _ = golden_rows(messages)
    options = CodecOptions(
        enable_tidb_extension=True, avro_decimal_handling_mode="string", zone=ZONE, schema_registry=True
    )
    seen = 0
    for rows in groups:
        # BIGINT UNSIGNED as text, where JSON wraps.
        modes = replace(options, avro_bigint_unsigned_handling_mode="string")
        codec = codec_for("debezium-avro", modes, registry)
        columns = {c.name: c.data_type for c in rows.version.schema.columns}
        table = RoutedTable(rows.version.schema, rows.version.schema, f"t{seen}")
        for place, key_bytes, value in zip(rows.at, *written(codec, table, rows), strict=True):
            payload = json.loads(base64.b64decode(messages[place]["value"]))["payload"]
            schema, got = fastavro_reads(value, registry)
            assert (got["op"], got["source"]["commit_ts"]) == (payload["op"], payload["source"]["commit_ts"])
            assert got["source"] == payload["source"] | {"snapshot": None, "thread": None}
            names = {f["name"]: f["connect.field"] for f in schema["fields"][0]["type"][1]["fields"]}
            for side in ("before", "after"):
                want = payload.get(side)
                assert (got[side] is None) == (want is None)
                for column, found in (got[side] or {}).items():
                    name = names[column]
                    value_got = float(found) if found and columns[name].kind is Kind.DECIMAL else found
                    wanted = of_json(columns[name], want.get(name))
                    assert value_got == wanted, (rows.version.schema.name, name)
            key_schema, key_got = fastavro_reads(key_bytes, registry)
            keys = json.loads(base64.b64decode(messages[place]["key"]))["payload"]
            assert [f["connect.field"] for f in key_schema["fields"]] == list(keys)
            assert len(key_got) == len(keys)
            seen += 1
    assert seen == sum(m["kind"] == "dml" for m in messages) > 500


@pytest.mark.parametrize("decimals", ["precise", "string"])
def test_golden_rows_survive_avro(decimals: str, golden: Golden, registry: Registry) -> None:
    groups, _ = golden_rows(lines(golden("debezium-ext.jsonl.gz")))
    codec = codec_for(
        "debezium-avro",
        CodecOptions(
            enable_tidb_extension=True,
            avro_decimal_handling_mode=decimals,
            avro_bigint_unsigned_handling_mode="string",
            zone=ZONE,
        ),
        registry,
    )
    for number, rows in enumerate(groups):
        whole = rows.version.schema
        # JSON may show one digit more of a DECIMAL than the column has, if that are more than 38.
        wide = {c.name for c in whole.columns if c.data_type.kind is Kind.DECIMAL and c.data_type.length > 38}
        names = frozenset(c.name for c in whole.columns if decimals == "string" or c.name not in wide)
        table = RoutedTable(whole, whole.selecting(names) if len(names) < len(whole.columns) else whole, f"t{number}")
        keys, values = written(codec, table, rows)
        reader = DebeziumAvroReader(DecodeOptions(registry=registry, zone=ZONE))
        messages = batch(list(zip(keys, values, strict=True)))
        for name, _ in reader.decoder.decode(messages).unknown:
            assert reader.learn([name])
        (again,) = reader.decoder.decode(messages).rows
        assert again.reason.null_count == len(again.at), again.detail
        assert (again.op, again.commit_ts) == (rows.op, rows.commit_ts)
        assert again.version.schema.handle_key == rows.version.schema.handle_key
        for side in ("old", "data"):
            for got, want in zip(getattr(again, side).to_pylist(), getattr(rows, side).to_pylist(), strict=True):
                assert (got is None) == (want is None)
                for column in table.selected.columns if want else ():
                    pair = [plain(column, row[column.name]) for row in (got, want)]
                    assert pair[0] == pair[1], (table.schema.name, column.name)


def plain(column: Column, value: Any) -> Any:
    """Return a value without what the protocol does not tell: the digits of times and of decimals."""
    match column.data_type.kind:
        case _ if value is None or column.virtual:
            return None
        case Kind.DECIMAL:
            return Decimal(value)
        case Kind.DATETIME | Kind.TIME | Kind.TIMESTAMP:
            whole, _, fraction = value.partition(".")
            return whole, fraction.rstrip("0")
    return value


def test_golden_schema_changes_and_watermarks_go_through_the_same_conversion(
    golden: Golden, registry: Registry
) -> None:
    messages = lines(golden("debezium-ext.jsonl.gz"))
    _, changes = golden_rows(messages)
    options = CodecOptions(enable_tidb_extension=True, avro_enable_watermark=True, zone=ZONE)
    codec = codec_for("debezium-avro", options, registry)
    wanted = {}
    for message in messages:
        payload = json.loads(base64.b64decode(message["value"]))["payload"]
        if message["kind"] == "ddl":
            wanted[payload["ddl"], payload["source"]["commit_ts"], payload["source"]["table"]] = payload
    assert len(wanted) > 20
    sent = [message for ddl in changes for message in codec.ddl(ddl)]
    assert len(sent) == len(changes)
    names = set()
    for key_bytes, value in sent:
        assert key_bytes is not None
        schema, got = fastavro_reads(value, registry)
        want = wanted[got["ddl"], got["source"]["commit_ts"], got["source"]["table"]]
        assert got["source"].pop("sequence") is None
        assert got | {"ts_ms": 0} == want | {"ts_ms": 0}
        assert fastavro_reads(key_bytes, registry)[1] == {"databaseName": want["databaseName"]}
        names.add((schema["fields"][0]["type"]["namespace"], schema["connect.name"]))
    (one,) = names  # the first database stands in all
    assert one[1] == "io.debezium.connector.mysql.SchemaChangeValue"
    assert codec.watermark is not None
    key_bytes, value = codec.watermark(COMMIT_TS)
    schema, got = fastavro_reads(value, registry)
    assert (got["op"], got["source"]["commit_ts"], got["source"]["table"]) == ("m", COMMIT_TS, "")
    assert (schema["namespace"], schema["name"]) == ("default.watermark", "Envelope")
    assert (got["source"]["snapshot"], got["source"]["thread"], got["transaction"]) == ("false", 0, None)
    assert fastavro_reads(key_bytes or b"", registry)[1] == {}

    reader = DebeziumAvroReader(DecodeOptions(registry=registry, zone=ZONE))
    again = batch([*sent, (key_bytes, value)]).append_column("offset", pa.array(range(len(sent) + 1), pa.int64()))
    for name, _ in reader.decoder.decode(again).unknown:
        reader.learn([name])
    decoded = reader.decoder.decode(again)
    assert decoded.control.tolist() == list(range(len(sent)))
    assert [part.tolist() for part in decoded.watermarks] == [[len(sent)], [COMMIT_TS]]
    told = [ddl for _, ddl in reader.controls(again.take(pa.array(decoded.control))).ddl]
    assert [(d.type, d.sql, d.commit_ts) for d in told] == [(d.type, d.sql, d.commit_ts) for d in changes]
    shapes = [[c and c.columns for c in (d.schema for d in some)] for some in (told, changes)]
    assert [x is None for x in shapes[0]] == [x is None for x in shapes[1]]
