"""The driver's part of reading Avro: it alone asks the registry. Source: Avro protocol, wire format."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols._registered import RegistryReader
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._control import schema_change
from tidecast.protocols.avro._read_schema import read_schema


class AvroReader(RegistryReader):
    """Reads schema changes."""

    title = "Avro"
    marks: Marks | None = None
    history: SchemaHistory | None = None

    def __init__(self, options: DecodeOptions) -> None:
        super().__init__(options)
        self._zone = options.zone

    @property
    def _timed(self) -> bool:
        """Tell whether deletes may have their commit-ts, as those do that show the row before."""
        known = (read_schema(one.text) for one in self._schemas.values() if one)
        return any(one is not None and one.shows_before and one.extended for one in known)

    @property
    def position(self) -> str | None:
        """See `Reader.position`: `commit_ts` where rows may all have one."""
        return "commit_ts" if self._timed else None

    @property
    def head(self) -> tuple[bytes, int] | None:
        """See `Reader.head`: None where the rest of a message is wanted, too."""
        framing = self._registry.framing
        return None if self._timed else (framing.magic, framing.length)

    @property
    def decoder(self) -> AvroDecoder:
        """See `Reader.decoder`."""
        return AvroDecoder(self._registry.framing, self._schemas, self._zone)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read the schema changes that `avro-enable-watermark` sends."""
        told = enumerate(map(schema_change, messages.column("value").to_pylist()))
        return Controls([(place, change) for place, change in told if change is not None])
