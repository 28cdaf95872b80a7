"""The tables that a source has now, by its rows, repeated schemas and schema changes; kept over restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from tidecast._errors import TerminalError
from tidecast.model import Ddl, Events, SchemaHistory, TableSchema, ddl_action
from tidecast.storage import AnyPath, StateFile

_FILE = "tables.json"
_KNOWN = TypeAdapter(list[TableSchema])


class SourceTables:
    """The newest schema of every table that is there, views among them.

    `folder` keeps them; where it has none yet, `history` tells what there was, if not what has gone since.
    """

    def __init__(self, folder: AnyPath, history: SchemaHistory) -> None:
        self._file = StateFile(folder / _FILE)
        self._versions = {schema.key for schema in history}
        self._known: dict[tuple[str, str], TableSchema] = {}
        for schema in self._kept() or history.newest():
            self._add(schema)

    def __call__(self) -> Sequence[TableSchema]:
        return list(self._known.values())

    def take(self, events: Events) -> None:
        """Take what a batch tells; the same batch may come again."""
        for changes in events.tables:
            self._add(changes.schema)
        if events.history:
            for schema in events.history.newest():  # also those that are repeated, without row or change
                if schema.key not in self._versions:
                    self._add(schema)
            self._versions = {schema.key for schema in events.history}
        for change in events.ddl:
            self._change(change)
        self._file.write(_KNOWN.dump_json(list(self._known.values())))

    def _kept(self) -> Sequence[TableSchema]:
        try:
            return _KNOWN.validate_json(self._file.read() or b"[]")
        except ValidationError as error:
            raise TerminalError(
                f"this is no list of tables: {error.errors()[0]['msg']}",
                where=str(self._file.path),
                hint="remove its folder to read the source from its start",
            ) from None

    def _add(self, schema: TableSchema, before: TableSchema | None = None) -> None:
        """Take a schema, with the keys that the table had before where it does not show them."""
        name = (schema.database, schema.table)
        self._known[name] = schema.keyed_like(before or self._known.get(name))

    def _change(self, change: Ddl) -> None:
        name = (change.database, change.table)
        match ddl_action(change.sql).event:
            case "drop schema":
                self._known = {name: s for name, s in self._known.items() if name[0] != change.database}
            case "drop table" | "drop view":
                self._known.pop(name, None)
            case _:
                before = self._known.pop(change.renamed_from, None) if change.renamed_from else None
                schema = change.schema or self._known.get(name) or before
                if schema:
                    self._add(replace(schema, database=name[0], table=name[1], view=change.is_view), before)
