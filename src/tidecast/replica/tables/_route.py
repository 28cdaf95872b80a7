"""Tables that get another name, or become one: shards of a table, renamed databases."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tidecast._config_model import ConfigModel, Many
from tidecast.model import TableSchema
from tidecast.routing import TableMatcher, check_target, target_name, target_pattern

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
        self._rules = list[tuple[TableMatcher, Name]]()
        for route in routes:
            check_target("target-schema", route.target_schema)
            check_target("target-table", route.target_table)
            target = route.target_schema or "{schema}", route.target_table or "{table}"
            self._rules.append((TableMatcher(route.matcher), target))

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a version under the names of its target."""
        database, table = self.name(schema.database, schema.table)
        return replace(schema, database=database, table=table)

    def name(self, database: str, table: str) -> tuple[str, str]:
        """Return the database and the table that a table becomes."""
        place = database, table
        target = next((target for tables, target in self._rules if tables.matches(*place)), None)
        return (target_name(target[0], *place), target_name(target[1], *place)) if target else place

    def may_merge(self, name: Name) -> bool:
        """Tell whether several tables of the source may become the one of a name, also some that have not come yet."""
        ways = [source for tables, target in self._rules if (source := _source(tables, target, name))]
        return len({*ways}) > 1 or any(None in source for source in ways)


def _source(tables: TableMatcher, target: Name, name: Name) -> tuple[str | None, str | None] | None:
    """Return the table that a rule makes one of a name of, with None for a part that may be any; None for no table."""
    known, shown = dict(zip(("schema", "table"), tables.only, strict=True)), "\0".join(target)
    found = re.fullmatch(target_pattern(shown, *tables.only), "\0".join(name), re.S | re.I)
    if found is None:
        return None
    schema, table = ((known[part] or found.groupdict().get(part)) for part in ("schema", "table"))
    return schema and schema.lower(), table and table.lower()
