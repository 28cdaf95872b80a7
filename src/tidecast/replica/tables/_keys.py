"""Keys that the messages do not name: Canal-JSON of other makers, or Debezium without a message key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidecast._config_model import ConfigModel, Many
from tidecast._errors import ConfigError
from tidecast.model import Index, TableSchema
from tidecast.routing import TableMatcher


class KeyedTable(ConfigModel):
    """`[[tables]]`: the columns that identify a row of the tables that `matcher` matches.

    Source: Command line, replicate.
    """

    matcher: Many
    key: Many


class Keys:
    """The keys of a file; of those that match a table, the first counts.

    Raises ConfigError for a pattern that is none, and for a key without columns.
    """

    def __init__(self, tables: Iterable[KeyedTable] = ()) -> None:
        self._rules = [(TableMatcher(one.matcher), one.key) for one in tables]
        if any(not key for _, key in self._rules):
            raise ConfigError("[[tables]]: a key has no columns", hint='key = ["id"]')

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a version with the key that the file gives its table.

        Raises ConfigError if the table lacks a column of the key, or if the messages name another key.
        """
        key = next((key for tables, key in self._rules if tables.matches(schema.database, schema.table)), None)
        if key is None:
            return schema
        if lacking := [name for name in key if name not in {column.name for column in schema.columns}]:
            there = ", ".join(column.name for column in schema.columns)
            cause = f"[[tables]]: some messages of the table have no column {', '.join(lacking)}"
            hint = f"they have {there}, which is the key if they are deletes that show the handle key alone"
            raise ConfigError(cause, where=schema.name, hint=hint)
        named = schema.handle_key
        if named and set(named) != set(key):
            cause = f"[[tables]]: the key is ({', '.join(key)}), and the messages name ({', '.join(named)})"
            raise ConfigError(cause, where=schema.name, hint="leave the table out: the messages' key is used")
        return schema if named else replace(schema, indexes=(*schema.indexes, *Index.of_key(key)))
