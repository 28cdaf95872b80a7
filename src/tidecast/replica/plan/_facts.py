"""The beginning of a decision on a table: the rules of the batch, and the table as it lies there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tidecast._policy import DdlPolicy, OnUnrepresentable
from tidecast.replica.plan._truncated import Truncations
from tidecast.replica.plan._waiting import waiting_since
from tidecast.replica.settle import Policy
from tidecast.replica.tables import Contents, Shape
from tidecast.replica.targets import TableState, TargetTable


@dataclass(frozen=True)
class Rules:
    """The rules for all tables of a batch.

    `versions_by_time`: see `Events`; `batch` names the batch among those of its checkpoint, None where there is none.
    """

    contents: Contents
    versions_by_time: bool
    policy: Policy
    on_ddl: DdlPolicy
    batch: str | None = None

    @property
    def texts(self) -> bool:
        """Tell whether values that a type cannot hold stay as text."""
        return self.policy.on_unrepresentable is OnUnrepresentable.STRING


@dataclass(frozen=True)
class Facts:
    """A table as it lies there: `state` is None where there is none, or it goes as a whole.

    `since` is the commit-ts of the schema with which it waits for its first row, None for one that does not.
    `truncated` is when the source truncated it, `unfinished` are files of a first write that was not finished.
    """

    place: TargetTable
    state: TableState | None
    since: int | None
    truncated: Truncations
    unfinished: Sequence[str] = ()

    @classmethod
    def of(cls, place: TargetTable, truncated: Callable[[TableState | None, bool], Truncations]) -> Facts:
        """Return the facts. Calls `truncated` with the present table and whether it waits for its first row."""
        there = place.present()
        since = waiting_since(place, there)
        cut = truncated(there, since is not None)
        if since is not None and since > cut.dropped:
            cut = replace(cut, replaces=False)
        return cls(place, None if cut.replaces else there, since, cut, () if there else place.unfinished())

    @property
    def waits(self) -> bool:
        """Tell whether the table is there and waits for its first row."""
        return self.state is not None and self.since is not None

    @property
    def present(self) -> Shape | None:
        """Return the table's columns and key, None without a table."""
        return self.state.shape if self.state else None

    @property
    def notes(self) -> Mapping[str, str] | None:
        """Return the table's notes, None without a table."""
        return self.state.notes if self.state else None
