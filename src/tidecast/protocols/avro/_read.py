"""The driver's part of reading Avro: it alone asks the registry. Source: Avro protocol, wire format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tidecast.model import Ddl, Reason, SchemaHistory, ddl_type, read_statement
from tidecast.protocols._decoded import Controls, Marks, Rejected
from tidecast.protocols._protocol import DecodeOptions, missing_registry
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._control import DDL
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
        ddl, broken = [], []
        for place, value in enumerate(messages.column("value").to_pylist()):
            change = _schema_change(value)
            if change is None:
                broken.append(place)
            else:
                ddl.append((place, change))
        bad = [Rejected.of(np.array(broken), Reason.BAD_MESSAGE, "not a schema change")] if broken else []
        return Controls(ddl, rejected=bad)


def _schema_change(value: bytes) -> Ddl | None:
    """Return the schema change of a message: a byte 1 and a JSON object; None for one that tells no commit-ts."""
    try:
        members = json.loads(value[len(DDL) :])
        commit_ts, sql = members["commitTs"], members.get("query") or ""
        named = (members.get("schema"), members.get("table"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    texts = (sql, *(name for name in named if name is not None))
    if type(commit_ts) is not int or not 0 <= commit_ts < 1 << 63 or not all(isinstance(t, str) for t in texts):
        return None
    statement = read_statement(sql)
    kind = ddl_type(statement) if statement else "QUERY"  # the message has TiDB's number of it
    return Ddl(kind, sql, commit_ts, named=named if all(named) else None)
