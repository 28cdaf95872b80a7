"""Plan: what a batch means for each of its tables, of which nothing has been touched yet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.errors import PySparkException
from pyspark.sql import types as T

from tidecast._errors import TableRefused
from tidecast._policy import DdlKind, OnDdl
from tidecast.model import Ddl
from tidecast.replica._run import Run
from tidecast.replica._settling import Part, Settled
from tidecast.replica.apply import placed
from tidecast.replica.plan import (
    SINCE,
    UNTIMED,
    Ends,
    Plan,
    Rename,
    Rules,
    Truncations,
    carries_out,
    ends,
    has_several_sources,
    kind_of,
    plan,
    refusing,
    removes_rows,
    truncations,
)
from tidecast.replica.tables import Name, Routes
from tidecast.replica.targets import TableState, TargetTable

_UNMADE = "it is not made without a row: {}"

_OF_A_TABLE = (
    "22",
    "42601",
    "42602",
    "42622",
    "42701",
    "42702",
    "42703",
    "42704",
    "42710",
    "42711",
    "42846",
    "42K05",
    "42K09",
)
"""SQL's states that tell of a table's names, types or values; others tell of the session, the catalog, the storage."""

_VIOLATED = re.compile(r"\[DELTA_(VIOLATE_CONSTRAINT_WITH_VALUES|NOT_NULL_CONSTRAINT_VIOLATED)\] .*")
"""Delta's errors at rows that a constraint of the table forbids; Spark gives them no state."""


@dataclass(frozen=True)
class Planned:
    """The plan of one table's part, None where nothing is to be done; `failure` is why the table cannot be used."""

    part: Part
    plan: Plan | None = None
    failure: str | None = None

    @property
    def unmade(self) -> str | None:
        """A warning of a table that is not made without a row, as it should have been."""
        if self.plan is not None or self.failure is None:
            return None
        return f"{'.'.join(self.part.name)}: {unmade(self.failure)}"


@dataclass(frozen=True)
class Planner:
    """Plans the parts of one batch."""

    run: Run
    settled: Settled

    def plan(self, part: Part) -> Planned:
        """Return what a part means for its table: for one that cannot be used, that its messages are dead letters.

        Raises TableRefused where that stops the run.
        """
        run, needed = self.run, bool(part.changes)
        try:
            # In a dry run no table has followed its rename.
            name = self.settled.name_before(part.name) if run.dry else part.name
            place = run.table(name, make_database=bool(part.changes))
            drops = any(kind_of(c) is DdlKind.DROP_TABLE and carries_out(c, run.options.on_ddl) for c in part.ddl)
            needed |= drops or (bool(part.ddl) and place.exists())
            if not (needed or part.told):
                return Planned(part)
            found = self._plan(part, place)
            return Planned(part, found if needed or found.makes or found.waited else None)
        except Exception as error:
            cause = cause_of(error)
            if part.changes:
                return Planned(part, refusing(part.changes, cause), cause)
            if needed or run.options.on_ddl.default is OnDdl.EVOLVE:
                raise TableRefused(cause, where=".".join(part.name)) from error
            return Planned(part, None, cause)

    def allowed(self, planned: Planned) -> Planned:
        """Return the plan; if no table may be created, a plan that refuses the rows of a new one."""
        found, on_ddl = planned.plan, self.run.options.on_ddl
        if found is None or found.present is not None or not found.rows.accepted:
            return planned
        if on_ddl.of(DdlKind.CREATE_TABLE) is not OnDdl.IGNORE:
            return planned
        refused = refusing(planned.part.changes, f"a new table, and {on_ddl.told(DdlKind.CREATE_TABLE)}")
        # A table that was dropped before goes even so.
        return replace(planned, plan=replace(refused, facts=found.facts))

    def _plan(self, part: Part, place: TargetTable) -> Plan:
        run, options, renaming, name = self.run, self.run.options, self.settled.renaming, part.name
        since = renaming.since.get(name)
        return plan(
            place,
            part.changes,
            part.ddl,
            Rules(options.contents, self.settled.events.versions_by_time, options.policy, options.on_ddl, run.batch),
            origin=self.settled.ready.origin(name, renaming.former(name)),
            truncated=lambda there, waits: self._truncated(part, place, there, waits=waits),
            told=part.told,
            ended=lambda: self._ended(name),
            born={SINCE: str(since)} if since else None,
        )

    def _truncated(self, part: Part, place: TargetTable, there: TableState | None, *, waits: bool) -> Truncations:
        """Return when a table was truncated, by its notes and this batch. One that `waits` has no row."""
        run, renaming, name = self.run, self.settled.renaming, part.name
        has_rows = there is not None and not waits
        noted = there.notes if there and has_rows else None
        if noted is not None:
            known = Truncations.from_notes(noted)
        else:
            known = run.before.truncations(name, renaming.now, run.options.contents)
        if not has_rows and (until := renaming.free.get(name)):
            known = replace(known, dropped=max(known.dropped, until))
        removing = [change for change in part.ddl if removes_rows(change) and carries_out(change, run.options.on_ddl)]
        found = truncations(removing, known, run.options.contents, present=has_rows)
        if found == known:
            return known
        if not self.settled.events.has_commit_ts:
            return replace(known, objection=UNTIMED)
        several = len(self.settled.ready.sources(name)) > 1 or (there and has_several_sources(there.notes))
        if several or run.options.settings.routes.may_merge(name):
            return replace(known, objection="several tables may become this one")
        if there is None or not has_rows:
            return found
        whole = run.state is not None and run.state.proofs.follows(*name, place)
        keys = run.state.keys.of(*name, T.StructType()) if run.state and whole else None
        return placed(found, known, place, there.shape, run.options.contents, keys)

    def _ended(self, name: Name) -> int:
        """Return when a table ended last, as far as this batch and the journal tell."""
        former = (name, *self.settled.renaming.former(name))
        return self._ends.of(name, set().union(*map(self.settled.ready.sources, former)))

    @cached_property
    def _ends(self) -> Ends:
        found, renaming, routes = Ends(), self.settled.renaming, self.run.options.settings.routes
        for change, rename in self._statements(routes):
            for name in _names_ended(change, rename, routes):
                if rename and (rename.old == rename.new or renaming.carried_out(rename)):
                    continue  # the renamed one kept its rows
                if now := name if renaming.is_left(change) else renaming.now(name, change.commit_ts):
                    found.add(now, change.commit_ts)
        return found

    def _statements(self, routes: Routes) -> Iterator[tuple[Ddl, Rename | None]]:
        """Yield the schema changes of the batch, and those of the journal that ended tables, each with its rename."""
        for sent, shown in zip(self.settled.sent, self.settled.ready.events.ddl, strict=True):
            yield shown, Rename.of(sent, routes)
        for change in self.run.before.ends:
            told = change.commit_ts, change.sql, (change.database, change.table)
            yield change, Rename.journaled(*told, routes)


def _names_ended(change: Ddl, rename: Rename | None, routes: Routes) -> Sequence[Name]:
    """Return the names of tables that a schema change ends."""
    if not ends(change):
        return []
    names = [(change.database, change.table), *([rename.old] if rename else [])]
    if change.exchanged:
        names.append(routes.name(*change.shown_as))
    return names


def unmade(cause: str) -> str:
    """Return the warning for a table that is not made without a row."""
    return _UNMADE.format(cause)


def unmade_of(planned: Iterable[Planned]) -> list[str]:
    """Return the warnings of tables that are not made."""
    return [one.unmade for one in planned if one.unmade]


def cause_of(error: Exception) -> str:
    """Return what is wrong with a table; raise an error that is not about one table alone."""
    if isinstance(error, TableRefused):
        return str(error)
    if violated := _VIOLATED.search(str(error)):
        return violated[0]
    state = error.getSqlState() if isinstance(error, PySparkException) else None
    if state is None or not state.startswith(_OF_A_TABLE):
        raise error
    return str(error).strip().splitlines()[0]
