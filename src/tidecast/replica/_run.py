"""The arguments of all stages of a batch: the user's options, and the state of the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from tidecast._policy import DdlKind, OnDdl
from tidecast._progress import Progress
from tidecast.replica._options import ApplyOptions
from tidecast.replica.state import AppliedKeys, Journaled, State, journaled
from tidecast.replica.tables import Name
from tidecast.replica.targets import TargetTable


@dataclass(frozen=True)
class Run:
    """One call of `replicate`; `state` is what its checkpoint knows, None without one.

    A `dry` run plans the batch, and changes nothing.
    """

    spark: SparkSession
    options: ApplyOptions
    state: State | None
    progress: Progress
    dry: bool = False

    @property
    def applied(self) -> AppliedKeys | None:
        """Return the keys that the checkpoint's batches have applied."""
        return self.state.keys if self.state else None

    def table(self, name: Name, make_database: bool = False) -> TargetTable:
        """Return the table of a name, there or not; in a dry run nothing is done to it, nor is a database made."""
        place = self.options.target.table(self.spark, *name, make_database=make_database and not self.dry)
        return replace(place, read_only=True) if self.dry else place

    @cached_property
    def before(self) -> Journaled:
        """Return the journal as it was before this batch."""
        return journaled(self.options.target.journal(self.spark, make_database=False))

    @property
    def batch(self) -> str | None:
        """Return the name of the batch among those of its checkpoint, None without one.

        A retry of dead letters has the number of the batch before, whose rows by an old key are applied.
        """
        applied = self.applied
        return f"{applied.batch}/{applied.covered}" if applied and not applied.again else None

    @property
    def makes_tables(self) -> bool:
        """Tell whether tables are created before their first row."""
        new = self.options.on_ddl.of(DdlKind.CREATE_TABLE) is not OnDdl.IGNORE
        return new and not (self.applied and self.applied.again)
