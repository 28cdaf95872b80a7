"""Tables that the source renames: the table follows, and what comes under its old name goes to it.

A rename is carried out before anything else of a batch. It can be done once more at any time: a table that is not there
was moved, and one that was made since remembers that it began later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast._errors import TableRefused
from tidecast.model import Ddl, Events, Op, TableChanges, TableSchema, read_statement
from tidecast.replica._applied_keys import AppliedKeys
from tidecast.replica._plan import SAFE, SOURCES
from tidecast.replica._proof import Proofs
from tidecast.replica._route import Routes
from tidecast.replica._truncated import Truncations
from tidecast.replica.targets import TableState, TargetTable

Name = tuple[str, str]
_RENAMED = "tidecast.renamed"


@dataclass(frozen=True)
class Rename:
    """A table's old and new name, in the target and (`was`, `becomes`) at the source, and since when."""

    commit_ts: int
    sql: str
    old: Name
    new: Name
    was: str
    becomes: str

    @classmethod
    def of(cls, commit_ts: int, sql: str, new: Name, routes: Routes) -> Rename | None:
        """Return what a statement renames to a table of the target; None where it renames none."""
        statement = read_statement(sql)
        if statement is None or statement.renamed is None:
            return None
        was = statement.name[0] or statement.renamed[0] or new[0], statement.name[1]
        becomes = statement.renamed[0] or was[0], statement.renamed[1]
        return cls(commit_ts, sql, routes.name(*was), new, ".".join(was), ".".join(becomes))


@dataclass
class Renames:
    """The renames of a batch that shall be carried out, and those that were before; `refused` has causes by SQL."""

    of_batch: Sequence[Rename] = ()
    before: Sequence[Rename] = ()
    refused: dict[str, str] = field(default_factory=dict)

    def carry_out(
        self, table: Callable[[Name], TargetTable], applied: AppliedKeys | None, proofs: Proofs | None
    ) -> None:
        """Let tables follow, with what the checkpoint knows of them."""
        for rename in sorted(self.of_batch, key=lambda one: one.commit_ts):
            if rename.old == rename.new:
                continue
            others = [one for one in self.of_batch if one.commit_ts == rename.commit_ts and one != rename]
            try:
                if any(rename.old == one.new or rename.new == one.old for one in others):
                    raise TableRefused("it exchanges names with others")
                _move(rename, table(rename.old), table(rename.new))
            except TableRefused as error:
                self.refused[rename.sql] = str(error)
                continue
            if not table(rename.old).exists():
                if applied:
                    applied.move(rename.old, rename.new)
                if proofs:
                    proofs.move(rename.old, rename.new)

    @property
    def _known(self) -> list[Rename]:
        fresh = [one for one in self.of_batch if one.sql not in self.refused]
        return sorted(dict.fromkeys([*self.before, *fresh]), key=lambda one: one.commit_ts)

    @property
    def left(self) -> Mapping[Name, int]:
        """The names that tables had, and until when."""
        return {one.old: one.commit_ts for one in self._known if one.old != one.new}

    def now(self, name: Name, commit_ts: int) -> Name:
        """Return what a table is called now that had a name before a commit-ts."""
        for one in self._known:
            if one.old == name and one.commit_ts > commit_ts:
                name, commit_ts = one.new, one.commit_ts
        return name

    def follow(self, events: Events) -> Events:
        """Return events under the names that their tables have now."""
        if not self.left:
            return events
        tables = [part for changes in events.tables for part in self._parts(changes)]
        return replace(events, tables=tuple(tables), ddl=tuple(map(self._ddl, events.ddl)))

    def _ddl(self, change: Ddl) -> Ddl:
        # A rename is told under the new name; what comes with it in one statement is refused.
        now = self.now((change.database, change.table), change.commit_ts)
        if change.schema:
            return replace(change, schema=_called(change.schema, now))
        return replace(change, named=now) if change.table else change

    def _parts(self, changes: TableChanges) -> list[TableChanges]:
        name = changes.schema.database, changes.schema.table
        ends = sorted({one.commit_ts for one in self._known if one.old == name != one.new})
        if not ends:
            return [changes]
        at, upsert = F.col("commit_ts"), F.col("op") != F.lit(Op.DELETE)
        spans = zip([-1, *ends], [*ends, None], strict=True)
        tests = [(self.now(name, start), _within(at, start, end)) for start, end in spans]
        counts = [F.count_if(test).alias(f"{n} all") for n, (_, test) in enumerate(tests)]
        counts += [F.min(F.when(test & upsert, at)).alias(f"{n} upserts") for n, (_, test) in enumerate(tests)]
        counts += [F.min(F.when(test, at)).alias(f"{n} from") for n, (_, test) in enumerate(tests)]
        (found,) = changes.frame.agg(*counts).collect()
        return [
            replace(
                changes,
                schema=_called(changes.schema, now),
                frame=changes.frame.where(test),
                rows=found[f"{n} all"],
                rows_from=found[f"{n} from"],
                upserts_from=found[f"{n} upserts"],
            )
            for n, (now, test) in enumerate(tests)
            if found[f"{n} all"]
        ]


def _within(at: Column, start: int, end: int | None) -> Column:
    """Return whether a commit-ts lies there; what has none comes last."""
    if end is None:
        return F.coalesce(at >= F.lit(start), F.lit(True))
    return F.coalesce((at >= F.lit(start)) & (at < F.lit(end)), F.lit(False))


def _called(schema: TableSchema, name: Name) -> TableSchema:
    return replace(schema, database=name[0], table=name[1])


def _move(rename: Rename, old: TargetTable, new: TargetTable) -> None:
    """Move a table, if it has to be. Raises TableRefused where it cannot."""
    state, there = old.present(), new.present()
    if state is None or Truncations.from_notes(state.notes).dropped >= rename.commit_ts:
        return
    if there is not None:
        if _since(state) == _since(there) == rename.commit_ts:
            old.drop()  # a run ended between the copy and this
            return
        raise TableRefused("there is a table of the new name already", where=str(new.path or new.name))
    notes = {_RENAMED: str(rename.commit_ts)}
    if SOURCES in state.notes:
        if len(json.loads(unquote(state.notes[SOURCES]))) > 1:
            raise TableRefused("several tables become this one")
        notes[SOURCES] = quote(json.dumps([rename.becomes]), safe=SAFE)
    old.remember(notes)
    try:
        old.move_to(new)
    except UnsupportedOperationException as error:
        raise TableRefused(f"the catalog renames no table: {str(error).strip().splitlines()[0]}") from None


def _since(state: TableState) -> int:
    return int(state.notes.get(_RENAMED, "0"))


def renames(told: Iterable[tuple[int, str, Name]], routes: Routes) -> list[Rename]:
    """Return the renames among statements, each with its commit-ts and the table's name afterwards."""
    found = (Rename.of(commit_ts, sql, name, routes) for commit_ts, sql, name in told)
    return [one for one in found if one is not None]
