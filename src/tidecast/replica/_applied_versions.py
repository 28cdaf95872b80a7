"""What a table remembers of the versions whose rows it has taken.

A batch shows only some versions of a table. A row of an older one that comes again, or late, looks like the end of a
column that it lacks, and a type that changed from one batch to the next shows in no column of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from urllib.parse import quote, unquote

from pydantic import TypeAdapter

from tidecast.model import TableSchema


@dataclass(frozen=True)
class AppliedVersions:
    """The newest version, its columns' defaults being those they came with, and a fingerprint of each version."""

    newest: TableSchema | None = None
    known: tuple[str, ...] = field(default_factory=tuple)

    def knows(self, version: TableSchema, *, has_commit_ts: bool) -> bool:
        """Tell whether the table has taken this version. `has_commit_ts`: versions are numbered by time.

        Then one that is younger than all of them is another one, although it may look as an old one did.
        """
        if self.newest is None:
            return False
        looks = _fingerprint(version)
        if has_commit_ts and version.version > self.newest.version:
            return looks == _fingerprint(self.newest)
        return looks in self.known

    def after(self, versions: Sequence[TableSchema]) -> AppliedVersions:
        """Return the memory after versions that follow each other, the first being the newest one known so far."""
        known = dict.fromkeys([*self.known, *map(_fingerprint, versions)])
        firsts = {c.name: c for version in reversed(versions) for c in version.columns}
        last = versions[-1]
        columns = [replace(c, nullable=firsts[c.name].nullable, default=firsts[c.name].default) for c in last.columns]
        return AppliedVersions(replace(last, columns=tuple(columns)), tuple(known))

    def text(self) -> str:
        """Return the memory as a text without single quotes and backslashes, from which `from_text` makes it."""
        return quote(_MEMORY.dump_json(self, exclude_defaults=True), safe=' ",:[]{}()')

    @classmethod
    def from_text(cls, text: str) -> AppliedVersions:
        """Return the memory that `text` made; one that remembers nothing from an empty text."""
        return _MEMORY.validate_json(unquote(text)) if text else cls()


_MEMORY = TypeAdapter(AppliedVersions)


def _fingerprint(version: TableSchema) -> str:
    definition = version.handle_key, [(c.name, astuple(c.data_type)) for c in version.columns]
    return hashlib.blake2b(repr(definition).encode(), digest_size=8).hexdigest()
