"""The plan of one table: its rows that can be applied, and those that go to the dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import RECORD, Reason, TableChanges
from tidecast.replica.plan._actions import (
    Action,
    Append,
    CreateTable,
    DropTable,
    KeepVersions,
    Merge,
    RemakeTable,
    SetAside,
    Truncate,
    alteration,
)
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._facts import Facts
from tidecast.replica.plan._truncated import NEVER, Truncations
from tidecast.replica.settle import doubtful_columns, refuse, refused_rows
from tidecast.replica.tables import ROWS_ALONE, Contents, Name, Shape, fills, fills_known
from tidecast.replica.targets import TargetTable
from tidecast.replica.targets.delta import DeltaTarget

Refused = tuple[TableChanges, Reason, str]


@dataclass(frozen=True)
class PlannedRows:
    """A table's changes of a batch: those that are applied now, later, or not at all.

    `accepted` are applied, `refused` go to the dead letters with the reason and the cause. `outdated` are changes of
    the table that it was before it was dropped, and those that an earlier attempt at the batch applied before the table
    got another key. `later` are changes by another key, which a plan of their own applies after this one.
    """

    accepted: tuple[TableChanges, ...] = ()
    refused: tuple[Refused, ...] = ()
    outdated: tuple[TableChanges, ...] = ()
    later: tuple[TableChanges, ...] = ()

    @property
    def set_aside(self) -> list[TableChanges]:
        """Those that are not applied, whatever they are."""
        return [*(change for change, _, _ in self.refused), *self.outdated]


@dataclass(frozen=True)
class Plan:
    """One table's part of a batch.

    `present` is the table that `facts` tell of as this plan finds it, None where there is none, or it is made anew with
    its first row. `notes` is what the table shall remember, and does not yet. `contents` is what it holds, `sources`
    are the tables at the source that become it. `rekeyed` tells that the table has got its key with this batch, `makes`
    that the table, which is not there, is made without a row.
    """

    name: Name
    facts: Facts
    present: Shape | None
    evolution: Evolution
    rows: PlannedRows
    notes: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = ROWS_ALONE
    sources: Sequence[str] = ()
    rekeyed: bool = False
    makes: bool = False

    @property
    def place(self) -> TargetTable:
        """The table."""
        return self.facts.place

    @property
    def truncated(self) -> Truncations:
        """The times at which the source truncated it."""
        return self.facts.truncated

    @property
    def waited(self) -> bool:
        """Tell whether the table that is there has had no row."""
        return self.present is not None and self.facts.waits

    @property
    def is_new(self) -> bool:
        """Tell whether the table has had no row before."""
        return self.present is None or self.waited

    @property
    def merges(self) -> bool:
        """Tell whether rows are merged by key; else they are appended."""
        return bool(self.key) and not self.contents.is_log

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; empty where nothing does."""
        return self.evolution.shape.key or ()

    @property
    def present_key(self) -> T.StructType:
        """The columns that identify a row of the source in the table that is there."""
        there = self.present or Shape()
        return T.StructType([T.StructField(name, there.columns[name]) for name in there.key or ()])

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row of the table, which may hold several versions of a row of the source."""
        return self.contents.row_key(self.key)

    @property
    def all_changes(self) -> list[TableChanges]:
        """All its changes, each row checked (see `check`)."""
        return [*self.rows.accepted, *self.rows.set_aside]

    @property
    def actions(self) -> list[Action]:
        """Return the actions in their order. Only the last one may be about rows."""
        shape, key = self.evolution.shape, self.key
        found: list[Action] = [SetAside(reason, cause, c.rows) for c, reason, cause in self.rows.refused]
        found += [DropTable()] if self.truncated.replaces else []
        found += [Truncate(self.truncated.due)] if self.truncated.due else []
        if self.present and self.waited:
            columns = shape.columns if shape.columns != self.present.columns else {}
            found += [RemakeTable(columns, key, self.notes)] if columns or self.notes else []
        elif self.present and (altered := alteration(self.present, self.evolution, self.notes)):
            found.append(altered)
        rows = self.rows.accepted if shape.columns else ()
        if self.makes or (rows and self.present is None):
            found.append(CreateTable({**shape.columns, **self.contents.columns}, key, with_rows=not self.makes))
        if rows:
            how = Append if not self.merges else KeepVersions if self.contents.is_history else Merge
            found.append(how(sum(change.rows for change in rows)))
        return found

    def then(self, later: Plan) -> Plan:
        """Return what this plan and the one of `later` did together, for a report."""
        one, two = self.evolution, later.evolution
        both = replace(
            two,
            refused={**one.refused, **two.refused},
            moves=(*one.moves, *two.moves),
            news=(*one.news, *two.news),
            left_out=(*one.left_out, *two.left_out),
        )
        return replace(
            later,
            evolution=both,
            facts=self.facts,
            present=self.present,
            rows=replace(
                later.rows,
                accepted=(*self.rows.accepted, *later.rows.accepted),
                refused=(*self.rows.refused, *later.rows.refused),
            ),
        )

    def dead_letters(self) -> DataFrame:
        """Return the messages that are not applied, one of several rows once: `RECORD`, `reason`, `detail`."""
        cause = F.min(F.struct("reason", "detail")).alias("cause")
        rows = refused_rows(self.all_changes).groupBy(*RECORD.fieldNames()).agg(cause)
        return rows.select(*RECORD.fieldNames(), "cause.*")

    @property
    def doubtful(self) -> list[str]:
        """The columns that may have values which the table cannot hold."""
        return doubtful_columns(self.rows.accepted)

    def virtual(self) -> list[str]:
        """Return the columns whose values no message carries, because MySQL computes them when they are read."""
        return list(dict.fromkeys(c.name for change in self.rows.accepted for c in change.schema.columns if c.virtual))

    def unfilled(self) -> list[str]:
        """Return the columns that older rows lack and whose default is unknown."""
        return [name for name in self._lacked() if not fills_known(self.evolution.defined[name])]

    def lent(self) -> list[str]:
        """Return the columns whose default rows of other source tables may get, which lack them."""
        return [n for n in self._lacked() if fills(self.evolution.defined[n])] if len(self.sources) > 1 else []

    def _lacked(self) -> list[str]:
        """Return the columns that rows of this batch, or those in the table, do not have yet."""
        lacking, lineage = [c.schema for c in self.rows.accepted if c.upserts_from is not None], self.evolution.lineage
        shapes = [{*lineage.names(s).values(), *lineage.gone(s)} for s in lacking]
        shapes += [set(self.evolution.moved.columns)] if self.evolution.moved else []
        defined = self.evolution.defined
        return [n for n in defined if any(n not in names for names in shapes)]


def refusing(changes: Sequence[TableChanges], cause: str) -> Plan:
    """Return a plan by which all changes of a table, at least one, go to the dead letters; nothing else is done."""
    schema, nowhere = changes[0].schema, DeltaTarget(changes[0].frame.sparkSession, "")
    refused = tuple((refuse(change, cause), Reason.TABLE_REFUSED, cause) for change in changes)
    facts = Facts(nowhere, None, None, NEVER)
    return Plan((schema.database, schema.table), facts, None, Evolution(Shape()), PlannedRows(refused=refused))
