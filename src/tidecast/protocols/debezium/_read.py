"""The driver's part of reading Debezium: it reads schema changes. Source: Debezium protocol, tableChanges."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidecast.model import SchemaHistory
from tidecast.protocols._decoded import Controls, Marks, Reader
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.debezium._columns import DebeziumDecoder
from tidecast.protocols.debezium._controls import changes_of, read_changes
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import Said, parse

_LETTERS = tuple(b"\\u00%d" % n for n in (6, 4))
"""What a message holds instead where its writer escapes letters."""


class DebeziumReader(Reader):
    """Knows the tables that schema changes have shown."""

    history: SchemaHistory
    marks = Marks(holds=(b'"ddl"', *_LETTERS))

    def __init__(self, options: DecodeOptions) -> None:
        self._zone = options.zone
        self.history = SchemaHistory() if options.history is None else options.history
        self._known = known_of(self.history, ordered=options.ordered)

    @property
    def decoder(self) -> DebeziumDecoder:
        """See `Reader.decoder`."""
        return DebeziumDecoder(self._known)

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema changes. In: `offset`, and the place of each message in `topic` and `partition`, too."""
        said = map(parse, *(messages.column(name).to_pylist() for name in ("key", "value")))
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


def known_of(history: SchemaHistory, *, ordered: bool) -> Known:
    """Return the versions that earlier batches have shown."""
    known = Known(ordered)
    for schema in history:
        known = known.with_version(schema, schema.version)
    return known


Place = tuple[int, int, tuple[str | None, int | None]]
"""Where a message stands in its batch, its offset, and its topic and partition."""


def places_of(messages: pa.RecordBatch) -> Iterator[Place]:
    """Yield the place of each message; topic and partition are None where there are no such columns."""
    names = messages.schema.names
    offsets = messages.column("offset").fill_null(0).to_pylist()
    nowhere = [None] * len(offsets)
    topic, partition = (messages.column(n).to_pylist() if n in names else nowhere for n in ("topic", "partition"))
    for place, offset in enumerate(offsets):
        yield place, offset, (topic[place], partition[place])
