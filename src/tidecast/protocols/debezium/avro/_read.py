"""The driver's part of reading Debezium as Avro: the registry, and schema changes. Source: Debezium protocol, Avro."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols._registered import RegistryReader
from tidecast.protocols.debezium._controls import changes_of, read_changes
from tidecast.protocols.debezium._parse import Said
from tidecast.protocols.debezium._read import known_of, places_of
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder


class DebeziumAvroReader(RegistryReader):
    """Knows the schemas of the registry that messages have asked for, and the tables that schema changes have shown."""

    title = "Debezium Avro"
    history: SchemaHistory

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        self._zone = options.zone
        self.history = SchemaHistory() if options.history is None else options.history
        self._known = known_of(self.history, ordered=options.ordered)

    @property
    def decoder(self) -> DebeziumAvroDecoder:
        """See `Reader.decoder`."""
        return DebeziumAvroDecoder(self._registry.framing, self._schemas, self._known)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema changes. In: `offset`, and the place of each message in `topic` and `partition`, too."""
        decoder = self.decoder
        said = map(decoder.said, messages.column("value").to_pylist())
        told = [
            (*place, one)
            for place, one in zip(places_of(messages), said, strict=True)
            if isinstance(one, Said) and one.op is None
        ]
        found, self._known = read_changes(changes_of(told, ordered=self._known.ordered), self._known, self._zone)
        for _, change in found.ddl:
            if change.schema:
                self.history.add(change.schema, change)
        return found
