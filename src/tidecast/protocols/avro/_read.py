"""The driver's part of reading Avro: it alone asks the registry. Source: Avro protocol, wire format."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols._registered import RegistryReader
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._control import schema_change


class AvroReader(RegistryReader):
    """Reads schema changes."""

    title = "Avro"
    position: str | None = None
    marks: Marks | None = None
    history: SchemaHistory | None = None

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        framing, self._zone = self._registry.framing, options.zone
        self.head: tuple[bytes, int] | None = (framing.magic, framing.length)

    @property
    def decoder(self) -> AvroDecoder:
        """See `Reader.decoder`."""
        return AvroDecoder(self._registry.framing, self._schemas, self._zone)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read the schema changes that `avro-enable-watermark` sends."""
        told = enumerate(map(schema_change, messages.column("value").to_pylist()))
        return Controls([(place, change) for place, change in told if change is not None])
