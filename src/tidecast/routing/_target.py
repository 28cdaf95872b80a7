"""Table routes: the names that tables have in messages. Source: Changefeed configuration, table routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tidecast._errors import ConfigError, TerminalError
from tidecast.model import Ddl, TableSchema, renamed_tables
from tidecast.routing._matcher import TableMatcher
from tidecast.routing._rules import Dispatcher

_EXPRESSION = re.compile(r"([^{}]|\{schema\}|\{table\})*")
_PLACEHOLDER = re.compile(r"\{(schema|table)\}")

Name = tuple[str, str]
"""Database and table."""


def check_target(option: str, expression: str) -> None:
    """Raise ConfigError (`CDC:ErrInvalidTableRoutingRule`) for an option whose expression is none."""
    if not _EXPRESSION.fullmatch(expression):
        raise ConfigError(
            f'invalid table routing rule: {option} "{expression}" must contain only literal text, {{schema}}, and '
            "{table}",
            code="CDC:ErrInvalidTableRoutingRule",
        )


def target_name(expression: str, schema: str, table: str) -> str:
    """Return the name that an expression makes of a table's."""
    names = {"schema": schema, "table": table}
    return _PLACEHOLDER.sub(lambda found: names[found[1]], expression)


def target_pattern(expression: str, schema: str | None, table: str | None) -> str:
    """Return a regular expression of the names that an expression makes.

    None stands for a name that may be any, which is a group of the expression.
    """
    names = {"schema": schema, "table": table}
    pattern, shown = "", set[str]()
    for n, piece in enumerate(_PLACEHOLDER.split(expression)):
        text = names[piece] if n % 2 else piece
        if text is not None:
            pattern += re.escape(text)
        else:
            pattern += f"(?P={piece})" if piece in shown else f"(?P<{piece}>.*)"
            shown.add(piece)
    return pattern


class TableRoutes:
    """The dispatchers that give tables other names, of which the first that matches a table counts.

    They go by the source's names, as everything does that chooses rows, topics and partitions.
    """

    def __init__(self, dispatchers: Iterable[Dispatcher] = (), *, case_sensitive: bool = False) -> None:
        self._rules = [
            (TableMatcher(d.matcher, case_sensitive=case_sensitive), d.target_schema or "{schema}", d.target_table)
            for d in dispatchers
            if d.target_schema or d.target_table
        ]

    def __bool__(self) -> bool:
        """Tell whether there is a route."""
        return bool(self._rules)

    def name(self, database: str, table: str) -> Name:
        """Return database and name of a table in messages."""
        for matcher, target_schema, target_table in self._rules:
            if matcher.matches(database, table):
                parts = target_schema, target_table or "{table}"
                return target_name(parts[0], database, table), target_name(parts[1], database, table)
        return database, table

    def conflict(self, owners: dict[Name, Name], table: Name) -> TerminalError | None:
        """Return the error for a table that gets a name in messages which another one has, else None.

        `owners` are the tables by their names in messages; it becomes one of them.
        """
        target = self.name(*table)
        owner = owners.setdefault(target, table)
        if owner == table:
            return None
        name, first, second = (f"`{database}`.`{of}`" for database, of in (target, owner, table))
        return TerminalError(
            f"table route conflict: target {name} is mapped by both source {first} and source {second}",
            code="CDC:ErrTableRouteConflict",
            hint="give each a target-table of its own, such as {schema}_{table}, or filter one out",
        )

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a table version under the name that it has in messages."""
        database, table = self.name(schema.database, schema.table)
        return replace(schema, database=database, table=table) if (database, table) != schema.key[:2] else schema

    def ddl(self, ddl: Ddl) -> Ddl:
        """Return a schema change that speaks of tables by their names in messages.

        Raises TerminalError (`CDC:ErrTableRoutingFailed`) for SQL in which no names can be found, and for a
        statement about a database whose tables go to several.
        """
        if not self._rules:
            return ddl
        known = {v.name.lower(): v.key[:2] for v in (ddl.before, ddl.schema) if v}

        def name(database: str, table: str) -> tuple[str, str]:
            """Return a table's name in messages, in the letter case of its schema where the SQL has another."""
            own = known.get(f"{database}.{table}".lower(), (database, table))
            return (database, table) if self.name(*own) == own else self.name(*own)

        database = (ddl.renamed_from or (ddl.database, ""))[0]
        sql = renamed_tables(ddl.sql, database, name, lambda name: self._database(name, ddl))
        if sql is None:
            hint = "let an event filter keep it back: ignore-sql under [[filter.event-filters]]"
            raise _failed(f"no names of tables can be read in {ddl.sql!r}", ddl, hint)
        named = ddl.named
        if named:
            named = self.name(*named) if named[1] else (self._database(named[0], ddl), "")
        schema, before = (version and self.schema(version) for version in (ddl.schema, ddl.before))
        return replace(ddl, sql=sql, schema=schema, before=before, named=named)

    def _database(self, name: str, ddl: Ddl) -> str:
        """Return what a database is called in messages, as a statement about all of it must know."""
        found = [target for matcher, target, _ in self._rules if matcher.matches_schema(name)]
        names = {target_name(target, name, "") for target in found} or {name}
        if len(names) > 1 or any("{table}" in target for target in found):
            hint = "give all tables of the database one target-schema, or filter the statement out"
            raise _failed(f"the tables of database {name} go to several databases", ddl, hint)
        return names.pop()


def _failed(why: str, ddl: Ddl, hint: str) -> TerminalError:
    where = f"schema change of commit-ts {ddl.commit_ts}"
    return TerminalError(f"table routing failed: {why}", code="CDC:ErrTableRoutingFailed", where=where, hint=hint)
