"""The cases of the kit: messages to read, and what they say, cell by cell.

What they say comes from the events that TiCDC's encoders were given, not from any reader. Where a protocol's form does
not hold a value, nothing is expected of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from tidecast.conformance._golden import Column, Event, Golden, Message, golden
from tidecast.conformance._values import answer_form, base_type, feature_of

_OPS = {"insert": "c", "update": "u", "delete": "d"}


@dataclass(frozen=True)
class Protocol:
    """How messages of one protocol are read: its name, which golden messages show it, what an answer may tell."""

    name: str
    variant: str
    holds: Callable[[Column, str | None], bool] = lambda column, value: True
    wire_name: Callable[[str], str] = lambda name: name
    as_type: Callable[[str], str] = lambda mysql_type: mysql_type
    has_old: bool = True
    has_checksums: bool = False
    orders_deletes: bool = True
    """Whether a delete tells its commit-ts."""


def _avro_name(name: str) -> str:
    """Return a name as Avro allows it. Source: Avro protocol, names."""
    changed = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{changed}" if changed[:1].isdigit() else changed


def _debezium_holds(column: Column, value: str | None) -> bool:
    """Return whether a value survives Debezium's form. Source: Debezium protocol, column types, NULL values."""
    if value is None:
        return not column.default
    if base_type(column.type) in ("date", "datetime", "timestamp"):
        year, month, day = map(int, value[:10].split("-"))
        try:
            return bool(date(year, month, day)) and year > 99
        except ValueError:
            return False
    return True


def _debezium_type(mysql_type: str) -> str:
    return "double" if base_type(mysql_type).startswith("decimal") else mysql_type


PROTOCOLS: Mapping[str, Protocol] = {
    "avro": Protocol(
        "avro", "avro-checksum", wire_name=_avro_name, has_old=False, has_checksums=True, orders_deletes=False
    ),
    "avro-precise": Protocol("avro", "avro-ext", wire_name=_avro_name, has_old=False, orders_deletes=False),
    "canal-json": Protocol("canal-json", "canal-json-compatible"),
    "debezium": Protocol("debezium", "debezium-ext", holds=_debezium_holds, as_type=_debezium_type),
    "simple": Protocol("simple", "simple-json-checksum", has_checksums=True),
    "simple-avro": Protocol("simple", "simple-avro-checksum", has_checksums=True),
}


@dataclass(frozen=True)
class Record:
    """A message where it lies."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Cell:
    """One thing that a message of some kind says; `cell` is its place in the answer, such as `new.price`."""

    feature: str
    offset: int
    kind: str
    cell: str
    expected: Any
    type: str = ""


@dataclass(frozen=True)
class Table:
    """The rows of a table in the end, and its key, which of a table without one are all columns."""

    feature: str
    table: str
    key: Sequence[str]
    types: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]


@dataclass
class Case:
    """Messages that are read from the first to the last, and what is expected of who reads them."""

    name: str
    protocol: str
    answer: str
    variant: str
    topic: str
    records: list[Record] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def add(self, message: Message) -> int:
        """Add a message to the only partition, and return its offset."""
        self.records.append(Record(0, len(self.records), message.key, message.value))
        return len(self.records) - 1


def golden_cases() -> Iterator[Case]:
    """Yield a case for each protocol, with messages of every type of column and every kind of event."""
    known = golden()
    for name, protocol in PROTOCOLS.items():
        case = Case(name, protocol.name, "messages", protocol.variant, name)
        for message in known.messages[protocol.variant]:
            offset = case.add(message)
            case.cells += expected_of(known, protocol, message, offset)
        yield case


def expected_of(known: Golden, protocol: Protocol, message: Message, offset: int) -> Iterator[Cell]:
    """Yield what a message says."""
    if message.damaged:
        yield Cell("checksums", offset, "row", "checksum", "mismatch")
        return
    event = known.events[message.n]
    match event.kind:
        case "dml":
            yield from _row(known.columns_of(event), protocol, event, offset)
        case "ddl":
            yield Cell("schema changes", offset, "ddl", "sql", event.query)
            yield Cell("schema changes", offset, "ddl", "commit_ts", event.commit_ts)
        case "watermark":
            yield Cell("watermarks", offset, "watermark", "commit_ts", event.commit_ts)


def _row(columns: Sequence[Column], protocol: Protocol, event: Event, offset: int) -> Iterator[Cell]:
    """Yield what the message of a row says."""
    op = _OPS[event.op or ""]
    name = protocol.wire_name
    yield Cell("operations", offset, "row", "op", op)
    yield Cell("names", offset, "row", "database", event.db if protocol.name != "avro" else name(event.db))
    yield Cell("names", offset, "row", "table", name(event.table))
    if op != "d" or protocol.orders_deletes:
        yield Cell("commit-ts", offset, "row", "commit_ts", event.commit_ts)
    if protocol.has_checksums and op != "d" and event.checksum in ("match", "mismatch"):
        yield Cell("checksums", offset, "row", "checksum", event.checksum)
    for side, row in (("new", event.new), ("old", event.old)):
        if row is None or (side == "old" and op == "u" and not protocol.has_old):
            continue
        shown = [c for c in columns if not c.virtual and (protocol.has_old or side == "new" or c.key)]
        if side == "new":
            yield Cell("columns", offset, "row", "new", sorted(name(c.name) for c in shown))
        for column in shown:
            value = answer_form(column, row[column.name])
            if not protocol.holds(column, value):
                continue
            feature = feature_of(column, value) if side == "new" else "old values" if op == "u" else "deleted rows"
            yield Cell(feature, offset, "row", f"{side}.{name(column.name)}", value, protocol.as_type(column.type))


def final_table(
    known: Golden, protocol: Protocol, events: Iterable[Event], feature: str, columns: Sequence[Column]
) -> Table:
    """Return what a table is after events: the newest row of each key, and every row of a table without one."""
    name = protocol.wire_name
    key = [c.name for c in columns if c.key] or [c.name for c in columns]
    newest: dict[tuple[Any, ...], tuple[tuple[int, bool], Event]] = {}
    about = None
    for event in events:
        about = event
        row = event.new or event.old or {}
        place = tuple(str(row[k]) for k in key)
        # At one commit-ts a delete comes before an insert of the same key.
        age = int(event.commit_ts or 0), event.new is not None
        if place not in newest or newest[place][0] <= age:
            newest[place] = age, event
    assert about is not None, "a schedule delivers rows"
    rows = [
        {name(c.name): answer_form(c, event.new[c.name]) for c in columns}
        for _, event in newest.values()
        if event.new is not None
    ]
    types = {name(c.name): protocol.as_type(c.type) for c in columns}
    return Table(feature, f"{name(about.db)}.{name(about.table)}", [name(k) for k in key], types, rows)
