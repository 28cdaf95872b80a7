"""The driver's part of reading Debezium as Avro: the registry, and schema changes. Source: Debezium protocol, Avro."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols._registered import RegistryReader
from tidecast.protocols.debezium._controls import changes_of, read_changes
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import Said
from tidecast.protocols.debezium._read import places_of
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder


class DebeziumAvroReader(RegistryReader):
    """Knows the schemas of the registry that messages have asked for; rows need no other."""

    title = "Debezium Avro"
    head: tuple[bytes, int] | None = None
    position: str | None = "commit_ts"
    marks: Marks | None = None
    history: SchemaHistory | None = None

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        self._zone, self._known = options.zone, Known(options.ordered)

    @property
    def decoder(self) -> DebeziumAvroDecoder:
        """See `Reader.decoder`."""
        return DebeziumAvroDecoder(self._registry.framing, self._schemas)

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
        return found
