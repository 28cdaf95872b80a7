"""Apply: plans carried out, several tables side by side; what cannot be applied goes to the dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from pyspark.errors import PySparkException

from tidecast._errors import TableRefused
from tidecast._policy import OnDdl, OnError
from tidecast.model import Events
from tidecast.replica._planning import Planned, Planner, cause_of, unmade
from tidecast.replica._report import TableReport
from tidecast.replica._run import Run
from tidecast.replica._settling import Part
from tidecast.replica.apply import NewestChanges, Work, apply, newest_changes
from tidecast.replica.plan import KeepVersions, Merge, Plan, refusing, stop_at_schema_changes
from tidecast.replica.settle import Checked, Policy, check, refuse_mismatches, refused_rows
from tidecast.replica.tables import Name
from tidecast.sources import DEAD_LETTER
from tidecast.spark import inheriting, persisted, union
from tidecast.topics import refuse_dead_letters, write_dead_letters

_AT_ONCE = 4


@dataclass(frozen=True)
class Done:
    """The result of one table's plan: its report, its dead letters by reason, and why it failed, if it did."""

    plan: Plan
    report: TableReport
    dead_letters: Mapping[str, int]
    failure: str | None = None

    def then(self, later: Done) -> Done:
        """Return what two parts of a table's batch did together."""
        warnings = tuple(dict.fromkeys((*self.report.warnings, *later.report.warnings)))
        return Done(
            self.plan.then(later.plan),
            replace(self.report.then(later.report), warnings=warnings),
            Counter(self.dead_letters) + Counter(later.dead_letters),
            later.failure or self.failure,
        )


@dataclass(frozen=True)
class Applier:
    """Carries out the plans of one batch."""

    run: Run
    planner: Planner

    @property
    def _events(self) -> Events:
        return self.planner.settled.events

    def carry_out(self, planned: Sequence[Planned]) -> Iterator[Done]:
        """Carry out the plans and yield each table's result as soon as it is done."""
        with self._newest(planned) as rows, ThreadPoolExecutor(_AT_ONCE) as pool:
            # In the order in which the pool takes them: the first of those that are left are at work.
            left = {
                pool.submit(inheriting(partial(self._carry_out, rows=rows.get(p.part.name))), p): p for p in planned
            }
            finished, total = as_completed(tuple(left)), len(left)
            while left:
                at_work = (".".join(one.part.name) for one in islice(left.values(), _AT_ONCE))
                self.run.progress(f"applying {', '.join(at_work)}", total - len(left), total)
                future = next(finished)
                yield future.result()
                del left[future]

    @contextmanager
    def _newest(self, planned: Sequence[Planned]) -> Iterator[Mapping[Name, NewestChanges]]:
        """Give what came of each key, of all tables in one pass; with dead letters it is table by table.

        So it is where the pass fails: then the tables whose rows it failed at say so themselves, and others get theirs.
        """
        applied, found = self.run.applied, [one.plan for one in planned if one.plan is not None]
        plans = [plan for plan in found if any(isinstance(action, Merge | KeepVersions) for action in plan.actions)]
        alone = applied is not None and applied.again is not None
        with ExitStack() as kept:
            rows: Mapping[Name, NewestChanges] = {}
            with suppress(PySparkException):
                together = newest_changes([] if alone else plans, applied, has_commit_ts=self._events.has_commit_ts)
                rows = kept.enter_context(together)
            yield rows

    def _carry_out(self, planned: Planned, rows: NewestChanges | None = None) -> Done:
        run, plan = self.run, planned.plan
        assert plan is not None  # only those come here
        evolves = run.options.on_ddl.default is OnDdl.EVOLVE
        try:
            if plan.makes:
                run.table(planned.part.name, make_database=True)
            done = Done(plan, *self._apply(plan, rows), planned.failure)
        except Exception as error:
            cause, name = cause_of(error), planned.part.name
            if plan.makes and not evolves:
                place = plan.place.shown
                return Done(plan, TableReport(*name, place, 0, warnings=(unmade(cause),)), {}, cause)
            if run.options.policy.on_error is OnError.FAIL or evolves or not plan.rows.accepted:
                raise TableRefused(cause, where=".".join(name)) from error
            report, refused = self._apply(refusing(planned.part.changes, cause), proves=False)
            if run.state and plan.present:
                report = run.state.proofs.of(plan).told(report)
            return Done(plan, report, refused, cause)
        later = self._later(planned.part, plan) if plan.evolution.later else None
        return done.then(self._carry_out(later)) if later else done

    def _later(self, part: Part, before: Plan) -> Planned | None:
        """Plan the changes by the key that a table gets after the others, None where the batch has nothing of it."""
        first = before.evolution.later[0].version
        ddl = [c for c in part.ddl if c.schema is None or c.schema.version >= first]
        later = self.planner.plan(Part(part.name, before.rows.later, ddl))
        if later.plan is None:  # only a message of before, when the table had no row, told of that key
            return None
        stop_at_schema_changes((), {part.name: later.plan}, self.run.options.on_ddl, {})
        stop(self._events, [later.plan], self.run.options.policy)
        return later

    def _apply(
        self, plan: Plan, rows: NewestChanges | None = None, *, proves: bool = True
    ) -> tuple[TableReport, Mapping[str, int]]:
        refused: Counter[str] = Counter()
        run, events = self.run, self._events

        def set_aside(checked: Checked) -> None:
            if checked.total > checked.applicable:
                letters = plan.dead_letters()
                with persisted(letters):
                    refused.update(write_dead_letters(letters, run.options.dead_letters))

        work = Work(plan, rows, set_aside, events.has_commit_ts, events.ordered, run.state, proves)
        return apply(work), refused


def stop(events: Events, plans: Sequence[Plan], policy: Policy) -> None:
    """Raise for the first message that stops the run, if any may."""
    if not policy.stops:
        return
    changes = [change for p in plans for change in (*p.all_changes, *(check(c, policy) for c in p.rows.later))]
    refused = [refused_rows(changes)] if changes else []
    with persisted(*refused):
        if policy.stops_at_mismatch and refused:
            refuse_mismatches(refused[0])
        if policy.on_error is OnError.FAIL:
            letters = [rows.select(*DEAD_LETTER.fieldNames()) for rows in refused]
            refuse_dead_letters(union([events.rejected, *letters]))
