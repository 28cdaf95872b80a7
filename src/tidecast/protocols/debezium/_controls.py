"""Schema changes, read one by one, as they are few. Source: Debezium protocol, tableChanges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidecast.model import (
    Ddl,
    InvalidSchema,
    Reason,
    SchemaHistory,
    Statement,
    TableSchema,
    checked,
    ddl_type,
    read_statement,
)
from tidecast.protocols._decoded import Controls, Rejected
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.debezium._decode_schema import read_table
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import Problem, Said

_BROKEN = "tableChanges is not of Debezium's form"


@dataclass(frozen=True)
class Change:
    """A schema change as one message or several show it: the first of their places and offsets, and all places."""

    said: Said
    changes: str | None
    offset: int
    places: list[int]


class Tables:
    """The tables that schema changes have shown: `known` by name, and as `history`."""

    def __init__(self, options: DecodeOptions) -> None:
        self.history = SchemaHistory() if options.history is None else options.history
        self.known = Known(options.ordered)
        for schema in self.history:
            self.known = self.known.with_version(schema, schema.version)
        self._zone = options.zone

    def read(self, messages: pa.RecordBatch, said: Iterable[Said | Problem | None]) -> Controls:
        """Read the schema changes among messages, of which each has said something.

        In: `offset`, and the place of each message in `topic` and `partition`, where there are such columns.
        """
        placed = zip(_places_of(messages), said, strict=True)
        told = ((place, one) for place, one in placed if isinstance(one, Said) and one.op is None)
        found, self.known = _read_changes(_changes_of(told, ordered=self.known.ordered), self.known, self._zone)
        for _, change in found.ddl:
            if change.schema:
                self.history.add(change.schema, change)
        return found


_Place = tuple[int, int, tuple[str | None, int | None]]
"""Where a message stands in its batch, its offset, and its topic and partition."""


def _places_of(messages: pa.RecordBatch) -> Iterator[_Place]:
    names = messages.schema.names
    offsets = messages.column("offset").fill_null(0).to_pylist()
    nowhere = [None] * len(offsets)
    topic, partition = (messages.column(n).to_pylist() if n in names else nowhere for n in ("topic", "partition"))
    for place, offset in enumerate(offsets):
        yield place, offset, (topic[place], partition[place])


def _changes_of(messages: Iterable[tuple[_Place, Said]], *, ordered: bool) -> list[Change]:
    """Return schema changes in their order, each once.

    They come once or once per partition. Debezium's own connector sends each once, without a commit-ts, and the same
    may happen again.
    """
    found: dict[tuple[Any, ...], Change] = {}
    for (place, offset, partition), said in messages:
        shown = said.payload.get("tableChanges")
        text = None if shown is None else _text(shown)
        alone = (partition, offset) if said.commit_ts is None else None
        key = (said.database, said.table, said.commit_ts, said.payload["ddl"], text, alone)
        known = found.get(key)
        if known is None:
            found[key] = Change(said, text, offset, [place])
        else:
            found[key] = replace(known, offset=min(offset, known.offset), places=[*known.places, place])

    def order(change: Change) -> tuple[int, ...]:
        return (change.offset,) if ordered else (change.said.commit_ts or 0, change.offset)

    return sorted(found.values(), key=order)


def _text(shown: Any) -> str:
    try:
        return json.dumps(shown)
    except RecursionError:
        return _TOO_DEEP


_TOO_DEEP = "{"
"""Stands for what is nested too deep, and cannot be read either."""


def _read_changes(changes: Sequence[Change], known: Known, zone: str) -> tuple[Controls, Known]:
    """Return the content of schema changes, and the tables that are known behind them.

    `zone` is the time zone of TIMESTAMP defaults in statements, that of TiCDC's server.
    """
    history, numbers = SchemaHistory(), _Numbers()
    found: list[tuple[int, Ddl]] = []
    broken: list[Rejected] = []
    for one in changes:
        said, sql = one.said, one.said.payload["ddl"]
        statement = read_statement(sql)
        try:
            schema = _shown(said, one.changes, statement, zone)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            why = str(error) if isinstance(error, InvalidSchema) else _BROKEN
            broken.append(Rejected.of(np.array(one.places), Reason.BAD_MESSAGE, why))
            continue
        kind = ddl_type(sql) if statement else "ALTER" if schema else "QUERY"
        change = Ddl(kind, sql, said.commit_ts or 0, schema)
        table = said.table or ""
        # Beside each DROP Debezium's own connector names all tables that the user's statement drops.
        if statement and kind == "ERASE" and statement.name[1] in table.split(","):
            table = statement.name[1]
        if schema:
            if statement and not statement.may_change_keys:
                was = statement.renamed_from(schema.database) or (schema.database, schema.table)
                schema = schema.keyed_like(next(reversed(known.of(was)), None))
            number = numbers.of(schema, statement)
            # The history tells virtual columns, and tells tables apart by numbers, which Debezium does not carry.
            whole = history.add(replace(schema, table_id=number), change)
            schema = replace(whole, table_id=0, columns=tuple(replace(c, id=None) for c in whole.columns))
            known = known.with_version(schema, said.commit_ts, one.offset)
        elif kind in ("ERASE", "TRUNCATE"):  # which show no table: it is as it was
            schema = next(reversed(known.of((said.database, table))), None)
        named = None if schema else (said.database, table)
        position = one.offset if known.ordered else said.commit_ts
        told = replace(change, schema=schema, position=position, named=named if named and named[0] else None)
        found.append((one.places[0], told))
    return Controls(found, rejected=broken), known


class _Numbers:
    """A number for each table, which it keeps when it is renamed."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, schema: TableSchema, statement: Statement | None) -> int:
        """Return the number of a table after a statement."""
        name = (schema.database, schema.table)
        was = statement.name if statement and statement.renamed else name
        before = (was[0] or schema.database, was[1])
        created = statement is not None and statement.verb == "CREATE" and statement.subject == "TABLE"
        number = None if created else self._numbers.pop(before, None)
        self._numbers[name] = number or len(self._numbers) + 1
        return self._numbers[name]


def _shown(said: Said, text: str | None, statement: Statement | None, zone: str) -> TableSchema | None:
    changes: list[dict[str, Any]] = json.loads(text or "[]")
    table = changes[0]["table"] if changes else None
    if table is None:
        return None
    # The message names the other table of an exchange, and shows the one with partitions.
    named = statement and (statement.renamed or (statement.name if statement.exchanged else None))
    database, name = named or (None, said.table or "")
    return checked(read_table(table, (database or said.database, name), said.commit_ts or 0, statement, zone))
