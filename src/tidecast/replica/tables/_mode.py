"""Modes: the rows of a table, and its columns beside the source's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast._policy import TableMode
from tidecast.replica.tables._columns import arrow_type_of
from tidecast.values import nulls

DELETED, OP, COMMIT_TS = "_deleted", "_op", "_commit_ts"
VALID_FROM, VALID_TO = "_valid_from", "_valid_to"

_OF_A_MESSAGE: Mapping[str, T.DataType] = {
    OP: T.StringType(),
    COMMIT_TS: T.LongType(),
    "_verdict": T.StringType(),
    "_topic": T.StringType(),
    "_partition": T.IntegerType(),
    "_offset": T.LongType(),
    "_timestamp": T.TimestampType(),
}
"""Metadata columns that show a column of the change, of their name without `_`."""

_TYPES: Mapping[str, T.DataType] = {
    **_OF_A_MESSAGE,
    DELETED: T.BooleanType(),
    VALID_FROM: T.LongType(),
    VALID_TO: T.LongType(),
}
_BY_MODE: Mapping[TableMode, Sequence[str]] = {
    TableMode.CURRENT: (),
    TableMode.SOFT_DELETE: (DELETED, COMMIT_TS),
    TableMode.HISTORY: (VALID_FROM, VALID_TO),
    TableMode.LOG: tuple(_OF_A_MESSAGE),
}
_ON_DEMAND = (COMMIT_TS, "_verdict")
"""What may be asked for in every mode: it is the same when TiCDC sends a change again."""


@dataclass(frozen=True)
class Contents:
    """The mode in which tables are kept, and the metadata columns that they have."""

    mode: TableMode = TableMode.CURRENT
    metadata: tuple[str, ...] = ()

    @classmethod
    def parse(cls, mode: str, metadata: Sequence[str] = ()) -> Contents:
        """Return what options say. Raises ConfigError for another word, or a column that cannot be had."""
        parsed = TableMode.parse(mode, "mode")
        own = _BY_MODE[parsed]
        for name in metadata:
            if name not in (*_ON_DEMAND, *own):
                hint = f"one of {', '.join(_ON_DEMAND)}, or --mode log, whose tables have all"
                raise ConfigError(f"--metadata: no column {name!r} can be had with --mode {parsed}", hint=hint)
        return cls(parsed, tuple(name for name in _TYPES if name in {*own, *metadata}))

    @classmethod
    def from_text(cls, text: str) -> Contents:
        """Return what `text` made; rows alone from an empty text."""
        mode, *metadata = text.split() or [TableMode.CURRENT]
        return cls(TableMode(mode), tuple(metadata))

    @property
    def text(self) -> str:
        """The same as words, empty for rows alone."""
        return "" if self == Contents() else " ".join((self.mode, *self.metadata))

    @property
    def options(self) -> str:
        """The options of `replicate` that say the same."""
        asked = (name for name in self.metadata if name not in _BY_MODE[self.mode])
        return " ".join(("--mode", self.mode, *(f"--metadata {name}" for name in asked)))

    @property
    def is_log(self) -> bool:
        """Tell whether each change is a row of its own."""
        return self.mode is TableMode.LOG

    @property
    def is_history(self) -> bool:
        """Tell whether each version of a row is a row of its own."""
        return self.mode is TableMode.HISTORY

    def row_key(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that identify a row of a table whose source has this key."""
        return (*key, VALID_FROM) if self.is_history and key else key

    @property
    def columns(self) -> Mapping[str, T.DataType]:
        """The metadata columns and their types."""
        return {name: _TYPES[name] for name in self.metadata}

    def values(self, changes: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """Return the metadata columns of changes that are no deletes, or of any in a log.

        They read `op`, `commit_ts`, `verdict` and the columns of `RECORD`.
        """
        commit_ts, count = changes.column("commit_ts"), changes.num_rows
        own = {DELETED: pa.repeat(False, count), VALID_FROM: commit_ts, VALID_TO: nulls(count, pa.int64())}
        values = {name: own[name] if name in own else changes.column(name[1:]) for name in self.metadata}
        return {name: value.cast(arrow_type_of(_TYPES[name])) for name, value in values.items()}

    def clash(self, names: Sequence[str]) -> str | None:
        """Return the first of a source's columns that has the name of a metadata column; None where none has."""
        ours = {name.lower() for name in self.metadata}
        return next((name for name in names if name.lower() in ours), None)


ROWS_ALONE = Contents()
"""The rows as they are, and no other column."""
