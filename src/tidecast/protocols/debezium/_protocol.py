"""Debezium in the register of protocols, and a message described for people. Source: Debezium protocol, messages."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidecast.protocols._codec import CodecOptions
from tidecast.protocols._description import Description
from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.debezium._codec import DebeziumCodec
from tidecast.protocols.debezium._parse import describe_payload
from tidecast.protocols.debezium._read import DebeziumReader


def _wrong_options(options: CodecOptions) -> Iterator[str]:
    if options.debezium_include_start_ts:
        yield "debezium-include-start-ts cannot be applied: no source tells a transaction's start-ts"


_BEGINNINGS = (b'{"payload"', b'{"schema"')


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return what a message says: a schema change, a watermark, or a row."""
    try:
        return describe_payload(json.loads(value or b"").get("payload") or {})
    except (ValueError, AttributeError, RecursionError):  # a number or a list has no payload
        return Description()


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as those of TiCDC and of Debezium's own connectors do."""
    return value.startswith(_BEGINNINGS)


PROTOCOL = WireProtocol(
    "debezium",
    "Debezium",
    reader=DebeziumReader,
    codec=DebeziumCodec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=_wrong_options,
    compressed=("key", "value"),
)
