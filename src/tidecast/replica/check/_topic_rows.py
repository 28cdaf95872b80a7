"""The tables that a topic makes, as rows that are stored nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from tidecast._policy import DdlKind, DdlPolicy, OnError, OnMismatch, OnUnrepresentable
from tidecast.model import Ddl, Events, TableChanges
from tidecast.replica._settling import by_table
from tidecast.replica.apply import rows_made
from tidecast.replica.check._compare import TableRows
from tidecast.replica.plan import NEVER, Plan, Renames, Rules, carries_out, plan, renames, truncations
from tidecast.replica.settle import Policy, Prepared, count, prepared
from tidecast.replica.tables import NO_SETTINGS, Contents, Name, Settings
from tidecast.replica.targets.delta import DeltaTarget


class _Nowhere(DeltaTarget):
    """The place of a table that is not there."""

    def exists(self) -> bool:
        return False


@dataclass(frozen=True)
class TopicTables:
    """The tables that `replicate` makes of a topic's events with these settings."""

    spark: SparkSession
    events: Events
    on_ddl: DdlPolicy
    on_unrepresentable: OnUnrepresentable = OnUnrepresentable.NULL
    settings: Settings = NO_SETTINGS

    def names(self) -> Iterable[Name]:
        """Return the tables that have row changes."""
        return by_table(self._ready.events)[0].keys()

    def unread(self) -> int:
        """Return how many messages belong to no table, as they cannot be read."""
        return self.events.rejected.count()

    @cached_property
    def _ready(self) -> Prepared:
        ready = prepared(self.events, self.on_unrepresentable, self.settings)
        if not self.events.has_commit_ts:
            return ready
        told = renames(self.events.ddl, self.settings.routes)
        # No table is there that could refuse one.
        renaming = Renames(before=told) if self.on_ddl.carries_out(DdlKind.RENAME_TABLE) else Renames(left=told)
        renaming.keep_apart(ready.events, lambda name: None)
        return replace(ready, events=renaming.follow(ready.events))

    @contextmanager
    def rows(self, name: Name, contents: Contents) -> Iterator[tuple[TableRows | None, int]]:
        """Give the rows of a table as `replicate` makes them, and how many row changes are left out.

        None where no change can be applied. Raises TableRefused where no table with such contents can have its columns.
        """
        changes, ddl = by_table(self._ready.events)
        made = self._plan(name, changes, ddl, contents)
        checked, rows = count(made.all_changes), None
        if made.rows.accepted and made.evolution.shape.columns:
            made_of_it = rows_made(made, has_commit_ts=self.events.has_commit_ts)
            rows = TableRows(made_of_it, made.row_key if made.merges else ())
        yield rows, checked.total - checked.applicable

    def _plan(
        self,
        name: Name,
        changes: Mapping[Name, list[TableChanges]],
        ddl: Mapping[Name, list[Ddl]],
        contents: Contents,
    ) -> Plan:
        timed, place = self.events.has_commit_ts, _Nowhere(self.spark, ".".join(name))
        schema_changes = ddl.get(name, [])
        alone = len(self._ready.sources(name)) < 2 and not self.settings.routes.may_merge(name)
        removing = [change for change in schema_changes if timed and alone and carries_out(change, self.on_ddl)]
        policy = Policy(OnError.DEAD_LETTER, OnMismatch.DEAD_LETTER, self.on_unrepresentable)
        return plan(
            place,
            changes[name],
            schema_changes,
            Rules(contents, self.events.versions_by_time, policy, self.on_ddl),
            origin=self._ready.origins[name],
            truncated=lambda *_: truncations(removing, NEVER, contents, present=False),
        )
