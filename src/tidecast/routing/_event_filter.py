"""Event filters: which events of a table are left out, by type, by SQL text, by the values of a row.

Source: Changefeed configuration, event filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast._errors import ConfigError, TidecastError
from tidecast._go import parse_regexp
from tidecast._time_limit import check_time
from tidecast.model import ALTER_EVENTS, DDL_EVENTS, Ddl, Op, TableSchema, ddl_action
from tidecast.routing._matcher import TableMatcher
from tidecast.routing._rules import EventFilter
from tidecast.routing._values import OUT_OF_RANGE
from tidecast.routing._where import condition_of, parse_condition
from tidecast.values import alike, field, valid

_ROW_EVENTS = {Op.CREATE: "insert", Op.UPDATE: "update", Op.DELETE: "delete"}
_ALIASES = {"create database": "create schema", "drop database": "drop schema"}
_FILTERLESS = frozenset({"add foreign key", "drop foreign key", "add fulltext index", "create hybrid index"})
"""Events that TiCDC knows, and that its filter takes for invalid all the same."""
_NO_EVENT_FILTER = "filter rule is invalid failed to create binlog event filter"
_ALTERS = ALTER_EVENTS - _FILTERLESS

EVENTS = frozenset({*_ROW_EVENTS.values(), "all dml", "all ddl", "alter table", *_ALIASES}) | DDL_EVENTS - _FILTERLESS
"""What `ignore-event` may name."""


def check_event_filters(filters: Iterable[EventFilter]) -> None:
    """Raise ConfigError for an event that there is none of, a pattern of SQL text or a value expression that is none.

    Whether a table has an expression's columns is `EventFilters.check`'s to say.
    """
    for one in filters:
        unknown = [name for name in one.ignore_event if name not in EVENTS]
        if unknown and _FILTERLESS.issuperset(unknown):
            raise ConfigError(
                f"{_NO_EVENT_FILTER}: event type {unknown[0]} not valid",
                code="CDC:ErrFilterRuleInvalid",
                hint="TiCDC cannot leave it out by its type either: ignore-sql can",
            )
        if unknown:
            unknown = [name for name in unknown if name not in _FILTERLESS]
            raise ConfigError(
                f"invalid ignore event type: '{unknown[0]}'",
                code="CDC:ErrInvalidIgnoreEventType",
                hint=f"write one of {', '.join(sorted(EVENTS))}",
            )
        for pattern in one.ignore_sql:
            check_time()
            try:
                parse_regexp(pattern)
            except ValueError as error:
                raise ConfigError(f"{_NO_EVENT_FILTER}: {error}", code="CDC:ErrFilterRuleInvalid") from None
        for _, _, text in _expressions(one):
            check_time()
            parse_condition(text)


def _expressions(one: EventFilter) -> Iterator[tuple[Op, str, str]]:
    """Yield the value expressions of a filter: operation, side of the row, text."""
    for op, side, text in (
        (Op.CREATE, "data", one.ignore_insert_value_expr),
        (Op.DELETE, "old", one.ignore_delete_value_expr),
        (Op.UPDATE, "data", one.ignore_update_new_value_expr),
        (Op.UPDATE, "old", one.ignore_update_old_value_expr),
    ):
        if text:
            yield op, side, text


@dataclass(frozen=True)
class RowFilter:
    """The rows of a table that are left out: those of some operations, and those of which a value expression is true.

    `expressions` have the operation, the side of the row and the text. `zone` is the time zone in which they see
    TIMESTAMP values. `minor` are sets of columns: an update that changes no others than those of one is left out.
    """

    schema: TableSchema
    operations: frozenset[str] = frozenset()
    expressions: tuple[tuple[Op, str, str], ...] = ()
    zone: str = "UTC"
    minor: tuple[frozenset[str], ...] = ()

    def kept(self, op: pa.Array, old: pa.StructArray, data: pa.StructArray, reason: pa.Array) -> np.ndarray:
        """Return a boolean per row; the columns are those of `tidecast.protocols.Rows`.

        Rows that could not be read stay. Raises ValueError where a number has no place in its type of MySQL.
        """
        unread, kept = valid(reason), np.ones(len(op), bool)
        if self.operations:
            kept = ~np.asarray(pc.is_in(op, pa.array([*self.operations], op.type)))
        if self.minor:
            kept &= ~self._are_minor(op, old, data)
        for of, side, text in self.expressions:
            at = np.flatnonzero(kept & ~unread & np.asarray(pc.equal(op, of.value)))
            rows = (data if side == "data" else old).take(pa.array(at))
            there = valid(rows)
            holds = condition_of(text, self.schema).holds(rows.filter(pa.array(there)), self.zone)
            kept[at[there][holds]] = False
        found: np.ndarray = kept | unread
        return found

    def _are_minor(self, op: pa.Array, old: pa.StructArray, data: pa.StructArray) -> np.ndarray:
        """Return which rows are updates of minor columns alone, as far as the row before is known."""
        updates = valid(old) & valid(data) & np.asarray(pc.equal(op, Op.UPDATE.value))
        found = np.zeros(len(op), bool)
        for columns in self.minor:
            only = updates.copy()
            for column in self.schema.columns:
                if column.name not in columns and not column.virtual:
                    only &= alike(field(old, column.name), field(data, column.name))
            found |= only
        return found


class EventFilters:
    """The event filters of a changefeed; those whose matcher matches a table all apply to it.

    `zone` is the time zone in which expressions see TIMESTAMP values: TiCDC's server zone. Where expressions are
    concerned, letter case always counts in matchers.
    """

    def __init__(self, filters: Iterable[EventFilter], zone: str = "UTC", *, case_sensitive: bool = False) -> None:
        self._zone, self._case_sensitive = zone, case_sensitive
        every = [(TableMatcher(f.matcher, case_sensitive=case_sensitive), f) for f in filters]
        self._filters = every
        self._exactly = (
            every if case_sensitive else [(TableMatcher(f.matcher, case_sensitive=True), f) for _, f in every]
        )

    def _of_ddl(self, ddl: Ddl) -> Sequence[EventFilter]:
        database, table = ddl.renamed_from or (ddl.database, ddl.table)
        return [
            f
            for matcher, f in self._filters
            if (matcher.matches(database, table) if table else matcher.matches_schema(database))
        ]

    def drops_ddl(self, ddl: Ddl) -> bool:
        """Tell whether a schema change is left out; its new schema counts all the same.

        A RENAME goes by the name before.
        """
        event = ddl_action(ddl.sql, ddl.type).event
        kinds = {event, "all ddl", *(["alter table"] if event in _ALTERS else [])}
        for one in self._of_ddl(ddl):
            if kinds & {_ALIASES.get(name, name) for name in one.ignore_event}:
                return True
            if any(parse_regexp(pattern, fold=True).search(ddl.sql) for pattern in one.ignore_sql):
                return True
        return False

    def of_rows(self, schema: TableSchema) -> RowFilter | None:
        """Return which rows of a table are left out, None where none are.

        Raises ConfigError for an expression that is not supported (`CDC:ErrInvalidFilterExpression`), or that names a
        column the table has not (`CDC:ErrExpressionColumnNotFound`).
        """
        self.check(schema)
        named = (schema.database, schema.table)
        names = {name for matcher, f in self._filters if matcher.matches(*named) for name in f.ignore_event}
        operations = frozenset(op for op, name in _ROW_EVENTS.items() if names & {name, "all dml"})
        expressions, minor = tuple(self._expressions_of(schema)), tuple(self._minor_of(schema))
        chosen = RowFilter(schema, operations, expressions, self._zone, minor)
        return chosen if operations or expressions or minor else None

    def check(self, schema: TableSchema) -> None:
        """Raise ConfigError for an expression that is not supported, or names a column the table has not."""
        for _, _, text in self._expressions_of(schema):
            condition_of(text, schema)

    def _minor_of(self, schema: TableSchema) -> Iterator[frozenset[str]]:
        """Yield the columns of each filter whose updates alone do not leave: none of a key, none that is missing."""
        spelled: Callable[[str], str] = str if self._case_sensitive else str.lower
        for matcher, one in self._filters:
            named = {spelled(name) for name in one.ignore_update_only_columns or ()}
            found = {c.name for c in schema.columns if not c.virtual and spelled(c.name) in named}
            if found and matcher.matches(schema.database, schema.table):
                yield frozenset(found - schema.unique_columns)

    def _expressions_of(self, schema: TableSchema) -> list[tuple[Op, str, str]]:
        named = (schema.database, schema.table)
        matching = (f for matcher, f in self._exactly if matcher.matches(*named))
        return [expression for one in matching for expression in _expressions(one)]


@contextmanager
def filter_errors() -> Iterator[None]:
    """Turn what Spark raises where a number of a value expression is out of MySQL's range into a ConfigError."""
    try:
        yield
    except Exception as error:
        found = None if isinstance(error, TidecastError) else OUT_OF_RANGE.search(str(error))
        if found is None:
            raise
        raise ConfigError(
            f"{found[1]} in a value expression of an event filter",
            code="CDC:ErrInvalidFilterExpression",
            hint="MySQL stops there, too: write it so that its numbers stay within 64 bits",
        ) from None
