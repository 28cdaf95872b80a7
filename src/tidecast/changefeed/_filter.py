"""Event filters: which events of a table are left out, by type, by SQL text, by the values of a row.

A value expression is MySQL's; it becomes one of Spark on the columns of the row. Source: TiCDC's event filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import sqlglot
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from tidecast._errors import ConfigError
from tidecast.changefeed._matcher import TableMatcher
from tidecast.changefeed._tables import EventFilter
from tidecast.model import Ddl, Kind, Op, TableChanges, TableSchema, ddl_action, shift_zone

_ROW_EVENTS = {Op.CREATE: "insert", Op.UPDATE: "update", Op.DELETE: "delete"}
_ALIASES = {"create database": "create schema", "drop database": "drop schema"}
_ALTERS = {
    "create index",
    "drop index",
    "rename index",
    "add primary key",
    "drop primary key",
    "alter index visibility",
    "add column",
    "drop column",
    "modify column",
    "set default value",
    "add table partition",
    "drop table partition",
    "truncate table partition",
    "exchange table partition",
    "reorganize table partition",
    "alter table partitioning",
    "remove table partitioning",
    "rebase auto id",
    "modify table comment",
    "modify table charset and collate",
    "alter ttl info",
    "alter ttl remove",
    "rename table",
    "multi schema change",
}
_DDL_EVENTS = _ALTERS | {
    "create schema",
    "drop schema",
    "create table",
    "drop table",
    "truncate table",
    "recover table",
    "create view",
    "drop view",
    "modify schema charset and collate",
}
EVENTS = frozenset({*_ROW_EVENTS.values(), "all dml", "all ddl", "alter table", *_DDL_EVENTS, *_ALIASES})
"""What `ignore-event` may name."""

_SEEN = "seen by a filter: "
_INVALID, _NO_COLUMN = "CDC:ErrInvalidFilterExpression", "CDC:ErrExpressionColumnNotFound"


def check_event_filters(filters: Iterable[EventFilter]) -> None:
    """Raise ConfigError for an event that there is none of, or a pattern of SQL text that is none.

    Value expressions are checked when a table's first row comes, as TiCDC does.
    """
    for one in filters:
        unknown = [name for name in one.ignore_event if name not in EVENTS]
        if unknown:
            raise ConfigError(
                f"invalid ignore event type: '{unknown[0]}'",
                code="CDC:ErrInvalidIgnoreEventType",
                hint=f"write one of {', '.join(sorted(EVENTS))}",
            )
        for pattern in one.ignore_sql:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(
                    f"filter rule is invalid {pattern!r}: {error}", code="CDC:ErrFilterRuleInvalid"
                ) from None


class EventFilters:
    """The event filters of a changefeed; those whose matcher matches a table all apply to it.

    `zone` is the time zone in which expressions see TIMESTAMP values: TiCDC's server zone.
    """

    def __init__(self, filters: Iterable[EventFilter], zone: str = "UTC", *, case_sensitive: bool = False) -> None:
        self._filters = [(TableMatcher(f.matcher, case_sensitive=case_sensitive), f) for f in filters]
        self._zone = zone

    def _of(self, database: str, table: str) -> Sequence[EventFilter]:
        return [f for matcher, f in self._filters if matcher.matches(database, table)]

    def drops_ddl(self, ddl: Ddl) -> bool:
        """Tell whether a schema change is left out; its new schema counts all the same."""
        event = ddl_action(ddl.sql).event
        kinds = {event, "all ddl", *(["alter table"] if event in _ALTERS else [])}
        for one in self._of(ddl.database, ddl.table):
            if kinds & {_ALIASES.get(name, name) for name in one.ignore_event}:
                return True
            if any(re.search(pattern, ddl.sql, re.I) for pattern in one.ignore_sql):
                return True
        return False

    def kept(self, changes: TableChanges) -> DataFrame:
        """Return the rows of a table's changes that no filter leaves out; rows that could not be read stay.

        Raises ConfigError for an expression that is none (`CDC:ErrInvalidFilterExpression`), or that names a column
        the table has not (`CDC:ErrExpressionColumnNotFound`).
        """
        frame, schema = changes.frame, changes.schema
        for one in self._of(schema.database, schema.table):
            names = set(one.ignore_event)
            ops = [op for op, name in _ROW_EVENTS.items() if names & {name, "all dml"}]
            if ops:
                frame = frame.where(F.col("reason").isNotNull() | ~F.col("op").isin(*ops))
            for op, side, text in (
                (Op.CREATE, "data", one.ignore_insert_value_expr),
                (Op.DELETE, "old", one.ignore_delete_value_expr),
                (Op.UPDATE, "data", one.ignore_update_new_value_expr),
                (Op.UPDATE, "old", one.ignore_update_old_value_expr),
            ):
                if text:
                    frame = self._without(frame, schema, op, side, text)
        return frame

    def _without(self, frame: DataFrame, schema: TableSchema, op: Op, side: str, text: str) -> DataFrame:
        """Return a frame without the rows of an operation for which MySQL takes an expression for true."""
        where = f"table {schema.name}"
        try:
            tree = sqlglot.parse_one(text, read="mysql")
        except sqlglot.ParseError as error:
            words = error.errors[0]["description"] if error.errors else "it is not SQL"
            raise ConfigError(f"invalid filter expression {text!r}: {words}", code=_INVALID, where=where) from None
        columns = {c.name.lower(): c for c in schema.columns if not c.virtual}
        values: dict[str, Column] = {}
        for node in list(tree.find_all(exp.Column)):
            column = columns.get(node.name.lower())
            if column is None:
                raise ConfigError(
                    f"cannot find column {node.name!r} of filter expression {text!r}", code=_NO_COLUMN, where=where
                )
            value = F.col(side)[column.name]
            shown = shift_zone(value, "UTC", self._zone) if column.data_type.kind is Kind.TIMESTAMP else value
            values[f"{_SEEN}{column.name}"] = shown
            node.replace(exp.column(f"{_SEEN}{column.name}", quoted=True))
        truth = f"op = '{op}' AND coalesce(try_cast(({tree.sql(dialect='spark')}) AS BOOLEAN), false)"
        try:
            return frame.withColumns(values).where(~F.expr(truth)).drop(*values)
        except (AnalysisException, ParseException) as error:
            words = str(error).splitlines()[0]
            raise ConfigError(f"invalid filter expression {text!r}: {words}", code=_INVALID, where=where) from None
