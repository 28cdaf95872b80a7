"""The driver's part of reading Canal-JSON: it reads schema changes. Source: Canal-JSON protocol, members."""

from __future__ import annotations

import pyarrow as pa

from tidecast.model import Ddl
from tidecast.protocols._decoded import Controls, Reader
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.canal_json._columns import CanalDecoder
from tidecast.protocols.canal_json._parse import Said, parse


class CanalReader(Reader):
    """Knows no schemas: messages bring their tables. The rows after a schema change show its result.

    It knows when tables changed, which tells rows apart that show the same.
    """

    keyless = b""

    def __init__(self, options: DecodeOptions) -> None:
        self._zone, self._ordered = options.zone, options.ordered
        self._changed: dict[tuple[str, str], list[int]] = {}

    @property
    def decoder(self) -> CanalDecoder:
        """See `Reader.decoder`."""
        return CanalDecoder(self._zone, {name: tuple(times) for name, times in self._changed.items()})

    def controls(self, messages: pa.RecordBatch) -> Controls:
        """Read schema changes, each once, however often it was sent. In: their `offset`, too."""
        offsets = messages.column("offset").fill_null(0).to_pylist()
        found: dict[tuple[object, ...], tuple[int, int, Ddl]] = {}
        for place, value in enumerate(messages.column("value").to_pylist()):
            said = parse(value)
            if not isinstance(said, Said) or said.sql is None:
                continue
            name = said.shape.database, said.shape.table
            if said.commit_ts is not None:
                self._changed[name] = sorted({*self._changed.get(name, ()), said.commit_ts})
            named = name if said.shape.database else None
            position = offsets[place] if self._ordered else said.commit_ts
            estimated = said.commit_ts is None
            change = Ddl(said.kind, said.sql, said.since, position=position, named=named, estimated=estimated)
            key = (said.kind, said.sql, said.since, named)
            if key not in found or (offsets[place], place) < found[key][:2]:
                found[key] = (offsets[place], place, change.typed_alike)
        told = sorted(found.values(), key=lambda one: (one[2].commit_ts, one[0]))
        return Controls([(place, change) for _, place, change in told])
