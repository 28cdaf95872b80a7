"""Tables that get another name, or become one: shards of a table, renamed databases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidecast._config_model import ConfigModel, Many
from tidecast.model import TableSchema
from tidecast.routing import TableMatcher, check_target, target_name

Name = tuple[str, str]
"""A table's database and its name."""


class Route(ConfigModel):
    """`[[route]]`: the database and the table that the tables which `matcher` matches become.

    `{schema}` and `{table}` stand for the source's names, and nothing at all for the same name.
    Source: Command line, replicate.
    """

    matcher: Many
    target_schema: str = ""
    target_table: str = ""


class Routes:
    """The routes of a file; of those that match a table, the first counts.

    Raises ConfigError for a pattern or a target that is none.
    """

    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self._rules = [(TableMatcher(route.matcher), route) for route in routes]
        for _, route in self._rules:
            check_target("target-schema", route.target_schema)
            check_target("target-table", route.target_table)

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a version under the names of its target."""
        database, table = self.name(schema.database, schema.table)
        return replace(schema, database=database, table=table)

    def name(self, database: str, table: str) -> tuple[str, str]:
        """Return the database and the table that a table becomes."""
        place = database, table
        route = next((route for tables, route in self._rules if tables.matches(*place)), None)
        if route is None:
            return place
        parts = route.target_schema or "{schema}", route.target_table or "{table}"
        return target_name(parts[0], *place), target_name(parts[1], *place)
