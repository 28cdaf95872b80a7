"""The result of a table's versions: its shape, the changes to it, and the rows that it cannot take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidecast import model
from tidecast._policy import DdlKind
from tidecast.model import TableSchema
from tidecast.replica.plan._applied_versions import AppliedVersions, Move
from tidecast.replica.tables import Shape

_NOTHING = AppliedVersions()
News = tuple[DdlKind | None, str]
"""What a version changed: its kind, if it has one, and in words."""


@dataclass(frozen=True)
class Evolution:
    """The columns, key and versions of a table after a batch.

    `shape` is the one that it must have, without columns where there is nothing to put into a table; `memory` is what
    it shall remember, `lineage` by which columns rows have in it. `defined` has each column as the version defines it
    where it came first. `refused` has, for each version whose rows cannot be applied, the cause; `clash` is the cause
    where the present table takes nothing at all. `moves` are what became of columns, `moved` is what the present table
    looks like after them. `news` says, for people, what the batch's versions changed, and `again` which of the columns
    that the table keeps have come back, as other ones maybe. `left_out` are columns that the source has, and it does
    not get; `order` is that of the source's columns where a new version has come and the table shall have it, too.
    `rekeyed` is the version that gives the table another key, None where none does; `later` are versions that have
    another one still, and wait until the others' rows are applied.
    """

    shape: Shape
    defined: Mapping[str, model.Column] = field(default_factory=dict)
    refused: Mapping[TableSchema, str] = field(default_factory=dict)
    memory: AppliedVersions = _NOTHING
    clash: str | None = None
    moves: tuple[Move, ...] = ()
    moved: Shape | None = None
    news: Sequence[News] = field(default=(), compare=False)
    again: Sequence[str] = field(default=(), compare=False)
    read_by: AppliedVersions | None = None
    left_out: Sequence[str] = field(default=(), compare=False)
    order: Sequence[str] = field(default=(), compare=False)
    rekeyed: int | None = None
    later: Sequence[TableSchema] = ()

    @property
    def lineage(self) -> AppliedVersions:
        """By which names the columns of each version lie in the table."""
        return self.read_by or self.memory

    @property
    def kept(self) -> list[str]:
        """The columns that were gone from the source with this batch, and stay in the table."""
        return list(dict.fromkeys(name for move in self.moves for name in move.kept))

    @property
    def changes(self) -> bool:
        """Tell whether the present table lacks columns or room, even after the moves."""
        return self.moved is not None and self.shape.columns != self.moved.columns
