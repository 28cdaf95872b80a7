"""One message read whole, as JSON has it: schema changes and watermarks, as they are few. Source: Debezium protocol."""

from __future__ import annotations

import io
import struct
from functools import lru_cache
from typing import Any

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException

from tidecast.protocols.debezium.avro._layout import Layout

_WRONG = (
    *(ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, RecursionError),
    *(struct.error, SchemaParseException),
)


def read_message(layout: Layout, record: bytes) -> dict[str, Any] | None:
    """Return what a message says, None where it is no record of its schema, or more than that."""
    stream = io.BytesIO(record)
    try:
        payload = schemaless_reader(stream, _parsed(layout), None)
    except _WRONG:
        return None
    return payload if isinstance(payload, dict) and not stream.read(1) else None


@lru_cache(1024)
def _parsed(layout: Layout) -> Any:
    return parse_schema(_without_defaults(layout.schema))


def _without_defaults(schema: Any) -> Any:
    """Return a schema without the defaults of its fields, which are nothing to who reads by it, and may be wrong."""
    if isinstance(schema, dict):
        return {name: _without_defaults(member) for name, member in schema.items() if name != "default"}
    return [*map(_without_defaults, schema)] if isinstance(schema, list) else schema
