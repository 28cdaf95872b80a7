"""The driver's part of reading Debezium as Avro: the registry, and schema changes. Source: Debezium protocol, Avro."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols._registered import RegistryReader
from tidecast.protocols.debezium._controls import Tables
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder


class DebeziumAvroReader(RegistryReader):
    """Knows the schemas of the registry that messages have asked for, and the tables that schema changes have shown."""

    title = "Debezium Avro"
    history: SchemaHistory

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        self._tables = Tables(options)
        self.history = self._tables.history

    @property
    def versions_by_time(self) -> bool:
        """See `Reader.versions_by_time`: schema changes alone tell a schema that returns from what it was before."""
        return bool(self._tables.known.versions)

    @property
    def decoder(self) -> DebeziumAvroDecoder:
        """See `Reader.decoder`."""
        return DebeziumAvroDecoder(self._registry.framing, self._schemas, self._tables.known)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema changes. In: see `Tables.read`."""
        return self._tables.read(messages, map(self.decoder.said, messages.column("value").to_pylist()))
