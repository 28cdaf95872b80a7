"""Debezium in the register of protocols."""

from __future__ import annotations

from collections.abc import Iterator

from tidecast.protocols._codec import CodecOptions
from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.debezium._codec import DebeziumCodec
from tidecast.protocols.debezium._describe import describe, looks_like
from tidecast.protocols.debezium._read import DebeziumReader


def _wrong_options(options: CodecOptions) -> Iterator[str]:
    if options.debezium_include_start_ts:
        yield "debezium-include-start-ts cannot be applied: no source tells a transaction's start-ts"


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
