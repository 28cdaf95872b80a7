"""Debezium in the register of protocols."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from tidecast.model import Events, SchemaHistory
from tidecast.protocols._protocol import DecodeOptions, WireProtocol
from tidecast.protocols.debezium._codec import DebeziumCodec
from tidecast.protocols.debezium._decode import decode
from tidecast.protocols.debezium._describe import describe, looks_like
from tidecast.protocols.debezium._plain import read_plain


def _decode(records: DataFrame, options: DecodeOptions) -> Events:
    history = SchemaHistory() if options.history is None else options.history
    events = decode(records, ordered=options.ordered, zone=options.zone, schemas=tuple(history))
    for change in events.ddl:
        if change.schema:
            history.add(change.schema, change)
    return replace(events, history=history)


PROTOCOL = WireProtocol(
    "debezium",
    "Debezium",
    decode=_decode,
    codec=DebeziumCodec,
    describe=describe,
    looks_like=looks_like,
    read_plain=read_plain,
    compressed=("key", "value"),
)
