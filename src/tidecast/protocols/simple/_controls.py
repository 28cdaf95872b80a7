"""Schema changes and bootstraps, read one by one, as they are few. Source: Simple protocol, DDL, BOOTSTRAP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from tidecast.model import Bootstrap, Ddl, Reason, SchemaHistory, SchemaKey, TableSchema, checked
from tidecast.protocols._decoded import Controls, Rejected
from tidecast.protocols.simple import _schema as table_schemas
from tidecast.protocols.simple._avro import MARK, read_message
from tidecast.protocols.simple._message import BOOTSTRAP


@dataclass(frozen=True)
class Told:
    """The content of one control message; `change` is None for a bootstrap."""

    build_ts: int | None
    after: TableSchema | None
    before: TableSchema | None
    change: Ddl | None

    @property
    def time(self) -> int:
        """The time of the change: its commit-ts, or the table's version."""
        commit_ts = self.change.commit_ts if self.change else 0
        return commit_ts or (self.after.version if self.after else 0)


def _told_by(value: bytes) -> Told | None:
    """Return what a control message says, None where it cannot be read."""
    try:
        return _told(value)
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError):
        return None


def _told(value: bytes) -> Told:
    avro = value.startswith(MARK)
    message: dict[str, Any] = read_message(value) if avro else orjson.loads(value)
    table = table_schemas.from_avro if avro else table_schemas.from_json
    after, before = (
        checked(table(message[name])) if message.get(name) else None for name in ("tableSchema", "preTableSchema")
    )
    if message["type"] == BOOTSTRAP:
        if after is None:  # a damaged row may look like this, too
            raise ValueError("a bootstrap without tableSchema")
        return Told(message.get("buildTs"), after, before, None)
    sql = message.get("sql")
    if not sql or not isinstance(sql, str):  # a damaged row may look like this
        raise ValueError("a schema change without sql")
    change = Ddl(message["type"], sql, message["commitTs"], after, before)
    return Told(None, after, before, change.typed_alike)


class Schemas:
    """The schemas that a source has shown; `rows` are those of its rows, by what messages say of them.

    These are what they were when the source's messages begin, as TRUNCATE gives a version another table id.
    """

    def __init__(self, history: SchemaHistory) -> None:
        self.history = history
        self._first: dict[SchemaKey, TableSchema] = {}
        self._changes: set[Ddl] = set()

    @property
    def rows(self) -> dict[SchemaKey, TableSchema]:
        """See above."""
        return {schema.key: schema for schema in self.history} | self._first

    def _add(self, schema: TableSchema, change: Ddl | None = None) -> None:
        if schema.columns:  # what has none, as a sequence, has no rows either
            if schema.key in self.history:
                self._first.setdefault(schema.key, self.history[schema.key])
            self.history.add(schema, change)

    def read(self, values: Sequence[tuple[int, bytes]], offsets: Sequence[int], *, ordered: bool) -> Controls:
        """Take the control messages of a source; one that came on several partitions counts once.

        In: their places and values, and the offset of each. `ordered`: see `tidecast.model.Events`.
        """
        once = {value: _told_by(value) for value in dict(values).values()}
        said = [(place, once[value]) for place, value in values]
        broken = np.array([place for place, told in said if told is None], np.int64)
        known = [(place, told) for place, told in said if told is not None]
        known.sort(key=lambda one: (offsets[one[0]] if ordered else one[1].time, offsets[one[0]]))
        # The schema change of a version tells more of it than a bootstrap, whose place among those of other partitions
        # is not known.
        keys_by_ddl = {told.after.key for _, told in known if told.after and told.change}
        ddl: list[tuple[int, Ddl]] = []
        bootstraps: dict[tuple[TableSchema, int | None], list[int]] = {}
        for place, told in known:
            if told.change:
                if told.change in self._changes:  # sent again after a restart, or on another partition
                    continue
                self._changes.add(told.change)
                ddl.append((place, replace(told.change, position=offsets[place] if ordered else told.change.commit_ts)))
            elif told.after:
                bootstraps.setdefault((told.after, told.build_ts), []).append(place)
            if told.before and told.before.key not in keys_by_ddl:
                self._add(told.before)
            if told.after and (told.change or told.after.key not in keys_by_ddl):
                self._add(told.after, told.change)
        return Controls(
            ddl,
            [(places, Bootstrap(schema)) for (schema, _), places in bootstraps.items()],
            [Rejected.of(broken, Reason.BAD_MESSAGE, "its table schema cannot be read")] if broken.size else [],
            [(place, told.change.commit_ts) for place, told in known if told.change],
        )
