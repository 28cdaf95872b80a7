"""Debezium as Avro in the register of protocols."""

from __future__ import annotations

from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols._registered import describe_ids
from tidecast.protocols.debezium.avro._codec import DebeziumAvroCodec, wrong_options
from tidecast.protocols.debezium.avro._read import DebeziumAvroReader

PROTOCOL = WireProtocol(
    "debezium-avro",
    "Debezium Avro",
    reader=DebeziumAvroReader,
    codec=DebeziumAvroCodec,
    describe=describe_ids,
    wrong_options=wrong_options,
    needs_registry=True,
    one_table_per_topic=True,
)
