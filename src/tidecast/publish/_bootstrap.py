"""When a table's schema is repeated, for readers that start in the middle. Source: Simple protocol, BOOTSTRAP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter

from tidecast.model import TableSchema

INACTIVE_MS = 30 * 60 * 1000
_VERSIONS = 20


@dataclass
class _TableState:
    """A table: its newest schema, the topic of its first row, when it was repeated last, and its rows since then.

    `versions` are the last ones that its readers were told, by schemas that were repeated or by schema changes;
    `highest` is the highest number that other readers were told. `named` is the table's name in messages.
    """

    schema: TableSchema
    topic: str
    sent_ms: int
    row_ms: int
    rows: int = 0
    versions: list[int] = field(default_factory=list)
    named: str = ""
    highest: int = 0


_STATE = TypeAdapter(list[_TableState])


class Bootstraps:
    """The tables whose schemas are repeated: before the first row, then by time and by number of rows.

    A version that no schema change has told is repeated before its first row, too: Avro has none. A table without a row
    for half an hour is forgotten, so that its next row is a first one again. `state` hands the
    knowledge of one run to the next.

    The numbers are TiCDC's `send-bootstrap-interval-in-sec`
    and `send-bootstrap-in-msg-count`, either of which 0 ends it.
    Source: Simple protocol, BOOTSTRAP.
    """

    def __init__(self, interval_seconds: int, every_rows: int, state: bytes = b"[]") -> None:
        self._interval_ms = interval_seconds * 1000
        self.every_rows = every_rows
        self._tables = {table_key(table.schema): table for table in _STATE.validate_json(state)}
        self._name: Callable[[TableSchema], str] = lambda schema: schema.name

    def follow(self, name: Callable[[TableSchema], str]) -> None:
        """Go by these names of tables in messages, and forget each table that messages called otherwise."""
        self._name = name
        self._tables = {key: t for key, t in self._tables.items() if t.named in ("", name(t.schema))}

    @property
    def enabled(self) -> bool:
        """Tell whether schemas are repeated at all."""
        return self._interval_ms > 0 and self.every_rows > 0

    def state(self) -> bytes:
        """Return what is known as JSON, to be given to the next run."""
        return _STATE.dump_json(list(self._tables.values()))

    def forget_readers(self) -> None:
        """Take note that others read from now on, who know no schema; the numbers of versions stay."""
        for key, table in self._tables.items():
            highest = self.highest(table.schema)
            self._tables[key] = replace(table, topic="", row_ms=0, rows=0, versions=[], highest=highest)

    def due(self, now_ms: int | None = None) -> list[tuple[TableSchema, str]]:
        """Return schema and topic of the tables whose time has come, but for those that are quiet."""
        now = _now(now_ms)
        return [
            (table.schema, table.topic)
            for table in self._tables.values()
            if now - table.row_ms <= INACTIVE_MS
            and (now - table.sent_ms >= self._interval_ms or table.rows >= self.every_rows)
        ]

    def is_new(self, schema: TableSchema, now_ms: int | None = None) -> bool:
        """Tell whether a table's next row is its first one, or the first one after it was quiet."""
        table = self._tables.get(table_key(schema))
        return table is None or _now(now_ms) - table.row_ms > INACTIVE_MS

    def is_told(self, schema: TableSchema) -> bool:
        """Tell whether readers know this version of a table."""
        table = self._tables.get(table_key(schema))
        return table is not None and schema.version in table.versions

    def last(self, schema: TableSchema) -> TableSchema | None:
        """Return the newest schema of the table that a schema is of."""
        table = self._tables.get(table_key(schema))
        return table.schema if table else None

    def highest(self, schema: TableSchema) -> int:
        """Return the highest number that a version of the table had, 0 for none."""
        table = self._tables.get(table_key(schema))
        return max([table.schema.version, table.highest, *table.versions]) if table else 0

    def newest(self) -> Mapping[tuple[str, str], int]:
        """Return the version of the newest schema of each table, by database and name."""
        return {(t.schema.database, t.schema.table): t.schema.version for t in self._tables.values()}

    def rows(self, schema: TableSchema) -> int:
        """Return how many rows of a table have left since its schema was repeated."""
        table = self._tables.get(table_key(schema))
        return table.rows if table else 0

    def repeated(self, schema: TableSchema, topic: str, now_ms: int | None = None) -> None:
        """Take note that a table's schema has been sent. A table keeps the topic that it was first seen with."""
        now = _now(now_ms)
        table = self._known(schema, topic, now)
        table.sent_ms, table.rows = now, 0
        self.told(schema)

    def told(self, schema: TableSchema) -> None:
        """Take note that readers know this version, if they know of the table."""
        if (table := self._tables.get(table_key(schema))) and schema.version not in table.versions:
            table.versions = [*table.versions[1 - _VERSIONS :], schema.version]

    def took(self, schema: TableSchema, topic: str, rows: int, now_ms: int | None = None) -> None:
        """Take note of rows that leave after the last time that their schema was repeated.

        Deletes may show fewer columns than other rows of their version.
        """
        now = _now(now_ms)
        table = self._known(schema, topic, now)
        if schema.version != table.schema.version or len(schema.columns) > len(table.schema.columns):
            table.schema, table.named = schema, self._name(schema)
        table.row_ms = now
        table.rows += rows

    def _known(self, schema: TableSchema, topic: str, now: int) -> _TableState:
        made = _TableState(schema, topic, now, now, named=self._name(schema))
        table = self._tables.setdefault(table_key(schema), made)
        table.topic = table.topic or topic
        return table


def is_same(one: TableSchema, other: TableSchema) -> bool:
    """Tell whether two schemas differ in nothing but their version."""
    return (one.columns, one.indexes) == (other.columns, other.indexes)


def table_key(schema: TableSchema) -> str:
    """Return what makes a table the same one: its id, or its name where the source tells no id."""
    return str(schema.table_id) if schema.table_id else schema.name


def _now(now_ms: int | None) -> int:
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms
