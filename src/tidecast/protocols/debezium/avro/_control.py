"""Schema changes and watermarks, written and read as JSON has them. Source: Debezium protocol, Avro, DDL events."""

from __future__ import annotations

import io
import json
import struct
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException

from tidecast.model import Ddl
from tidecast.protocols._codec import Message
from tidecast.protocols.debezium._encode import encode_watermark
from tidecast.protocols.debezium._encode_ddl import DdlHistory, encode_ddl
from tidecast.protocols.debezium.avro._connect import avro_schema
from tidecast.protocols.debezium.avro._layout import Layout
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions
from tidecast.protocols.debezium.avro._schema import source_schema

WATERMARK = "watermark"
"""What stands for a database in the names of a watermark's schemas."""


class Control(NamedTuple):
    """Key or value of a message: the subject of its schema, this schema, and what it says."""

    subject: str
    schema: str
    payload: dict[str, Any]

    def encoded(self) -> bytes:
        """Return it as Avro, without what tells the schema."""
        out = io.BytesIO()
        schemaless_writer(out, _parsed(self.schema), self.payload)
        return out.getvalue()


def ddl_parts(
    ddl: Ddl, options: DebeziumAvroOptions, history: DdlHistory, *, build_ts: int, database: str
) -> tuple[Control, Control] | None:
    """Return key and value of a schema change; see `encode_ddl`. `database` is that which names the schema of source.

    TiCDC registers these schemas once, with the database of the first schema change.
    """
    message = encode_ddl(ddl, options, history, build_ts=build_ts)
    return message and (_control(message[0], database, options), _control(message[1], database, options))


def watermark_parts(commit_ts: int, options: DebeziumAvroOptions, build_ts: int) -> tuple[Control, Control]:
    """Return key and value of a watermark."""
    key, value = encode_watermark(commit_ts, options, build_ts)
    return _control(key or b"", WATERMARK, options), _control(value, WATERMARK, options)


def encode_avro_watermark(
    commit_ts: int, options: DebeziumAvroOptions, build_ts: int, heads: tuple[bytes, bytes]
) -> Message:
    """Return the message of a watermark. In: what its key and its value begin with."""
    parts = watermark_parts(commit_ts, options, build_ts)
    key, value = (head + part.encoded() for head, part in zip(heads, parts, strict=True))
    return key, value


def _control(message: bytes, database: str, options: DebeziumAvroOptions) -> Control:
    """Return a key or value in JSON as Avro: it brings the schema that becomes Avro's."""
    found = orjson.loads(message)
    connect, payload = found["schema"], found["payload"]
    source = source_schema(database, options, of_rows=False)
    connect["fields"] = [source if f["field"] == "source" else f for f in connect["fields"]]
    return Control(connect["name"], avro_schema(connect), payload)


@lru_cache(256)
def _parsed(schema: str) -> Any:
    return parse_schema(json.loads(schema))


_WRONG = (
    *(ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, RecursionError),
    *(struct.error, SchemaParseException),
)


def read_message(layout: Layout, record: bytes) -> dict[str, Any] | None:
    """Return what a message says, None where it is no record of its schema, or more than that."""
    stream = io.BytesIO(record)
    try:
        payload = schemaless_reader(stream, _writer(layout), None)
    except _WRONG:
        return None
    return payload if isinstance(payload, dict) and not stream.read(1) else None


@lru_cache(1024)
def _writer(layout: Layout) -> Any:
    return parse_schema(_without_defaults(layout.schema))


def _without_defaults(schema: Any) -> Any:
    """Return a schema without the defaults of its fields, which are nothing to who reads by it, and may be wrong."""
    if isinstance(schema, dict):
        return {name: _without_defaults(member) for name, member in schema.items() if name != "default"}
    return [*map(_without_defaults, schema)] if isinstance(schema, list) else schema
