"""Debezium as Avro in the register of protocols."""

from __future__ import annotations

from functools import partial

from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols._registered import describe_ids, wrong_registry_options
from tidecast.protocols.debezium.avro._codec import DebeziumAvroCodec
from tidecast.protocols.debezium.avro._read import DebeziumAvroReader

PROTOCOL = WireProtocol(
    "debezium-avro",
    "Debezium Avro",
    reader=DebeziumAvroReader,
    codec=DebeziumAvroCodec,
    describe=describe_ids,
    wrong_options=partial(wrong_registry_options, title="Debezium Avro", name="debezium-avro"),
    needs_registry=True,
    one_table_per_topic=True,
)
