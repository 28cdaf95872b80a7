"""Watermarks of the model as Debezium messages, and how all messages end. Source: Debezium protocol, messages."""

from __future__ import annotations

from tidecast.model import TableSchema, physical_ms
from tidecast.protocols._codec import Message
from tidecast.protocols.debezium._encode_source import source
from tidecast.protocols.debezium._json import dumps
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import (
    JsonObject,
    key_schema,
    value_schema,
    watermark_key_schema,
    watermark_value_schema,
)

WATERMARK = "m"


def key_tail(schema: TableSchema, options: DebeziumOptions) -> bytes:
    """Return how the message keys of a table end: with their schema, unless the options leave it out."""
    return _tail(key_schema(schema, options), options)


def value_tail(schema: TableSchema, options: DebeziumOptions, columns: frozenset[str] | None = None) -> bytes:
    """Return how the message values of a table end: with their schema, most of a message of few columns.

    `columns` are the names that a selector lets through, None for all.
    """
    return _tail(value_schema(schema, options, columns), options)


def encode_watermark(commit_ts: int, options: DebeziumOptions, build_ts: int) -> Message:
    """Return the message of a watermark, from its TSO and when it is made, in milliseconds since the epoch.

    TiCDC sends watermarks only with `enable_tidb_extension`.
    """
    before, middle, after = source("", "", options)
    origin = f"{before}{physical_ms(commit_ts)}{middle}{commit_ts}{after}"
    payload = f'{{"source":{origin},"ts_ms":{build_ts},"transaction":null,"op":"{WATERMARK}"}}'
    key, value = (
        f'{{"payload":{text}'.encode() + _tail(schema(options), options)
        for text, schema in (("{}", watermark_key_schema), (payload, watermark_value_schema))
    )
    return key, value


def _tail(schema: JsonObject, options: DebeziumOptions) -> bytes:
    return b"}" if options.disable_schema else f',"schema":{dumps(schema)}}}'.encode()
