"""The actions of a plan as data: apply carries them out in their order, and a dry run prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import types as T

from tidecast._counted import counted
from tidecast.model import Reason
from tidecast.replica.plan._applied_versions import steps
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._shapes import key_text
from tidecast.replica.tables import Shape, fills


@dataclass(frozen=True)
class SetAside:
    """Send rows to the dead letters, whatever they hold."""

    reason: Reason
    cause: str
    rows: int

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield f"set aside {_rows(self.rows)}: {self.cause}"


@dataclass(frozen=True)
class RenameTable:
    """Give the table of one name another, before anything else is done to it."""

    old: tuple[str, str]
    new: tuple[str, str]

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield f"rename table {'.'.join(self.old)} to {'.'.join(self.new)}"


@dataclass(frozen=True)
class DropTable:
    """Remove the table that is there: the source dropped it, or made it anew."""

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield "drop the table"


@dataclass(frozen=True)
class Truncate:
    """Remove the rows that are older than each commit-ts, or mark or end them, as the table's mode has it."""

    at: Sequence[int]

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield from (f"truncate what is older than {commit_ts}" for commit_ts in self.at)


@dataclass(frozen=True)
class AlterTable:
    """Give a table that is there other columns, and `notes` to remember.

    `steps` are pairs of an old and a new name, in their order; no new name drops the column. Then columns are `added`
    and `widened`, and put into `order`, which is empty where it stays. `fills` tells that older rows get a default in
    an added one. `key` is that of the table afterwards, `was_key` that of before.
    """

    steps: Sequence[tuple[str, str]] = ()
    added: Mapping[str, T.DataType] = field(default_factory=dict)
    widened: Mapping[str, T.DataType] = field(default_factory=dict)
    order: Sequence[str] = ()
    fills: bool = False
    key: tuple[str, ...] | None = None
    was_key: tuple[str, ...] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes_values(self) -> bool:
        """Tell whether present rows get other values or types."""
        return bool(self.widened) or self.fills

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield from (f"rename column {old} to {new}" if new else f"drop column {old}" for old, new in self.steps)
        default = " with its default in older rows" if self.fills else ""
        yield from (f"add column {name} {kind.simpleString()}{default}" for name, kind in self.added.items())
        yield from (f"widen column {name} to {kind.simpleString()}" for name, kind in self.widened.items())
        if self.order:
            yield f"put columns into the order {', '.join(self.order)}"
        if self.key != self.was_key:
            yield f"change the key from {key_text(self.was_key)} to {key_text(self.key)}"


@dataclass(frozen=True)
class RemakeTable:
    """Give a table that has no row yet the columns and the key of another version, and `notes` to remember.

    `columns` is empty where they stay.
    """

    columns: Mapping[str, T.DataType]
    key: tuple[str, ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        if self.columns:
            yield f"make the empty table anew: {_columns(self.columns)}, key {key_text(self.key)}"


@dataclass(frozen=True)
class CreateTable:
    """Make the table, without a row or `with_rows`, which then come in the same commit."""

    columns: Mapping[str, T.DataType]
    key: tuple[str, ...]
    with_rows: bool = True

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield f"create the table: {_columns(self.columns)}, key {key_text(self.key)}"


@dataclass(frozen=True)
class Merge:
    """Bring the rows of keys up to their newest change."""

    rows: int

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield f"merge {_rows(self.rows)} by key"


@dataclass(frozen=True)
class KeepVersions:
    """Put a row for each change of a key among the versions of the table."""

    rows: int

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield f"keep versions of {_rows(self.rows)}"


@dataclass(frozen=True)
class Append:
    """Add each change as a row."""

    rows: int

    def told(self) -> Iterator[str]:
        """Yield the action in words."""
        yield f"append {_rows(self.rows)}"


Action = SetAside | DropTable | Truncate | AlterTable | RemakeTable | CreateTable | Merge | KeepVersions | Append


def alteration(present: Shape, evolution: Evolution, notes: Mapping[str, str]) -> AlterTable | None:
    """Return what brings a table that has rows to the shape of an evolution; None where it is so, and knows `notes`."""
    moved, shape, defined = evolution.moved, evolution.shape, evolution.defined
    if moved is None or evolution.clash:
        return None
    added, widened = dict[str, T.DataType](), dict[str, T.DataType]()
    if evolution.changes:
        added = {name: kind for name, kind in shape.columns.items() if name not in moved.columns}
        widened = {name: kind for name, kind in shape.columns.items() if moved.columns.get(name, kind) != kind}
    found = AlterTable(
        steps(present.columns, evolution.moves),
        added,
        widened,
        _order(evolution),
        any(name in defined and fills(defined[name]) for name in added),
        moved.key,
        moved.key if evolution.rekeyed is None else present.key,
        notes,
    )
    return found if found.steps or found.added or found.widened or found.order or notes else None


def _order(evolution: Evolution) -> list[str]:
    """Return the new order of the source's columns, empty if it stays or if the policy keeps it."""
    there = list(evolution.shape.columns)
    order = [name for name in evolution.order if name in there]
    order += [name for name in there if name not in order]
    return order if evolution.order and order != there else []


def _rows(rows: int) -> str:
    return counted(rows, "row change", "row changes")


def _columns(columns: Mapping[str, T.DataType]) -> str:
    return ", ".join(f"{name} {kind.simpleString()}" for name, kind in columns.items())
