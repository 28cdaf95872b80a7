"""The table versions that are known beside the schemas in messages. Source: Debezium protocol, the real consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidecast.model import TableSchema
from tidecast.values import to_numpy, valid

UNPLACED = -1
"""Stands for how many versions begin before a row where nothing tells."""

Name = tuple[str, str]
"""Database and table."""


class Version(NamedTuple):
    """A table version: the TSO from which on it counts, and for rows without a commit-ts the offset, if one counts."""

    since: int
    offset: int
    schema: TableSchema


@dataclass(frozen=True)
class Known:
    """Table versions by name, in their order. `ordered`: see `tidecast.model.Events`."""

    ordered: bool
    versions: Mapping[Name, Sequence[Version]] = field(default_factory=dict)

    def with_version(self, schema: TableSchema, since: int | None, offset: int = -1) -> Known:
        """Return this with a table version more; one whose TSO nobody tells comes after those that are known."""
        name = (schema.database, schema.table)
        before = [*self.versions.get(name, ())]
        last = before[-1].since if before else 0
        added = Version(last if since is None else since, offset, schema)
        return Known(self.ordered, {**self.versions, name: sorted([*before, added], key=lambda v: v.since)})

    def only(self, name: Name) -> Known:
        """Return this with no more than the versions of one table."""
        return replace(self, versions={name: self.versions.get(name, ())})

    def of(self, name: Name) -> list[TableSchema]:
        """Return the versions of a table, in their order."""
        return [version.schema for version in self.versions.get(name, ())]

    def begun(self, name: Name, commit_ts: pa.Array, offsets: pa.Array | None) -> np.ndarray:
        """Return how many versions of a table begin before each row, UNPLACED where nothing tells.

        In: int64 each, null where a row has none.
        """
        versions = self.versions.get(name, ())
        if not versions:
            return np.zeros(len(commit_ts), np.int64)
        timed = valid(commit_ts)
        begun = np.searchsorted([v.since for v in versions], to_numpy(commit_ts), "right")
        if timed.all():
            return begun
        begun[~timed] = UNPLACED
        if self.ordered and offsets is not None:
            by_offset = np.searchsorted(sorted(v.offset for v in versions), to_numpy(offsets), "right")
            begun = np.where(~timed & valid(offsets), by_offset, begun)
        return begun


class Chosen(NamedTuple):
    """The known version that describes rows, None where none does.

    `of_rows` tells that it is theirs: else it is a later one, of which only the columns are right. `mark` tells these
    rows from all others that have the same schema in their messages.
    """

    schema: TableSchema | None
    of_rows: bool
    mark: tuple[int | None, int | None]


def chosen(
    known: Sequence[TableSchema], begun: int, names: Sequence[str], gives: Callable[[TableSchema], bool]
) -> Chosen:
    """Return the version of a table that describes rows before which `begun` of the known ones begin.

    `gives` tells whether a version would give the schema of the rows, whose columns have these names. The same schema
    may come again, with a column that was dropped and added, or with names exchanged. So versions count up to the first
    that does not fit: from the last that fits backwards, of those that have begun, and only where none of them fits
    from the first that does onwards. All count where nothing tells what has begun. Of these the order of columns
    decides, then the smallest, as a column selector may have left columns out, but need not; then the nearest.
    """
    numbers = range(len(known))
    if begun == UNPLACED:
        of_all = _nearest(known, [n for n in reversed(numbers) if gives(known[n])], names)
        return Chosen(_with(known, of_all, names), True, (of_all, None))
    before = _nearest(known, _run(known, reversed(numbers[:begun]), names, gives), names)
    if before is not None:
        return Chosen(_with(known, before, names), True, (before, None))
    after = _nearest(known, _run(known, numbers[begun:], names, gives), names)
    return Chosen(_with(known, after, names), False, (after, begun))


def _run(
    known: Sequence[TableSchema], numbers: Iterable[int], names: Sequence[str], gives: Callable[[TableSchema], bool]
) -> list[int]:
    """Return the first versions in a row that fit, not more than up to one that has just the columns of the rows."""
    found: list[int] = []
    for number in numbers:
        if gives(known[number]):
            found.append(number)
            if [c.name for c in known[number].columns] == [*names]:
                break
        elif found:
            break
    return found


def _nearest(known: Sequence[TableSchema], fits: Sequence[int], names: Sequence[str]) -> int | None:
    """Return the best of the versions that fit, which come with the nearest first."""
    there = {*names}
    in_order = [n for n in fits if [c.name for c in known[n].columns if c.name in there] == [*names]]
    return min(in_order or fits, key=lambda n: len(known[n].columns), default=None)


def _with(known: Sequence[TableSchema], number: int | None, names: Sequence[str]) -> TableSchema | None:
    """Return a version with the columns of these names."""
    if number is None:
        return None
    schema, there = known[number], frozenset(names)
    return schema if there.issuperset(c.name for c in schema.columns) else schema.selecting(there)
