"""Avro in the register of protocols, and a message described for people.

Source: Avro protocol, wire format, DDL and watermark messages.
"""

from __future__ import annotations

from tidecast.protocols._description import Description
from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols._registered import describe_ids
from tidecast.protocols.avro._codec import AvroCodec, wrong_options
from tidecast.protocols.avro._control import DDL, TIMED_LENGTH, WATERMARK
from tidecast.protocols.avro._read import AvroReader
from tidecast.registry import FRAMINGS


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return the schema ids of a message, or the schema change or watermark that it is."""
    value = value or b""
    if value.startswith(WATERMARK) and len(value) == TIMED_LENGTH:
        return Description("WATERMARK", commit_ts=int.from_bytes(value[1:], "big"))
    if value.startswith(DDL):
        return Description("DDL", sql=value[1:].decode(errors="replace"))
    return describe_ids(key, value)


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as one of a registry's schemas."""
    return any(value.startswith(framing.magic) for framing in FRAMINGS)


PROTOCOL = WireProtocol(
    "avro",
    "Avro",
    aliases=("flat-avro",),
    reader=AvroReader,
    codec=AvroCodec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=wrong_options,
    needs_registry=True,
    one_table_per_topic=True,
    zoned_checksums=True,
)
