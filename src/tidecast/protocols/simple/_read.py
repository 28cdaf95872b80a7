"""The driver's part of reading Simple: it reads schema changes and bootstraps. Source: Simple protocol, messages."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks, Reader
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.simple._avro import BOOTSTRAP, DDL, beginning
from tidecast.protocols.simple._columns import SimpleDecoder
from tidecast.protocols.simple._controls import Schemas

_MEMBERS = (b'"sql"', b'"BOOTSTRAP"')
"""What control messages in JSON surely hold: a schema change has its SQL, a bootstrap its type."""
_LETTERS = tuple(b"\\u00%d" % n for n in (4, 5, 6, 7))
"""What they hold instead where their writer escapes letters."""


class SimpleReader(Reader):
    """Knows the schemas that messages have shown."""

    history: SchemaHistory
    keyless = b""
    marks = Marks(
        begins=(beginning(BOOTSTRAP), beginning(DDL)),
        holds=(*_MEMBERS, *_LETTERS),
    )

    def __init__(self, options: DecodeOptions) -> None:
        self._zone, self._ordered = options.zone, options.ordered
        self.history = SchemaHistory() if options.history is None else options.history
        self._schemas = Schemas(self.history)

    @property
    def decoder(self) -> SimpleDecoder:
        """See `Reader.decoder`."""
        return SimpleDecoder(self._schemas.rows, self._zone)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read the schema changes and bootstraps among messages. In: their `offset`, too."""
        places = self.decoder.decode(messages, values=False).control.tolist()
        values = messages.column("value").to_pylist()
        offsets = messages.column("offset").fill_null(0).to_pylist()
        return self._schemas.read([(place, values[place]) for place in places], offsets, ordered=self._ordered)
