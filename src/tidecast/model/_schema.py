"""The schema of a table: the Simple protocol's TableSchema, immutable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from tidecast.model._types import DataType

SchemaKey = tuple[str, str, int]
"""Database, table and version: what a row message says of its schema."""


@dataclass(frozen=True)
class Column:
    """A column of a table version.

    `default` is TiDB's stored default text (TIMESTAMP literals in UTC), or the number for BIT, or
    None where there is none; `default_known` is False where the source may have had one that it did not
    tell. `id` is TiDB's column id where it is known, else None. `virtual` tells
    that the value is computed when read, so that no message ever carries it.
    """

    name: str
    data_type: DataType
    nullable: bool = True
    default: str | int | None = None
    id: int | None = None
    virtual: bool = False
    default_known: bool = True


@dataclass(frozen=True)
class Index:
    """An index of a table version, its columns in index order."""

    name: str
    unique: bool
    primary: bool
    nullable: bool
    columns: tuple[str, ...]

    @classmethod
    def of_key(cls, columns: Iterable[str]) -> tuple[Index, ...]:
        """Return the indexes of a table of which a source shows no more than the columns of its key, none for none."""
        key = tuple(columns)
        return (cls("PRIMARY", unique=True, primary=True, nullable=False, columns=key),) if key else ()


@dataclass(frozen=True)
class TableSchema:
    """One version of one table. `version` orders the versions of a table; it is a TSO where TiDB gave it.

    `view` tells a view, where a source says so: it has schema changes and no rows. `keys_known` is False where the
    source shows no unique index, which may be what identifies a row.
    """

    database: str
    table: str
    table_id: int
    version: int
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    view: bool = False
    keys_known: bool = True

    @property
    def name(self) -> str:
        """`database.table`, for people."""
        return f"{self.database}.{self.table}"

    @property
    def key(self) -> SchemaKey:
        """Return the members by which row messages name this schema."""
        return self.database, self.table, self.version

    @cached_property
    def handle_key(self) -> tuple[str, ...]:
        """The columns that identify a row, in table order; empty where nothing does.

        They are the primary key's, else those of the unique index on NOT NULL columns that has the
        fewest columns, the oldest on a tie. Where a table has no primary key, TiDB lists the first index on NOT NULL
        columns once more, as a primary one: that copy does not count. Source: Simple protocol, TableSchema.
        """
        stored = {c.name for c in self.columns if not c.virtual}
        unique = [i for i in self.indexes if i.unique and not (i.primary or i.nullable)]
        primary = self._primary
        usable = [i for i in unique if stored.issuperset(i.columns)]
        chosen = primary or min(usable, key=lambda i: len(i.columns), default=None)
        names = set(chosen.columns) if chosen else set()
        return tuple(c.name for c in self.columns if c.name in names)

    @property
    def may_have_key(self) -> bool:
        """Tell whether something identifies a row, or may do so where the source does not show it."""
        return bool(self.handle_key) or not self.keys_known

    @cached_property
    def unique_columns(self) -> frozenset[str]:
        """The columns of the primary key and of all unique indexes."""
        return frozenset(name for index in self.indexes if index.unique or index.primary for name in index.columns)

    def keyed_like(self, other: TableSchema | None) -> TableSchema:
        """Return this table, with the keys of another version where it does not show its own and has their columns."""
        if other is None or self.keys_known or not {c.name for c in self.columns}.issuperset(other.handle_key):
            return self
        return replace(self, indexes=other.indexes, keys_known=other.keys_known)

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key, in table order; empty where there is none."""
        names = {*self._primary.columns} if self._primary else set()
        return tuple(c.name for c in self.columns if c.name in names)

    @cached_property
    def _primary(self) -> Index | None:
        """The primary key, but for TiDB's copy of a unique index (see `handle_key`)."""
        copied = next((i.columns for i in self.indexes if i.unique and not (i.primary or i.nullable)), None)
        return next((i for i in self.indexes if i.primary and not (i.name == "primary" and i.columns == copied)), None)

    def column(self, name: str) -> Column:
        """Return the column of this name; KeyError where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def selecting(self, names: frozenset[str]) -> TableSchema:
        """Return this table with only the columns of these names, and those of its indexes that stay whole."""
        columns = tuple(c for c in self.columns if c.name in names)
        return replace(self, columns=columns, indexes=tuple(i for i in self.indexes if names.issuperset(i.columns)))


def sanitize(name: str) -> str:
    """Return a name as Avro allows it: every odd character becomes `_`, and a leading digit gets `_` before it.

    Source: Avro protocol, names; Debezium protocol, names.
    """
    allowed = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{allowed}" if allowed[:1].isdigit() else allowed
