"""What one Avro message says of itself, for people. Source: Avro protocol, wire format, DDL and watermark messages."""

from __future__ import annotations

from tidecast.protocols._protocol import Description
from tidecast.protocols.avro._control import DDL, WATERMARK, WATERMARK_LENGTH
from tidecast.protocols.avro._wire import HEADER_LENGTH, MAGIC


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return the schema ids of a message, or the schema change or watermark that it is."""
    value = value or b""
    if value.startswith(WATERMARK) and len(value) == WATERMARK_LENGTH:
        return Description("WATERMARK", commit_ts=int.from_bytes(value[1:], "big"))
    if value.startswith(DDL):
        return Description("DDL", sql=value[1:].decode(errors="replace"))
    return Description(key_schema_id=_schema_id(key or b""), value_schema_id=_schema_id(value))


def looks_like(value: bytes) -> bool:
    """Tell whether a value has Confluent's framing."""
    return value.startswith(MAGIC)


def _schema_id(message: bytes) -> int | None:
    framed = message.startswith(MAGIC) and len(message) >= HEADER_LENGTH
    return int.from_bytes(message[1:HEADER_LENGTH], "big") if framed else None
