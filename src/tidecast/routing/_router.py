"""Dispatch: the topic of a table's rows, the partition of a row, and the columns that leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pydantic import TypeAdapter, ValidationError

from tidecast._errors import ConfigError
from tidecast.model import TableSchema
from tidecast.routing._matcher import ColumnMatcher, TableMatcher
from tidecast.routing._partitions import Partitions
from tidecast.routing._rules import ColumnSelector, Dispatcher, RoutingRules
from tidecast.routing._target import TableRoutes

_LONGEST_TOPIC = 249
_FOREIGN = re.compile(r"[^A-Za-z0-9._\-]")
_DOTS = {".": "_", "..": "__"}


class Router:
    """The dispatchers of a changefeed: the first one whose matcher matches a table rules over it.

    `routes` are the names of tables in messages. `zone` is the time zone in which TIMESTAMP values are hashed: TiCDC's
    server zone. `folder` gives the folder of a table version, by its name in messages, where a storage sink has such in
    place of topics.
    """

    def __init__(
        self, rules: RoutingRules, zone: str = "UTC", folder: Callable[[TableSchema], str] | None = None
    ) -> None:
        self._rules = rules
        self.routes = TableRoutes(rules.dispatchers, case_sensitive=rules.case_sensitive)
        self._zone = zone
        self._folder = folder

    def topic_for(self, schema: TableSchema) -> str:
        """Return the topic of a table. Source: Changefeed configuration, topics."""
        if self._folder:
            return self._folder(self.routes.schema(schema))
        rule = _rule(self._rules, schema).topic
        if not rule:
            return self._rules.default_topic
        names = {"{schema}": schema.database, "{table}": schema.table}
        # One pass over the rule, so that a table named `{table}` is not a placeholder itself.
        topic = re.sub(r"\{schema\}|\{table\}", lambda m: _FOREIGN.sub("_", names[m[0]]), rule)
        topic = topic[:_LONGEST_TOPIC]
        return _DOTS.get(topic, topic)

    def check_fixed_topics(self, schemas: Iterable[TableSchema]) -> None:
        """Refuse a second table in a topic of a fixed name, where the protocol allows only one table a topic.

        Versions of one table are one table, renamed ones, too. Raises ConfigError that names both tables.
        Source: Changefeed configuration, topics.
        """
        if not self._rules.one_table_per_topic:
            return
        firsts: dict[str, TableSchema] = {}
        for schema in schemas:
            topic = _rule(self._rules, schema).topic or self._rules.default_topic
            first = firsts.setdefault(topic, schema)
            if "{" not in topic and not _is_same_table(first, schema):
                raise ConfigError(
                    f"{first.name} and {schema.name} would share the topic {topic}, "
                    "but a topic of this protocol is for one table",
                    code="CDC:ErrKafkaTopicExprInvalid",
                    hint="give their dispatcher a topic with {schema} and {table}",
                )

    def check(self, schema: TableSchema) -> None:
        """Raise ConfigError (`CDC:ErrDispatcherFailed`) where a table's partition rule does not fit it."""
        rule = _rule(self._rules, schema)
        _PARTITION_COLUMNS.get(_partition_rule(rule), _no_columns)(schema, rule)

    def partitions(self, schema: TableSchema, count: int) -> Partitions:
        """Return how the rows of a table go to the partitions of its topic, of which there are `count`.

        Raises ConfigError (`CDC:ErrDispatcherFailed`) where the rule does not fit the table.
        """
        rule = _rule(self._rules, schema)
        kind, columns = _partition_rule(rule), None
        if kind != "ts":
            columns = tuple(map(schema.column, _PARTITION_COLUMNS.get(kind, _no_columns)(schema, rule)))
        return Partitions(count, f"{schema.database}{schema.table}", columns, self._zone)

    def partition_rule(self, schema: TableSchema) -> str:
        """Return the name of the rule by which a table's rows go to partitions, with what it is about."""
        rule = _rule(self._rules, schema)
        kind = _partition_rule(rule)
        about = rule.index if kind in ("index-value", "rowid") else ", ".join(rule.columns) if kind == "columns" else ""
        return f"{kind or 'table'}({about})" if about else kind or "table"

    def select_columns(self, schema: TableSchema) -> TableSchema:
        """Return the table with only the columns that the first column selector that matches it lets through.

        Raises ConfigError (`CDC:ErrColumnSelectorFailed`) where a column is dropped by which rows are dispatched, or
        of a table with a handle key neither the primary key nor a unique index stays whole. Source: Changefeed
        configuration, column selectors.
        """
        selected = _selected(self._rules.column_selectors, schema)
        if selected is None:
            return schema
        rule = _rule(self._rules, schema)
        needed = rule.columns if _partition_rule(rule) == "columns" else ()
        for column in schema.columns:
            if column.name in needed and column.name not in selected:
                why = "the filtered out column is used in the column dispatcher"
                raise _column_selector_failed(f"{why}, table: {schema.name}, column: {column.name}")
        if schema.handle_key and not any(i.unique and selected.issuperset(i.columns) for i in schema.indexes):
            why = "no primary key columns or unique key columns obtained after filter out"
            raise _column_selector_failed(f"{why}, table: {schema.name}")
        return schema.selecting(selected)


def column_selection(selectors: str) -> Callable[[TableSchema], TableSchema]:
    """Return what leaves of a table the columns that column selectors let through, for a reader of what they left.

    In: selectors as a list of JSON, with TiCDC's keys; nothing for none. Raises ConfigError where they are none.
    """
    if not selectors:
        return lambda schema: schema
    try:
        found = _SELECTORS.validate_json(selectors)
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False, include_input=False)
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"column-selectors {where}: {first['msg']}", where="source URI") from None
    for selector in found:
        TableMatcher(selector.matcher), ColumnMatcher(selector.columns)

    def select(schema: TableSchema) -> TableSchema:
        selected = _selected(found, schema)
        return schema if selected is None else schema.selecting(selected)

    return select


def _selected(selectors: Iterable[ColumnSelector], schema: TableSchema) -> frozenset[str] | None:
    """Return the columns that the first selector which matches a table lets through, None without one."""
    for selector in selectors:
        if TableMatcher(selector.matcher).matches(schema.database, schema.table):
            matcher = ColumnMatcher(selector.columns)
            return frozenset(c.name for c in schema.columns if matcher.matches(c.name))
    return None


_SELECTORS = TypeAdapter(tuple[ColumnSelector, ...])


def _column_selector_failed(why: str) -> ConfigError:
    return ConfigError(why, code="CDC:ErrColumnSelectorFailed", hint="let more columns through")


def _is_same_table(one: TableSchema, other: TableSchema) -> bool:
    return one.key[:2] == other.key[:2] or one.table_id == other.table_id != 0


def _rule(rules: RoutingRules, schema: TableSchema) -> Dispatcher:
    """Return the dispatcher that rules over a table."""
    found = (d for d in rules.dispatchers if TableMatcher(d.matcher).matches(schema.database, schema.table))
    return next(found, Dispatcher())


def _partition_rule(rule: Dispatcher) -> str:
    return (rule.partition or rule.dispatcher).lower()


def _no_columns(schema: TableSchema, rule: Dispatcher) -> tuple[str, ...]:
    return ()


def _index_columns(schema: TableSchema, rule: Dispatcher) -> tuple[str, ...]:
    if not rule.index:
        return schema.handle_key
    index = next((i for i in schema.indexes if i.name.lower() == rule.index.lower()), None)
    if index is None:
        raise _unfit(f"index not found when verify the table, table: {schema.name}, index: {rule.index}")
    if not (index.unique or index.primary):
        raise _unfit(f"index is not unique when verify the table, table: {schema.name}, index: {rule.index}")
    return index.columns


def _named_columns(schema: TableSchema, rule: Dispatcher) -> tuple[str, ...]:
    columns = {c.name.lower(): c for c in schema.columns}
    about = f"when dispatch event, table: {schema.table}, columns: [{' '.join(rule.columns)}]"
    found = []
    for name in map(str.lower, rule.columns):
        column = columns.get(name)
        if column is None:
            raise _unfit(f"columns not found {about}, column: {name}")
        if column.virtual:
            raise _unfit(f"found virtual generated columns {about} column: {name}")
        found.append(column.name)
    return tuple(found)


def _unfit(why: str) -> ConfigError:
    return ConfigError(why, code="CDC:ErrDispatcherFailed")


_PARTITION_COLUMNS: dict[str, Callable[[TableSchema, Dispatcher], tuple[str, ...]]] = {
    "index-value": _index_columns,
    "rowid": _index_columns,
    "columns": _named_columns,
}
