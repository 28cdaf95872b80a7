"""The driver's part of reading Debezium: it reads schema changes. Source: Debezium protocol, tableChanges."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks, Reader
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.debezium._columns import DebeziumDecoder
from tidecast.protocols.debezium._controls import Tables
from tidecast.protocols.debezium._parse import parse

_LETTERS = tuple(b"\\u00%d" % n for n in (7, 6, 4))
"""What a message holds instead where its writer escapes letters."""


class DebeziumReader(Reader):
    """Knows the tables that schema changes have shown."""

    history: SchemaHistory
    marks = Marks(holds=(b'"ddl"', b'"t"', *_LETTERS))  # t is the `op` of a TRUNCATE TABLE

    def __init__(self, options: DecodeOptions) -> None:
        self._tables = Tables(options)
        self.history = self._tables.history

    @property
    def decoder(self) -> DebeziumDecoder:
        """See `Reader.decoder`."""
        return DebeziumDecoder(self._tables.known)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema changes. In: see `Tables.read`."""
        return self._tables.read(messages, map(parse, *(messages.column(n).to_pylist() for n in ("key", "value"))))
