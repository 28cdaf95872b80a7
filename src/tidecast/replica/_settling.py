"""Settle: which tables a batch's messages belong to, under the names that those have now.

Renames are carried out here, before anything else: what comes under a table's old name goes to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tidecast._policy import DdlKind
from tidecast.model import Bootstrap, Ddl, Events, TableChanges
from tidecast.replica._run import Run
from tidecast.replica.apply import Known, carry_out_renames, since_of
from tidecast.replica.plan import UNTIMED, Rename, Renames, Told, kind_of, renamed_before, renames
from tidecast.replica.settle import Prepared
from tidecast.replica.state import write_journal
from tidecast.replica.tables import Name


@dataclass(frozen=True)
class Part:
    """A batch's part of one table: row changes, schema changes, and messages that show it exists without rows."""

    name: Name
    changes: Sequence[TableChanges] = ()
    ddl: Sequence[Ddl] = ()
    told: Sequence[Told] = ()


@dataclass(frozen=True)
class Settled:
    """A batch whose tables are known.

    `ready` has its events under the names that its messages tell, `events` under those that the tables have now, and
    `sent` its schema changes as the source names their tables.
    """

    ready: Prepared
    events: Events
    renaming: Renames
    sent: Sequence[Ddl]

    def name_before(self, name: Name) -> Name:
        """Return the name of a table before the renames of this batch."""
        for rename in reversed(self.renaming.done):
            name = rename.old if rename.new == name else name
        return name

    @cached_property
    def new_ddl(self) -> list[Ddl]:
        """The schema changes of the batch, without renames that were carried out before it."""
        done = {one.key for one in self.renaming.before}
        new = [change for change in self.events.ddl if (change.commit_ts, change.sql) not in done]
        new += [change for change in self.ready.events.ddl if self.renaming.is_left(change) and change not in new]
        return sorted(new, key=lambda change: change.commit_ts)


def settle(run: Run, events: Events, ready: Prepared) -> Settled:
    """Return a batch's events under the names that their tables have now; tables follow the renames that it tells."""
    renaming = _renames(run, events, ready)
    if (renaming.before or renaming.of_batch or renaming.left) and run.applied and not run.dry:
        run.applied.tell_renamed()  # before any is carried out: a run that ends there need not meet it again
    if renaming.of_batch:
        _carry_out(run, renaming, ready)
    renaming.keep_apart(ready.events, lambda name: since_of(run.table(name)))
    renaming.check_sources(ready.sources)
    return Settled(ready, renaming.follow(ready.events), renaming, events.ddl)


def parts_of(run: Run, events: Events) -> dict[Name, Part]:
    """Return what a batch has of each table."""
    changes, ddl = by_table(events)
    told = _told_by_table(events) if run.makes_tables and events.has_commit_ts else {}
    names = dict.fromkeys([*changes, *ddl, *told])
    return {name: Part(name, changes.get(name, ()), ddl.get(name, ()), told.get(name, ())) for name in names}


def by_table(events: Events) -> tuple[dict[Name, list[TableChanges]], dict[Name, list[Ddl]]]:
    """Return the row changes and the schema changes of each table."""
    by_name: dict[Name, list[TableChanges]] = defaultdict(list)
    for changes in events.tables:
        by_name[changes.schema.database, changes.schema.table].append(changes)
    ddl_by_name: dict[Name, list[Ddl]] = defaultdict(list)
    for change in events.ddl:
        if change.schema or (change.database and kind_of(change)):
            ddl_by_name[change.database, change.table].append(change)
    return by_name, ddl_by_name


def _told_by_table(events: Events) -> dict[Name, list[Told]]:
    by_name: dict[Name, list[Told]] = defaultdict(list)
    said: list[Ddl | Bootstrap] = [*events.bootstraps, *events.ddl]
    for told in dict.fromkeys(map(Told.by, said)):
        if told:
            by_name[told.schema.database, told.schema.table].append(told)
    return by_name


def _renames(run: Run, events: Events, ready: Prepared) -> Renames:
    """Return the renames of a batch, and those of the batches before as far as it may have rows of them."""
    routes, carries = run.options.settings.routes, run.options.on_ddl.carries_out(DdlKind.RENAME_TABLE)
    fresh = renames(events.ddl, routes)
    if not events.has_commit_ts:
        return Renames(refused={one.key: UNTIMED for one in fresh} if carries else {})
    if not fresh and run.applied is not None and not run.applied.tells_renames:
        return Renames()
    done, not_done = (renamed_before(told, routes) for told in (run.before.renames, run.before.left))
    return Renames(fresh if carries else (), done, left=not_done if carries else [*not_done, *fresh])


def _carry_out(run: Run, renaming: Renames, ready: Prepared) -> None:
    removals = [(at, name) for at, _, name in run.before.removals]
    known = Known(run.table, run.options.contents, run.state, ready.sources, removals, run.dry)

    def journal(rename: Rename) -> None:
        if run.dry:
            return
        moved = [change for change in ready.events.ddl if (change.commit_ts, change.sql) == rename.key]
        write_journal(
            run.spark, run.options.target.journal(run.spark), moved, {}, {}, run.options.on_ddl, {}, renaming.now_of
        )

    carry_out_renames(renaming, ready.events, known, journal)
