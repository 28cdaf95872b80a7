"""Watermarks of the model as Debezium messages, and what all messages share: their `source`, and how they end.

Source: Debezium protocol, messages, `payload.source`.
"""

from __future__ import annotations

from tidecast.model import physical_ms
from tidecast.protocols._codec import Message
from tidecast.protocols._json_text import Json
from tidecast.protocols.debezium._json import dumps
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import JsonObject, watermark_key_schema, watermark_value_schema

WATERMARK = "m"
VERSION, CONNECTOR = "2.4.0.Final", "TiCDC"


def source(database: str, table: str, options: DebeziumOptions) -> tuple[str, str, str]:
    """Return the text of `source` in three pieces, between which its time in milliseconds and its TSO belong."""
    who: dict[str, Json] = {"version": VERSION, "connector": CONNECTOR, "name": options.cluster_id}
    where: dict[str, Json] = {
        "snapshot": "false",
        "db": database,
        "table": table,
        "server_id": 0,
        "gtid": None,
        "file": "",
        "pos": 0,
        "row": 0,
        "thread": 0,
        "query": None,
    }
    return (
        f'{dumps(who)[:-1]},"ts_ms":',
        f',{dumps(where)[1:-1]},"commit_ts":',
        f',"cluster_id":{dumps(options.cluster_id)}}}',
    )


def encode_watermark(commit_ts: int, options: DebeziumOptions, build_ts: int) -> Message:
    """Return the message of a watermark, from its TSO and when it is made, in milliseconds since the epoch.

    TiCDC sends watermarks only with `enable_tidb_extension`.
    """
    before, middle, after = source("", "", options)
    origin = f"{before}{physical_ms(commit_ts)}{middle}{commit_ts}{after}"
    payload = f'{{"source":{origin},"ts_ms":{build_ts},"transaction":null,"op":"{WATERMARK}"}}'
    key, value = (
        f'{{"payload":{text}'.encode() + tail(schema(options), options)
        for text, schema in (("{}", watermark_key_schema), (payload, watermark_value_schema))
    )
    return key, value


def tail(schema: JsonObject, options: DebeziumOptions) -> bytes:
    """Return how keys or values end: with their schema, most of a message of few columns, unless it is left out."""
    return b"}" if options.disable_schema else f',"schema":{dumps(schema)}}}'.encode()
