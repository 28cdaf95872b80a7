"""Schema changes that stop a run, and those that are not carried out: tables and partitions that are emptied, dropped
or renamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidecast._errors import TableRefused
from tidecast._policy import OnDdl
from tidecast.model import Ddl, Reason
from tidecast.replica._plan import Plan

Name = tuple[str, str]

_STATEMENTS = {(verb, subject) for verb in ("DROP", "TRUNCATE", "RENAME") for subject in ("TABLE", "DATABASE")}
_CLAUSES = {("RENAME",), ("DROP", "PARTITION"), ("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION")}


def not_carried_out(changes: Iterable[Ddl]) -> tuple[str, ...]:
    """Return a warning for each schema change that moves or removes rows without a row change for each of them.

    One whose SQL cannot be read may be such a change.
    """
    return tuple(f"not carried out on the tables: {change.sql}" for change in changes if moves_rows(change))


def moves_rows(change: Ddl) -> bool:
    """Tell whether a schema change moves or removes rows without a row change for each of them."""
    statement = change.statement
    if statement is None:
        return True
    if (statement.verb, statement.subject) == ("ALTER", "TABLE"):
        return not _CLAUSES.isdisjoint(statement.actions)
    return (statement.verb, statement.subject) in _STATEMENTS


def stop_at_schema_changes(changes: Iterable[Ddl], plans: Mapping[Name, Plan], on_ddl: OnDdl) -> None:
    """Raise TableRefused for a schema change that stops the run: any, or one that the tables cannot follow."""
    if on_ddl not in (OnDdl.EXCEPTION, OnDdl.EVOLVE):
        return
    hint = f"--ddl is {on_ddl}; with {OnDdl.LENIENT} the run goes on"
    for name, plan in plans.items():
        said = [*plan.evolution.refused.values(), *([plan.evolution.clash] if plan.evolution.clash else [])]
        said += [cause for _, reason, cause in plan.refused if reason is Reason.SCHEMA_CHANGE]
        if on_ddl is OnDdl.EXCEPTION:
            said += plan.evolution.news
        if said:
            raise TableRefused(f"its schema changed: {said[0]}", where=".".join(name), hint=hint)
    if stopping := not_carried_out(changes):
        raise TableRefused(stopping[0], hint=hint)
