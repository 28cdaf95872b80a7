"""What a table's next version does to the columns of the one before, by the user's policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from tidecast._policy import DdlKind, DdlPolicy
from tidecast.model import TableSchema
from tidecast.replica.plan._applied_versions import Move
from tidecast.replica.plan._shapes import OnNewKey


@dataclass(frozen=True)
class VersionRules:
    """How the versions of a table follow each other.

    `renamed` has the columns that statements rename, by version; see `reconcile`. `sure`: a version that lacks a column
    is surely a later one. `several` tables at the source become this one.
    """

    on_ddl: DdlPolicy
    renamed: Mapping[int, Mapping[str, str]]
    sure: bool
    on_new_key: OnNewKey
    several: bool = False

    @property
    def surely_renamed(self) -> Mapping[int, Mapping[str, str]]:
        """The columns that statements rename, as far as versions are numbered by time."""
        return self.renamed if self.sure else {}

    @property
    def _renames(self) -> bool:
        return self.on_ddl.of(DdlKind.RENAME_COLUMN).moves_columns

    def mixes(self, version: TableSchema) -> str | None:
        """Return why one of several source tables cannot be followed: a name means another column to it alone."""
        if not self.several or self._renames or not (taken := reused(version, self.surely_renamed)):
            return None
        return f"column {min(taken)} was renamed, and is another column now, in one of several tables"

    def are_apart(self, one: TableSchema, other: TableSchema) -> bool:
        """Tell whether two versions are of two of several source tables; some sources tell no numbers of tables."""
        return self.several and 0 != one.table_id != other.table_id != 0

    def move(self, before: TableSchema, version: TableSchema) -> Move:
        """Return the columns that the next version renames, drops or keeps."""
        old, now = [c.name for c in before.columns], {c.name for c in version.columns}
        by_lower = {name.lower(): name for name in old}
        former = self.surely_renamed.get(version.version, {})
        pairs = {name: by_lower[was] for name in now if (was := former.get(name.lower())) and was in by_lower}
        if self.sure:  # one that is only spelled in another way needs no statement: tables have room for one of them
            spelled = {name: by_lower[name.lower()] for name in now - {*old, *pairs} if name.lower() in by_lower}
            pairs |= {name: was for name, was in spelled.items() if was not in now}
        if not self._renames:
            # Its old name stays as a column, unless the source uses it again, and always for other source tables.
            again = set() if self.several else now
            pairs = {n: was for n, was in pairs.items() if was in again or was.lower() == n.lower()}
        gone = () if self.several else tuple(name for name in old if name not in {*now, *pairs.values()})
        # Without a statement, a column that is gone may have got the name of a new one.
        told = version.version in self.renamed or now <= {*old, *pairs}
        drops = self.sure and told and self.on_ddl.of(DdlKind.DROP_COLUMN).moves_columns
        return Move(
            version.version,
            tuple((c.name, pairs[c.name]) for c in version.columns if c.name in pairs),
            dropped=gone if drops else (),
            kept=() if drops else gone,
        )


def reused(version: TableSchema, renamed: Mapping[int, Mapping[str, str]], kept: Iterable[str] = ()) -> Set[str]:
    """Return the names that mean another column since the statement of a version.

    Columns had them before it, and others have them in it; or a column got one that the table has `kept`.
    """
    former = renamed.get(version.version, {})
    names = {column.name.lower() for column in version.columns}
    return {was for now, was in former.items() if was != now and was in names} | retaken(former, kept)


def retaken(former: Mapping[str, str], kept: Iterable[str]) -> Set[str]:
    """Return the names that a statement gave to columns, and that a table has kept."""
    return {name.lower() for name in kept} & set(former)
