"""The driver's part of reading Avro: it alone asks the registry. Source: Avro protocol, wire format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks
from tidecast.protocols._protocol import DecodeOptions, missing_registry
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._control import schema_change
from tidecast.registry import RegisteredSchema, header


class AvroReader:
    """Knows the schemas of the registry that messages have asked for."""

    position: str | None = None
    marks: Marks | None = None
    history: SchemaHistory | None = None

    def __init__(self, options: DecodeOptions) -> None:
        if options.registry is None:
            raise missing_registry("Avro")
        self._registry, self._zone = options.registry, options.zone
        self._registry.check()
        framing = self._registry.framing
        self.keyless: bytes | None = framing.magic
        self.head: tuple[bytes, int] | None = (framing.magic, framing.length)
        guessed = self._registry.guess(options.subjects)
        self._schemas: Mapping[bytes, RegisteredSchema | None] = {header(n): known for n, known in guessed.items()}

    @property
    def decoder(self) -> AvroDecoder:
        """See `Reader.decoder`."""
        return AvroDecoder(self._registry.framing, self._schemas, self._zone)

    def learn(self, names: Sequence[bytes]) -> bool:
        """Ask the registry for schemas; one that it does not know is known to be missing. See `Reader.learn`."""
        heads = {head for name in names for head in self.decoder.missing(name)} - self._schemas.keys()
        found = {}
        for head in sorted(heads):
            schema_id = self._registry.framing.schema_id(head)
            assert schema_id is not None
            found[head] = self._registry.schema(schema_id)
        self._schemas = {**self._schemas, **found}
        return bool(found)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read the schema changes that `avro-enable-watermark` sends."""
        told = enumerate(map(schema_change, messages.column("value").to_pylist()))
        return Controls([(place, change) for place, change in told if change is not None])
