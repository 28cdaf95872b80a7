"""One table's plan carried out: its actions one after the other, then its rows by key, or appended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import TableChanges
from tidecast.replica._report import TableReport
from tidecast.replica.apply._again_keys import keys_of_letters
from tidecast.replica.apply._alter import alter, names_afterwards, no_rows, remake
from tidecast.replica.apply._append import append, once_each
from tidecast.replica.apply._changes import changes_of, table_changes
from tidecast.replica.apply._history import laid_out, moments
from tidecast.replica.apply._merge import merge, with_action
from tidecast.replica.apply._newest import Newest, NewestChanges, newest_changes
from tidecast.replica.apply._reports import report_of
from tidecast.replica.apply._rows import key_type, stored_columns
from tidecast.replica.apply._truncate import truncate
from tidecast.replica.apply._versions import keep_versions
from tidecast.replica.plan import (
    AlterTable,
    Append,
    CreateTable,
    DropTable,
    Evolution,
    KeepVersions,
    Merge,
    Plan,
    RemakeTable,
    SetAside,
    Truncate,
)
from tidecast.replica.settle import Checked, count, newest
from tidecast.replica.state import SAME_ROW, AppliedKeys, Proof, RowSum, State
from tidecast.replica.tables import Shape, table_type
from tidecast.spark import union


@dataclass
class Work:
    """The arguments of the functions that carry out one plan's actions.

    `newest` is what came of each key, None where that is not known yet. `has_commit_ts`, `ordered`: see
    `Events`. `set_aside` is told how many changes there are, before any is applied.
    `applied` are the keys of the batches before: no older change sets one back. `only`: see `Newest.of`.
    """

    plan: Plan
    newest: NewestChanges | None
    set_aside: Callable[[Checked], None]
    has_commit_ts: bool
    ordered: bool
    state: State | None = None
    proves: bool = True
    only: DataFrame | None = None

    @property
    def applied(self) -> AppliedKeys | None:
        """Return the keys that the batches before have applied, None without a checkpoint."""
        return self.state.keys if self.state else None

    @cached_property
    def proof(self) -> Proof | None:
        """Return the table's proof, None without a checkpoint. A dropped table must be gone before."""
        return self.state.proofs.of(self.plan) if self.state and self.proves else None

    def forget(self) -> None:
        """Forget what keys were brought to."""
        if self.applied:
            self.applied.forget(*self.plan.name)


def apply(work: Work) -> TableReport:
    """Bring one table up to its changes; return what was done.

    Applying the same changes again changes nothing, not even the table's version.
    """
    plan, applied = work.plan, work.applied
    if applied and applied.again and plan.merges and plan.rows.accepted:
        work.only = keys_of_letters(plan, applied.again)
    rows: Callable[[Work], TableReport] = _no_rows
    for action in plan.actions:
        match action:
            case SetAside():
                pass  # its rows are counted, and go to the dead letters, with those that turn out not to fit
            case DropTable():
                _drop(work)
            case Truncate():
                truncate(plan, action, applied, work.proof)
            case RemakeTable():
                remake(plan, action)
            case AlterTable():
                _alter(work, action)
            case CreateTable():
                _create(work, action)
            case Merge() | KeepVersions() | Append():
                rows = _ROWS[type(action)]
    if plan.rekeyed:
        work.forget()  # of the key that it had nothing is remembered
    report = rows(work)
    return work.proof.told(report) if work.proof else report


def _drop(work: Work) -> None:
    if work.plan.place.exists():
        work.forget()
        work.plan.place.drop()


def _alter(work: Work, action: AlterTable) -> None:
    plan, proof = work.plan, work.proof
    if proof is None:
        alter(plan, action)
        return
    alters = bool(action.steps) or action.changes_values
    with proof.reshaping(alters_rows=alters, called=names_afterwards(plan, action)):
        alter(plan, action)


def _create(work: Work, action: CreateTable) -> None:
    plan, proof = work.plan, work.proof
    if action.with_rows:
        return  # they bring it along
    with proof.writing(RowSum(), creates=True) if proof else nullcontext():
        plan.place.create(no_rows(plan), plan.key, plan.notes, appended=not plan.merges)


def _no_rows(work: Work) -> TableReport:
    """Count the changes of a table that gets no row, and remember deletes, which may come before older rows."""
    if work.applied:
        _remember_deletes(work.plan, work.applied, has_commit_ts=work.has_commit_ts)
    checked = count(work.plan.all_changes)
    work.set_aside(checked)
    return report_of(work.plan, checked, unchanged=checked.applicable)


def _merge(work: Work) -> TableReport:
    plan, timed = work.plan, work.has_commit_ts or work.ordered
    keys = work.applied.of(*plan.name, key_type(plan)) if work.applied else None
    with _newest(work) as newest:
        return merge(plan, newest, work.set_aside, keys, work.proof, timed=timed)


def _keep_versions(work: Work) -> TableReport:
    plan, applied = work.plan, work.applied
    deletes = applied.deletes_of(*plan.name, key_type(plan)) if applied else None
    with _newest(work) as newest:
        return keep_versions(plan, newest, work.set_aside, deletes, work.proof)


@contextmanager
def _newest(work: Work) -> Iterator[NewestChanges]:
    """Give the changes that were found for all tables together, else those of this one alone."""
    if work.newest and work.only is None:
        yield work.newest
        return
    with newest_changes([work.plan], work.applied, has_commit_ts=work.has_commit_ts, only=work.only) as alone:
        yield alone[work.plan.name]


def _append(work: Work) -> TableReport:
    keys = work.applied.of(*work.plan.name, SAME_ROW) if work.applied else None
    return append(work.plan, work.set_aside, keys, work.proof)


_ROWS: Mapping[type, Callable[[Work], TableReport]] = {Merge: _merge, KeepVersions: _keep_versions, Append: _append}


def _remember_deletes(plan: Plan, applied: AppliedKeys, *, has_commit_ts: bool) -> None:
    """Remember the deletes of a table of which no row has come: an older one may follow them.

    Versions may have their keys in several orders, and of several types; nothing tells yet which ones the table gets.
    """
    if plan.contents.is_log:
        return
    alike: dict[frozenset[tuple[str, T.DataType]], tuple[Shape, list[TableChanges]]] = {}
    for change in plan.rows.accepted:
        key = change.schema.handle_key
        columns = {name: table_type(change.schema.column(name).data_type) for name in key}
        if columns:
            alike.setdefault(frozenset(columns.items()), (Shape(columns, key), []))[1].append(change)
    for shape, changes in alike.values():
        found = union([table_changes(change, Evolution(shape), (), plan.contents) for change in changes])
        if plan.contents.is_history:
            keys = applied.deletes_of(*plan.name, shape.struct)
            time = {"time": F.struct(F.col("at").alias("commit_ts"), F.lit(False).alias("later")), "timed": F.lit(True)}
            deletes = moments(found).withColumns(time)
        else:
            keys = applied.of(*plan.name, shape.struct)
            deletes = newest(found, has_commit_ts=has_commit_ts)
        (asked,) = deletes.agg(*keys.of.asked()).collect()
        keys.add(deletes, asked, named=True)


def rows_made(plan: Plan, *, has_commit_ts: bool) -> DataFrame:
    """Return the rows of the table that a plan's changes make where there is none."""
    if plan.merges and plan.contents.is_history:
        versions = laid_out(plan, Newest.of([plan], has_commit_ts=has_commit_ts).changes(plan), 0)
        return versions.where(F.col("action").isNotNull()).select(stored_columns(plan))
    if plan.merges:
        changes = Newest.of([plan], has_commit_ts=has_commit_ts).changes(plan)
        actions = with_action(plan, changes, hashed=False)
        return actions.where(F.col("action").isNotNull()).select(stored_columns(plan))
    return once_each(plan, changes_of(plan).where("fits")).select(stored_columns(plan))
