"""The versions whose rows a table has taken, as it remembers them.

A batch shows only some versions of a table. A row of an older version that comes again, or late, looks as if a column
had been dropped. A type that changed between two batches shows in no column of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, field, replace
from urllib.parse import quote, unquote

from pydantic import TypeAdapter

from tidecast.model import Column, TableSchema


@dataclass(frozen=True)
class Move:
    """The columns that a version renames, drops or keeps.

    `renamed` are pairs of a new and an old name, `dropped` columns that the table has lost, `kept` those that it keeps
    although the version and what follows it lack them.
    """

    version: int
    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def changes_columns(self) -> bool:
        """Tell whether the table's columns change."""
        return bool(self.renamed or self.dropped)


@dataclass(frozen=True)
class Shown:
    """A version that a message showed, and the former names of the columns that its statement renames."""

    schema: TableSchema
    former: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class AppliedVersions:
    """The newest version, its columns' defaults being those they came with, and a fingerprint of each version.

    `moves` tell how columns of older versions are called in the table, in the order in which they were made. `told` are
    the versions that messages showed and the table has not taken: of one without rows, whose rows may be of any of
    them, or those since the newest that were refused, on which what comes after them depends.
    """

    newest: TableSchema | None = None
    known: tuple[str, ...] = field(default_factory=tuple)
    moves: tuple[Move, ...] = field(default_factory=tuple)
    told: tuple[Shown, ...] = field(default_factory=tuple)

    def knows(self, version: TableSchema, *, versions_by_time: bool) -> bool:
        """Tell whether the table has taken this version. `versions_by_time`: versions are numbered by time.

        Then one that is younger than all of them is another one, although it may look as an old one did.
        """
        if self.newest is None:
            return False
        looks = fingerprint(version)
        if versions_by_time and version.version > self.newest.version:
            return looks == fingerprint(self.newest)
        return looks in self.known

    def names(self, version: TableSchema) -> dict[str, str]:
        """Return how the table calls a version's columns, by their names there; without those that it has lost."""
        names = {c.name: c.name for c in version.columns}
        for move in self.moves:
            if move.version > version.version:
                renamed = {old: new for new, old in move.renamed}
                names = {was: renamed.get(now, now) for was, now in names.items() if now not in move.dropped}
        return names

    def current(self, version: TableSchema) -> TableSchema:
        """Return a version with the names that its columns have in the table."""
        names = self.names(version)
        if all(names.get(c.name) == c.name for c in version.columns):
            return version
        return replace(
            version,
            columns=tuple(replace(c, name=names[c.name]) for c in version.columns if c.name in names),
            indexes=tuple(
                replace(i, columns=tuple(names[c] for c in i.columns))
                for i in version.indexes
                if set(i.columns) <= set(names)
            ),
        )

    @property
    def kept(self) -> Set[str]:
        """The columns that the table keeps although a version lacked them."""
        return {name for move in self.moves for name in move.kept}

    def gone(self, version: TableSchema) -> Set[str]:
        """Return the kept columns that are null in a version's rows, as the source had them no longer."""
        lost = {name for move in self.moves if move.version <= version.version for name in move.kept}
        return lost - set(self.names(version).values())

    def after(
        self,
        versions: Sequence[TableSchema],
        moves: Sequence[Move] = (),
        *,
        whole: bool = False,
        unknown: Set[str] = frozenset(),
    ) -> AppliedVersions:
        """Return the memory after versions that follow each other, the first being the newest one known so far.

        `whole`: the newest one gets the columns of those before it, too, as it may be of another source table.
        `unknown` are columns of which nothing tells what rows have that are older.
        """
        known = dict.fromkeys([*self.known, *map(fingerprint, versions)])
        moved = replace(self, moves=(*self.moves, *moves))
        firsts = first_columns(versions, moved, unknown)
        last = versions[-1]
        for version in reversed(versions[:-1] if whole else ()):
            last = with_columns_of(last, moved.current(version))
        told = ("nullable", "default", "default_known")
        columns = [replace(c, **{name: getattr(firsts[c.name], name) for name in told}) for c in last.columns]
        return AppliedVersions(replace(last, columns=tuple(columns)), tuple(known), moved.moves)

    def knowing(self, versions: Sequence[TableSchema]) -> AppliedVersions:
        """Return the memory of a table that takes rows of these versions alone, and no longer those of before."""
        return replace(self, known=tuple(dict.fromkeys(map(fingerprint, versions))))

    def told_of(self, refused: Iterable[TableSchema], renamed: Mapping[int, Mapping[str, str]]) -> AppliedVersions:
        """Return the memory with these refused versions, and what they renamed."""
        once = {(v.version, fingerprint(v)): v for v in refused}
        told = (Shown(once[one], tuple(renamed.get(one[0], {}).items())) for one in sorted(once))
        return replace(self, told=tuple(told))

    def text(self) -> str:
        """Return the memory as a text without single quotes and backslashes, from which `from_text` makes it."""
        return quote(_MEMORY.dump_json(self, exclude_defaults=True), safe=' ",:[]{}()')

    @classmethod
    def from_text(cls, text: str) -> AppliedVersions:
        """Return the memory that `text` made; one that remembers nothing from an empty text."""
        return _MEMORY.validate_json(unquote(text)) if text else cls()


_MEMORY = TypeAdapter(AppliedVersions)


def first_columns(
    versions: Sequence[TableSchema], memory: AppliedVersions, unknown: Set[str] = frozenset()
) -> dict[str, Column]:
    """Return each column as the first of these versions defines it that has it, by its name in the table.

    Of those that are `unknown` nothing tells what older rows have.
    """
    first = {c.name: c for version in reversed(versions) for c in memory.current(version).columns}
    return {name: replace(c, default_known=c.default_known and name not in unknown) for name, c in first.items()}


def with_columns_of(version: TableSchema, other: TableSchema) -> TableSchema:
    """Return a version with the columns of another one, too, behind its own."""
    names = {c.name.lower() for c in version.columns}
    return replace(version, columns=(*version.columns, *(c for c in other.columns if c.name.lower() not in names)))


def fingerprint(version: TableSchema) -> str:
    """Return what tells the columns and the key of one version from those of another."""
    definition = version.handle_key, [(c.name, astuple(c.data_type)) for c in version.columns]
    return hashlib.blake2b(repr(definition).encode(), digest_size=8).hexdigest()


def steps(columns: Iterable[str], moves: Iterable[Move]) -> list[tuple[str, str]]:
    """Return what is to be done to a table with these columns, one after the other: pairs of an old and a new name.

    No new name says that the column is dropped. A name that is still in use is taken by way of another one.
    """
    there, done = list(columns), list[tuple[str, str]]()

    def rename(old: str, new: str) -> None:
        done.append((old, new))
        there[there.index(old)] = new

    for move in moves:
        for name in move.dropped:
            if name in there:
                done.append((name, ""))
                there.remove(name)
        waiting = []
        for new, old in [(new, old) for new, old in move.renamed if old in there]:
            if new.lower() in {name.lower() for name in there}:
                waiting.append((new, _ASIDE.format(new)))
                rename(old, waiting[-1][1])
            else:
                rename(old, new)
        for new, aside in waiting:
            rename(aside, new)
    return done


_ASIDE = "_tidecast {}"
