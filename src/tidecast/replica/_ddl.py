"""Schema changes of whole tables and partitions: which are carried out, which are not, and which stop a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidecast._errors import TableRefused
from tidecast._policy import OnDdl
from tidecast.model import Ddl, Reason
from tidecast.replica._plan import Plan
from tidecast.replica._truncated import kind_of

Name = tuple[str, str]

_VERBS = ("DROP", "TRUNCATE", "RENAME", "RECOVER", "FLASHBACK")
_STATEMENTS = {(verb, subject) for verb in _VERBS for subject in ("TABLE", "DATABASE")}
_CLAUSES = {("RENAME",), ("DROP", "PARTITION"), ("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION")}


def moves_rows(change: Ddl) -> bool:
    """Tell whether a schema change moves or removes rows without a row change for each of them.

    One whose SQL cannot be read may be such a change.
    """
    statement = change.statement
    if statement is None:
        return True
    if (statement.verb, statement.subject) == ("ALTER", "TABLE"):
        return not _CLAUSES.isdisjoint(statement.actions)
    return (statement.verb, statement.subject) in _STATEMENTS


def carries_out(change: Ddl, on_ddl: OnDdl) -> bool:
    """Tell whether a schema change that removes all rows of a table shall be carried out."""
    return on_ddl in (OnDdl.EVOLVE, OnDdl.TRY_EVOLVE) and kind_of(change) is not None


def why_not_carried_out(change: Ddl, plans: Mapping[Name, Plan], on_ddl: OnDdl) -> str | None:
    """Return why a schema change that moves or removes rows is not carried out, None where it is."""
    if kind_of(change) is None:
        return "what moves or removes rows without a row change is not carried out"
    if not carries_out(change, on_ddl):
        return f"not carried out, as --ddl is {on_ddl}"
    plan = plans.get((change.database, change.table))
    return plan.truncated.objection if plan else None


def not_carried_out(changes: Iterable[Ddl], plans: Mapping[Name, Plan], on_ddl: OnDdl) -> tuple[str, ...]:
    """Return a warning for each schema change that moves or removes rows, and is not carried out on the tables."""
    why = {c.sql: why_not_carried_out(c, plans, on_ddl) for c in changes if moves_rows(c)}
    return tuple(f"not carried out on the tables: {sql} ({cause})" for sql, cause in why.items() if cause)


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
    if stopping := not_carried_out(changes, plans, on_ddl):
        raise TableRefused(stopping[0], hint=hint)
