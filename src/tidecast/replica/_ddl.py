"""Schema changes that row changes do not show: tables and partitions that are emptied, dropped or renamed."""

from __future__ import annotations

from collections.abc import Iterable

from tidecast.model import Ddl

_STATEMENTS = {(verb, subject) for verb in ("DROP", "TRUNCATE", "RENAME") for subject in ("TABLE", "DATABASE")}
_CLAUSES = {("RENAME",), ("DROP", "PARTITION"), ("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION")}


def not_carried_out(changes: Iterable[Ddl]) -> tuple[str, ...]:
    """Return a warning for each schema change that moves or removes rows without a row change for each of them.

    One whose SQL cannot be read may be such a change.
    """
    return tuple(f"not carried out on the tables: {change.sql}" for change in changes if _moves_rows(change))


def _moves_rows(change: Ddl) -> bool:
    statement = change.statement
    if statement is None:
        return True
    if (statement.verb, statement.subject) == ("ALTER", "TABLE"):
        return not _CLAUSES.isdisjoint(statement.actions)
    return (statement.verb, statement.subject) in _STATEMENTS
