"""A table of a target, whatever its format."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidecast._errors import TableRefused
from tidecast.replica.tables import Contents, Shape
from tidecast.spark import sql_name
from tidecast.storage import AnyPath

OURS, KEY, CONTENTS = "tidecast.", "tidecast.key", "tidecast.contents"
VARIABLE, SUBSTITUTES = "${", "spark.sql.variable.substitute"
_RENAMING, _NEW_KEY = "tidecast.renaming", "tidecast.renamed-key"


def key_note(key: Sequence[str] | None) -> Mapping[str, str]:
    """Return what a table remembers that has another key, or a key of other names, than it was made with."""
    return {_NEW_KEY: _quoted(key)}


@dataclass(frozen=True)
class TableState:
    """A table as it lies there: its shape, and what it remembers in properties of ours, such as `tidecast.key`.

    Metadata columns (see `Contents`) are no part of the shape.
    """

    shape: Shape
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetTable(ABC):
    """One table, there or not: `name` as Spark SQL names it, `path` where it is one of a folder.

    One that is `read_only` is looked at, and nothing that was begun on it is finished.
    """

    spark: SparkSession
    name: str
    path: AnyPath | None = None
    read_only: bool = field(default=False, kw_only=True)

    @property
    def shown(self) -> str:
        """Return the path or name that a user sees."""
        return str(self.path or self.name)

    @property
    def counts_versions(self) -> bool:
        """Tell whether later versions have higher numbers, and a re-created table begins again."""
        return True

    def present(self) -> TableState | None:
        """Return the table's state, None if it does not exist. Finishes the work that `follow` has begun on it."""
        if not self.exists():
            return None
        properties = self._properties()
        if (begun := properties.get(_RENAMING)) and not self.read_only:
            self._finish(json.loads(unquote(begun)))
            properties = self._properties()
        return self._state(properties)

    def seen(self) -> TableState:
        """Return what is there, and do nothing to it."""
        return self._state(self._properties())

    def _state(self, properties: Mapping[str, str]) -> TableState:
        notes = {name: value for name, value in properties.items() if name.startswith(OURS)}
        said = unquote(notes.get(_NEW_KEY, "null"))
        key = json.loads(notes.get(KEY, "null") if said == "null" else said)
        ours = Contents.from_text(notes.get(CONTENTS, "")).columns
        columns = {f.name: f.dataType for f in self.read().schema.fields if f.name not in ours}
        return TableState(Shape(columns, None if key is None else tuple(key)), notes)

    def exists(self) -> bool:
        """Tell whether there is a table."""
        return self.spark.catalog.tableExists(self.name)

    @abstractmethod
    def version(self) -> int | None:
        """Return what names the table's newest version to `VERSION AS OF`, None where there is no table."""

    def made(self) -> str | None:
        """Return what tells the table from another one in its place, None where versions do."""
        return None

    def size(self) -> int | None:
        """Return how many bytes the table's files have, None where that is not known at once."""
        return None

    @abstractmethod
    def written_since(self, version: int) -> bool:
        """Tell whether rows were merged or appended after a version, of what may also have been compacted since."""

    @abstractmethod
    def made_anew_since(self, version: int, made: str | None) -> bool:
        """Tell whether the table is another one, or none at all, than one that had a version, and was `made` so."""

    def read(self) -> DataFrame:
        """Return the table's rows."""
        return self.spark.table(self.name)

    def read_now(self) -> DataFrame:
        """Return the table's rows as they are now, however often they are read, and whoever changes them meanwhile."""
        return self.read()

    @abstractmethod
    def location(self) -> str:
        """Return where the table's files lie, as Spark names it."""

    def stored(self, name: str) -> str:
        """Return what a column is called in the table's metadata, as statements name it; `read` shows it as `name`."""
        return name

    def unfinished(self) -> list[str]:
        """Return the files of a first write that was not finished, where they are in the way.

        Raises TableRefused for a folder that holds anything else.
        """
        return []

    @abstractmethod
    def create(
        self, rows: DataFrame, key: tuple[str, ...], notes: Mapping[str, str], *, appended: bool = False
    ) -> None:
        """Create the table, with rows and notes, in one commit; over an unfinished one if need be.

        `appended`: rows will be added by `append`, whose notes `note` reads.
        """

    @property
    def notes_of_appends(self) -> Mapping[str, str]:
        """Properties that a table needs for `append`; `create` sets them if it gets `appended`."""
        return {}

    @abstractmethod
    def append(self, rows: DataFrame, note: str) -> None:
        """Add rows, and leave a note in the table's history, in one commit."""

    def add_rows(self, rows: DataFrame, note: str) -> None:
        """Append rows, and make the table if need be, or add columns that it lacks; another run may do so, too.

        `note` does not return their note.
        """
        if not self.exists():
            try:
                self.create(rows, (), {})
                return
            except Exception:
                if not self.exists():
                    raise
        self._add_rows(rows, note)

    @abstractmethod
    def _add_rows(self, rows: DataFrame, note: str) -> None:
        """Append rows to the table that is there, and add columns that it lacks."""

    @abstractmethod
    def note(self, beginning: str) -> str | None:
        """Return the newest note of `append` that begins so."""

    def takes(self, names: Iterable[str]) -> bool:
        """Tell whether `add`, `rename` and `drop` can take these names: Spark looks for variables in them."""
        return self.spark.conf.get(SUBSTITUTES) == "false" or not any(VARIABLE in name for name in names)

    def add(self, columns: Mapping[str, T.DataType]) -> None:
        """Add columns, in one commit and without a new file: they are null in the rows that are there."""
        defined = ", ".join(f"{self._column(name)} {kind.simpleString()}" for name, kind in columns.items())
        self._alter(f"ADD COLUMNS ({defined})")

    def follow(self, steps: Sequence[tuple[str, str]], key: tuple[str, ...] | None, notes: Mapping[str, str]) -> None:
        """Rename and drop columns (see `steps`), in one commit each and without a new file; keep the key, and notes.

        The table keeps the steps first: `present` finishes them if this ends halfway.
        """
        begun = {"columns": self.read().columns, "steps": steps, "key": key}
        self.remember({**notes, _RENAMING: _quoted(begun), **self._for_renames()})
        self._finish(begun)

    def _for_renames(self) -> Mapping[str, str]:
        """Return the properties that the table lacks to have its columns renamed."""
        return {}

    def _finish(self, begun: Mapping[str, Any]) -> None:
        states = [list(begun["columns"])]
        for old, new in begun["steps"]:
            states.append([new if name == old else name for name in states[-1] if name != old or new])
        there = self.read().columns
        if there not in states:
            hint = "undo it, or remove the property tidecast.renaming"
            raise TableRefused("somebody else changed its columns while they were being renamed", hint=hint)
        # Where two states look the same, so do their columns: renames leave each in its place.
        for old, new in begun["steps"][states.index(there) :]:
            column = self._column(old)
            self._alter(f"RENAME COLUMN {column} TO {self._column(new)}" if new else f"DROP COLUMNS ({column})")
        self.remember({**key_note(begun["key"]), _RENAMING: ""})

    def reorder(self, columns: Sequence[str]) -> None:
        """Put columns into this order, in a commit for each that moves and without a new file; others stay behind."""
        there = [name for name in self.read().columns if name in columns]
        for n, name in enumerate(columns):
            if there[n] != name:
                there.insert(n, there.pop(there.index(name)))
                place = f"AFTER {self._column(columns[n - 1])}" if n else "FIRST"
                self._alter(f"ALTER COLUMN {self._column(name)} {place}")

    @abstractmethod
    def widens(self, old: Mapping[str, T.DataType], new: Mapping[str, T.DataType]) -> bool:
        """Tell whether `widen` can give each of the columns in `new` its type in place of the `old` one."""

    def widen(self, columns: Mapping[str, T.DataType]) -> None:
        """Give columns wider types (see `widens`), in one commit each and without a new file."""
        for name, kind in columns.items():
            self._alter(f"ALTER COLUMN {self._column(name)} TYPE {kind.simpleString()}")

    @abstractmethod
    def rewrite(self, rows: DataFrame) -> None:
        """Replace the table's rows and columns in one commit; `rows` may read the table itself."""

    def change_rows(self, test: str, values: Mapping[str, str]) -> None:
        """Give columns of the rows that a test in SQL finds, all for none, these values in SQL, in one commit.

        Without values the rows are removed.
        """
        where = f" WHERE {test}" if test else ""
        changes = ", ".join(f"{self._column(name)} = {value}" for name, value in values.items())
        self.spark.sql(f"UPDATE {self.name} SET {changes}{where}" if values else f"DELETE FROM {self.name}{where}")

    def drop(self) -> None:
        """Remove the table; a run that ends halfway has removed it, too."""
        self.spark.sql(f"DROP TABLE {self.name}")

    def move_to(self, other: TargetTable) -> None:
        """Give the table the place of another one, which is not there; a run that ends halfway has not done so."""
        parts = other.name.partition(".")  # the catalog is the same, and left out
        self.spark.sql(f"ALTER TABLE {self.name} RENAME TO {parts[2]}")

    def remember(self, notes: Mapping[str, str]) -> None:
        """Keep notes with the table, in one commit. None has a single quote or a backslash."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in notes.items())
        self._alter(f"SET TBLPROPERTIES ({properties})")

    def before_updates(self) -> None:  # noqa: B027 - most formats need nothing
        """Make a large table ready for a merge that changes rows which it has."""

    @abstractmethod
    def compact(self, every: int) -> None:
        """Make few files of many, with each `every`-th version; at times remove files that no version needs."""

    def _alter(self, what: str) -> None:
        """Change the table's metadata in one commit."""
        self.spark.sql(f"ALTER TABLE {self.name} {what}")

    def _column(self, name: str) -> str:
        return sql_name(self.stored(name))

    @abstractmethod
    def _properties(self) -> dict[str, str]:
        """Return the table's properties, as `remember` got them."""


def _quoted(said: object) -> str:
    """Return a value as JSON without single quotes and backslashes; `unquote` undoes it."""
    return quote(json.dumps(said), safe=' ",:[]{}()')
