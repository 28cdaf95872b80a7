"""Schema changes and repeated schemas, as events of a source."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidecast.model._ddl_parser import Name, Statement, read_statement
from tidecast.model._schema import TableSchema


@dataclass(frozen=True)
class Ddl:
    """A schema change: TiCDC's type (`CREATE`, `ALTER` …), its SQL, and the table before and after.

    `position` is where it stands among the rows, see `Events.position`. `named` are the database and the table where no
    schema tells them, as a message names them beside its SQL, or what they become. `estimated` says that its message
    has no commit-ts, and that `commit_ts` was made of another time.
    """

    type: str
    sql: str
    commit_ts: int
    schema: TableSchema | None = None
    before: TableSchema | None = None
    position: int | None = None
    named: tuple[str, str] | None = None
    estimated: bool = False

    @property
    def has_commit_ts(self) -> bool:
        """Tell whether its message has a commit-ts. 0 is none: it stands where a message needs a number."""
        return self.commit_ts > 0 and not self.estimated

    @property
    def statement(self) -> Statement | None:
        """Return its parsed SQL, None if that cannot be read."""
        return read_statement(self.sql)

    @property
    def exchanged(self) -> Name | None:
        """The table that a partition is exchanged with, None for other statements."""
        return self.statement.exchanged if self.statement else None

    @property
    def database(self) -> str:
        """The database that it is about: the table's, else the one that is named."""
        return self.schema.database if self.schema else self._named[0]

    @property
    def table(self) -> str:
        """The table that it is about, by its name afterwards; empty where it is about a database."""
        return self.schema.table if self.schema else self._named[1]

    @property
    def _named(self) -> tuple[str, str]:
        """Database and table as the message or its SQL names them afterwards, each empty where it does not.

        A message names the other table of an exchange; see `shown_as`.
        """
        if self.named and not self.exchanged:
            return self.named
        statement, (named, _) = self.statement, self.named or ("", "")
        if statement is None:
            return "", ""
        database, table = statement.renamed or statement.name
        return database or statement.name[0] or named, table

    @property
    def renamed_from(self) -> tuple[str, str] | None:
        """Database and table before a RENAME, None for other types."""
        if self.type == "RENAME" and self.before:
            return self.before.database, self.before.table
        statement = self.statement if self.type == "RENAME" else None
        was = statement.renamed_from(self.database) if statement else None
        return was if was and was[0] else None

    @property
    def shown_as(self) -> tuple[str, str]:
        """Database and table that a message names it by: of EXCHANGE PARTITION the table without partitions."""
        database, table = self.exchanged or (self.database, self.table)
        return database or self.database, table

    @property
    def typed_alike(self) -> Ddl:
        """The same with the type that most protocols give it: Canal-JSON and old Simple call an exchange QUERY."""
        return replace(self, type="ALTER") if self.exchanged else self

    @property
    def is_view(self) -> bool:
        """Tell whether it is about a view."""
        return self.statement is not None and self.statement.subject == "VIEW"


@dataclass(frozen=True)
class Bootstrap:
    """A table's schema as the source repeated it, for readers that start there; `position` as in `Ddl`."""

    schema: TableSchema
    position: int | None = None
