"""Small files on this machine, read in the program's own process by the functions that Spark's tasks call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._uri import parse_place
from tidecast.model import Ddl, TableSchema
from tidecast.protocols import Controls, Decoded, DecodeOptions, Reader, Rejected
from tidecast.registry import Registry
from tidecast.runtime import settings_of_command
from tidecast.sources._topic import protocol_of, reader_of, records_here, subjects_of
from tidecast.sources._unpack import is_packed


@dataclass(frozen=True)
class Here:
    """All messages of a source in one batch, and what they say; of control messages, too, if they go before rows."""

    messages: pa.RecordBatch
    decoded: Decoded
    controls: Controls | None
    reader: Reader
    ordered: bool

    @property
    def broken(self) -> Sequence[Rejected]:
        """Those control messages that can be read, but not used; see `Messages.broken`."""
        return self.controls.rejected if self.controls else ()

    def schemas(self) -> list[TableSchema]:
        """Return the table versions that have rows, in the order of their first rows."""
        rows = self.decoded.rows
        timed = self.reader.position == "commit_ts" and not any(r.commit_ts.null_count for r in rows)
        offsets = np.asarray(self.messages.column("offset"))
        by_time = timed and not self.ordered
        first = [pc.min(r.commit_ts).as_py() if by_time else offsets[r.at].min() for r in rows]
        return [rows[n].version.schema for n in sorted(range(len(rows)), key=first.__getitem__)]

    def ddl(self) -> list[Ddl]:
        """Return the schema changes."""
        controls = self.controls or self.reader.controls(self.messages.take(pa.array(self.decoded.control)))
        return [change for _, change in controls.ddl]


def read_here(uri: str, *, registry: Registry | None, zone: str, values: bool = True) -> Here | None:
    """Return the content of a source, if it is few files on this machine; None where Spark has to read it.

    That is so, too, where messages are packed, or where the command line has settings of Spark. `registry` and `zone`
    are those of `read_topic`; without `values` only what `Decoder.decode` has then.
    """
    place, protocol = parse_place(uri), protocol_of(uri)
    found = None if settings_of_command() or is_packed(protocol, place.params) else records_here(uri)
    if found is None:
        return None
    messages = found.messages
    reader = reader_of(protocol, DecodeOptions(found.ordered, registry, zone, subjects=subjects_of(uri)))
    controls = reader.controls(messages) if reader.marks else None
    decoded = reader.decoder.decode(messages, values=values)
    if decoded.unknown and reader.learn([name for name, _ in decoded.unknown]):
        decoded = reader.decoder.decode(messages, values=values)
    return Here(messages, decoded, controls, reader, found.ordered)
