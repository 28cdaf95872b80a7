"""Debezium in the register of protocols."""

from __future__ import annotations

from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.debezium._codec import DebeziumCodec
from tidecast.protocols.debezium._describe import describe, looks_like
from tidecast.protocols.debezium._read import DebeziumReader

PROTOCOL = WireProtocol(
    "debezium",
    "Debezium",
    reader=DebeziumReader,
    codec=DebeziumCodec,
    describe=describe,
    looks_like=looks_like,
    compressed=("key", "value"),
)
