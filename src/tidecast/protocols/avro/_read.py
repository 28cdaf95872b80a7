"""The driver's part of reading Avro: it alone asks the registry. Source: Avro protocol, wire format."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidecast.protocols._decoded import Controls
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols._registered import RegistryReader
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._control import schema_change
from tidecast.protocols.avro._read_schema import read_schema


class AvroReader(RegistryReader):
    """Reads schema changes."""

    title = "Avro"

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        self._zone = options.zone
        self._look()

    def learn(self, names: Sequence[bytes]) -> bool:
        """See `RegistryReader.learn`."""
        found = super().learn(names)
        self._look()
        return found

    def _look(self) -> None:
        """Take note whether deletes may have their commit-ts, as those do that show the row before.

        That takes more of a message than its head, and without it rows have no position.
        """
        known = (read_schema(one.text) for one in self._schemas.values() if one)
        timed = any(one is not None and one.shows_before and one.extended for one in known)
        framing = self._registry.framing
        self.position = "commit_ts" if timed else None
        self.head = None if timed else (framing.magic, framing.length)

    @property
    def versions_by_time(self) -> bool:
        """See `Reader.versions_by_time`: a schema that returns has its old number in the registry."""
        return False

    @property
    def decoder(self) -> AvroDecoder:
        """See `Reader.decoder`."""
        return AvroDecoder(self._registry.framing, self._schemas, self._zone)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read the schema changes that `avro-enable-watermark` sends."""
        told = enumerate(map(schema_change, messages.column("value").to_pylist()))
        return Controls([(place, change) for place, change in told if change is not None])
