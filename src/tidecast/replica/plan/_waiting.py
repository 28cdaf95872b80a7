"""Tables that the source has and no row of which has come: they are made empty, and wait for their first row.

A message about such a table may come again, and late: for each partition, after a restart, under a former name. So it
counts only if no statement shows that the table of that name ended since, carried out or not. While a table waits,
nothing in it can be lost, and it has the newest schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile

from tidecast.model import Bootstrap, Ddl, TableSchema
from tidecast.replica.plan._truncated import kind_of
from tidecast.replica.tables import Name
from tidecast.replica.targets import TableState, TargetTable

WAITING = "tidecast.waiting"
"""In a table that waits for its first row, the commit-ts of the schema that it has; empty when a row has come."""

_ENDING = ("DROP", "RENAME", "RECOVER", "FLASHBACK")


@dataclass(frozen=True)
class Told:
    """A message that shows a table: since when it has a schema; `creates` if it had no row then.

    `former` are the names that columns had before its statement, in pairs of the new one and the old one.
    """

    commit_ts: int
    schema: TableSchema
    creates: bool = False
    former: tuple[tuple[str, str], ...] = ()

    @classmethod
    def by(cls, said: Ddl | Bootstrap) -> Told | None:
        """Return what a message tells; None for one of a view, a temporary table, or of what moves or removes rows."""
        if isinstance(said, Bootstrap):
            return cls(said.schema.version, said.schema) if said.schema.columns else None
        schema, statement = said.schema, said.statement
        if schema is None or statement is None or not (schema.columns and schema.keys_known and said.commit_ts):
            return None
        if statement.subject not in ("TABLE", "INDEX") or "TEMPORARY" in statement.modifiers:
            return None
        if kind_of(said) or ends(said):
            return None
        return cls(said.commit_ts, schema, creates(said), tuple(statement.former_names.items()))


def creates(change: Ddl) -> bool:
    """Tell whether a statement creates a table, which has no row then."""
    statement = change.statement
    return statement is not None and (statement.verb, statement.subject) == ("CREATE", "TABLE")


def ends(change: Ddl) -> bool:
    """Tell whether after a statement a table of its name is not there, or may have rows that no message shows.

    One that cannot be read may be such a statement.
    """
    statement = change.statement
    if statement is None:
        return True
    if statement.subject not in ("TABLE", "DATABASE"):
        return False
    return statement.verb in _ENDING or statement.renamed is not None or statement.exchanged is not None


@dataclass
class Ends:
    """When tables ended, by their names now; a name without a table is of a whole database at the source."""

    _last: dict[Name, int] = field(default_factory=dict)

    def add(self, name: Name, commit_ts: int) -> None:
        """Take an end. Upper and lower case do not count."""
        database, table = name
        name = database.lower(), table.lower()
        self._last[name] = max(commit_ts, self._last.get(name, 0))

    def of(self, name: Name, sources: Iterable[str]) -> int:
        """Return when the table of a name, into which those of the source come, ended last; 0 for never."""
        names = [one.lower() for one in (".".join(name), *sources)]
        return max(
            (
                commit_ts
                for (database, table), commit_ts in self._last.items()
                if (database, table) == (name[0].lower(), name[1].lower())
                or (not table and any(one.startswith(f"{database}.") for one in names))
            ),
            default=0,
        )


def waiting_since(place: TargetTable, there: TableState | None) -> int | None:
    """Return since when a table that is there has the schema with which it waits for a row; None for one that has any.

    Somebody else may have filled it.
    """
    since = there.notes.get(WAITING) if there else None
    return int(since) if since and place.read().isEmpty() else None


def told_since(told: Sequence[Told], ended: int, since: int | None) -> list[Told]:
    """Return the messages, in order, about a table that does not exist, or waits `since` then.

    After an end only a table's creation tells that it is there again.
    """
    begin = max(ended, since or 0)
    later = sorted((one for one in told if one.commit_ts > begin), key=lambda one: one.commit_ts)
    return later if not ended or begin > ended else list(dropwhile(lambda one: not one.creates, later))
