"""One Avro message described for people. Source: Avro protocol, wire format, DDL and watermark messages."""

from __future__ import annotations

from uuid import UUID

from tidecast.protocols._protocol import Description
from tidecast.protocols.avro._control import DDL, WATERMARK, WATERMARK_LENGTH
from tidecast.registry import FRAMINGS


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return the schema ids of a message, or the schema change or watermark that it is."""
    value = value or b""
    if value.startswith(WATERMARK) and len(value) == WATERMARK_LENGTH:
        return Description("WATERMARK", commit_ts=int.from_bytes(value[1:], "big"))
    if value.startswith(DDL):
        return Description("DDL", sql=value[1:].decode(errors="replace"))
    return Description(key_schema_id=_schema_id(key or b""), value_schema_id=_schema_id(value))


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as one of a registry's schemas."""
    return any(value.startswith(framing.magic) for framing in FRAMINGS)


def _schema_id(message: bytes) -> int | str | None:
    ids = (framing.schema_id(message) for framing in FRAMINGS)
    found = next((schema_id for schema_id in ids if schema_id is not None), None)
    return str(found) if isinstance(found, UUID) else found
