"""Schema changes and repeated schemas, as events of a source."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidecast.model._actions import ddl_action
from tidecast.model._schema import TableSchema

_NAME = r"`((?:[^`]|``)+)`"
_OF_DATABASE = re.compile(rf"(?:CREATE|ALTER|DROP) (?:DATABASE|SCHEMA) (?:IF (?:NOT )?EXISTS )?{_NAME}", re.I)
_RENAME = re.compile(rf"RENAME TABLE {_NAME}\.{_NAME} TO ", re.I)


def _unquoted(name: str) -> str:
    return name.replace("``", "`")


@dataclass(frozen=True)
class Ddl:
    """A schema change: TiCDC's type (`CREATE`, `ALTER` …), its SQL, and the table before and after.

    `position` is where it stands among the rows, see `Events.position`.
    """

    type: str
    sql: str
    commit_ts: int
    schema: TableSchema | None = None
    before: TableSchema | None = None
    position: int | None = None

    @property
    def database(self) -> str:
        """The database that it is about: the table's, else the one that its SQL names."""
        if self.schema:
            return self.schema.database
        found = _OF_DATABASE.match(self.sql)
        return _unquoted(found[1]) if found else ""

    @property
    def table(self) -> str:
        """The table that it is about, by its name afterwards; empty where it is about a database."""
        return self.schema.table if self.schema else ""

    @property
    def renamed_from(self) -> tuple[str, str] | None:
        """Database and table before a RENAME, None for other types."""
        found = _RENAME.match(self.sql) if self.type == "RENAME" else None
        return (_unquoted(found[1]), _unquoted(found[2])) if found else None

    @property
    def is_view(self) -> bool:
        """Whether it is about a view."""
        return ddl_action(self.sql).event in ("create view", "drop view")


@dataclass(frozen=True)
class Bootstrap:
    """A table's schema as the source repeated it, for readers that start there; `position` as in `Ddl`."""

    schema: TableSchema
    position: int | None = None
