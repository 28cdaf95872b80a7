"""The table versions that are known beside the schemas in messages. Source: Debezium protocol, the real consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidecast.model import TableSchema

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

    def begun(self, name: Name, commit_ts: int | None, offset: int | None) -> int:
        """Return how many versions of a table begin before a row."""
        versions = self.versions.get(name, ())
        if commit_ts is not None:
            return sum(version.since <= commit_ts for version in versions)
        if self.ordered and offset is not None:
            return sum(version.offset <= offset for version in versions)
        return len(versions)
