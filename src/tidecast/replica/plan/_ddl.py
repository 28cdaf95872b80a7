"""Schema changes of whole tables and partitions: which are carried out, which are not, and which stop a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidecast._errors import TableRefused
from tidecast._policy import DdlKind, DdlPolicy, OnDdl
from tidecast.model import Ddl, Reason
from tidecast.replica.plan._plan import Plan
from tidecast.replica.plan._truncated import kind_of, removes_rows
from tidecast.replica.tables import Name

_VERBS = ("DROP", "TRUNCATE", "RENAME", "RECOVER", "FLASHBACK")
_STATEMENTS = {(verb, subject) for verb in _VERBS for subject in ("TABLE", "DATABASE")}
Refused = Mapping[tuple[int, str], str]
"""The causes of renames that were refused, by their commit-ts and SQL."""

_NONE: Refused = {}
_APART = (
    "the table of the new name lacks the rows of before, and later rows that an earlier batch brought are in the table "
    "that had their name"
)
"""What may be wrong with tables after a rename that is not carried out."""
_STOPS = (OnDdl.EXCEPTION, OnDdl.EVOLVE)
# FIRST PARTITION LESS THAN drops the partitions below a value.
_CLAUSES = {("RENAME",), *((verb, "PARTITION") for verb in ("DROP", "FIRST", "TRUNCATE", "EXCHANGE"))}


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


def carries_out(change: Ddl, on_ddl: DdlPolicy) -> bool:
    """Tell whether the policy carries out a schema change that removes all rows of a table, or renames it."""
    return kind_of(change) is not None and on_ddl.carries_out(kind_of(change))


def why_not_carried_out(
    change: Ddl, name: Name, plans: Mapping[Name, Plan], on_ddl: DdlPolicy, refused: Refused
) -> str | None:
    """Return why a schema change that moves or removes rows is not carried out, None where it is.

    `name` is what its table is called now.
    """
    if kind_of(change) is None:
        return "what moves or removes rows without a row change is not carried out"
    if not carries_out(change, on_ddl):
        left = "" if removes_rows(change) else f"; {_APART}"
        return f"not carried out, as {on_ddl.told(kind_of(change))}{left}"
    if not name[0]:
        return "its message does not tell the table's database"
    if not removes_rows(change):
        return refused.get((change.commit_ts, change.sql))
    plan = plans.get(name)
    return plan.truncated.objection if plan else None


def not_carried_out(
    changes: Iterable[Ddl], plans: Mapping[Name, Plan], on_ddl: DdlPolicy, refused: Refused = _NONE
) -> tuple[str, ...]:
    """Return a warning for each schema change that moves or removes rows, and is not carried out on the tables."""
    why = {
        c.sql: why_not_carried_out(c, (c.database, c.table), plans, on_ddl, refused) for c in changes if moves_rows(c)
    }
    return tuple(f"not carried out on the tables: {sql} ({cause})" for sql, cause in why.items() if cause)


def stop_at_schema_changes(
    changes: Iterable[Ddl], plans: Mapping[Name, Plan], on_ddl: DdlPolicy, refused: Refused
) -> None:
    """Raise TableRefused for a schema change that stops the run: one of a kind that does, or that no table follows."""
    hint = "{}; with {} the run goes on"
    for name, plan in plans.items():
        causes = [*plan.evolution.refused.values(), *([plan.evolution.clash] if plan.evolution.clash else [])]
        causes += [cause for _, reason, cause in plan.rows.refused if reason is Reason.SCHEMA_CHANGE]
        stops = on_ddl.default in _STOPS
        said: list[tuple[DdlKind | None, str]] = [(None, cause) for cause in causes if stops]
        said += [(kind, what) for kind, what in plan.evolution.news if on_ddl.of(kind) is OnDdl.EXCEPTION]
        if (
            plan.present is None
            and (plan.rows.accepted or plan.makes)
            and on_ddl.of(DdlKind.CREATE_TABLE) is OnDdl.EXCEPTION
        ):
            said.append((DdlKind.CREATE_TABLE, "it is new"))
        for kind, what in said:
            told = hint.format(on_ddl.told(kind), OnDdl.LENIENT)
            raise TableRefused(f"its schema changed: {what}", where=".".join(name), hint=told)
    for change in changes:
        kind = kind_of(change)
        if on_ddl.of(kind) in _STOPS and (stopping := not_carried_out([change], plans, on_ddl, refused)):
            raise TableRefused(stopping[0], hint=hint.format(on_ddl.told(kind), OnDdl.LENIENT))
