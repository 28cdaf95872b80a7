"""The policies: for messages that cannot be handled, rows that do not match their checksums, and schema changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from tidecast._errors import ConfigError


class _Choice(StrEnum):
    """The words that an option takes, which is named as the class: `OnError` is `on-error`."""

    @classmethod
    def parse(cls, text: str, option: str = "") -> Self:
        """Return the member of that name. Raises ConfigError for any other, in which `option` may name the option."""
        try:
            return cls(text)
        except ValueError:
            option = option or re.sub(r"\B(?=[A-Z])", "-", cls.__name__).lower()
            raise ConfigError(f"{option} is {text!r}", hint=f"one of {', '.join(cls)}") from None


class OnError(_Choice):
    """The policy for a message that cannot be handled."""

    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


class OnMismatch(_Choice):
    """The policy for a row that does not match its checksum."""

    DEAD_LETTER = "dead-letter"
    APPLY = "apply"
    FAIL = "fail"


class OnDataLoss(_Choice):
    """The policy for a topic that no longer holds the messages after a checkpoint."""

    FAIL = "fail"
    CONTINUE = "continue"


class OnUnrepresentable(_Choice):
    """The policy for a value that the type of a table's column cannot hold: null, text instead of it, or no row."""

    NULL = "null"
    STRING = "string"
    FAIL = "fail"


class TableMode(_Choice):
    """The content of a table: rows as they are, deleted ones marked as such, too, every version, or every change."""

    CURRENT = "current"
    SOFT_DELETE = "soft-delete"
    HISTORY = "history"
    LOG = "log"


class OnDdl(_Choice):
    """The policy for a change of a table's schema. Source: Other documents, Flink CDC's schema evolution."""

    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    LENIENT = "lenient"
    IGNORE = "ignore"
    EXCEPTION = "exception"

    @property
    def moves_columns(self) -> bool:
        """Tell whether tables lose columns and names that the source loses."""
        return self in (OnDdl.EVOLVE, OnDdl.TRY_EVOLVE, OnDdl.EXCEPTION)


class DdlKind(StrEnum):
    """A kind of schema change. Source: Other documents, Flink CDC's schema evolution."""

    ADD_COLUMN = "add-column"
    ALTER_COLUMN_TYPE = "alter-column-type"
    CREATE_TABLE = "create-table"
    DROP_COLUMN = "drop-column"
    DROP_TABLE = "drop-table"
    RENAME_COLUMN = "rename-column"
    RENAME_TABLE = "rename-table"
    TRUNCATE_TABLE = "truncate-table"


_OF_COLUMNS = (DdlKind.ADD_COLUMN, DdlKind.ALTER_COLUMN_TYPE, DdlKind.DROP_COLUMN, DdlKind.RENAME_COLUMN)
CARRY_OUT = (OnDdl.EVOLVE, OnDdl.TRY_EVOLVE)

DdlWords = str | Iterable[str] | Mapping[str, str]
"""A word of `OnDdl`, or several of which some are for one kind, such as `drop-column=ignore`."""


@dataclass(frozen=True)
class DdlPolicy:
    """The policies for changes of a table's schema: `default`, but for the kinds that have a word of their own."""

    default: OnDdl = OnDdl.LENIENT
    by_kind: tuple[tuple[DdlKind, OnDdl], ...] = ()

    @classmethod
    def parse(cls, *said: DdlWords) -> DdlPolicy:
        """Return what words say, the later ones before those of before. Raises ConfigError for what is none."""
        default, by_kind = OnDdl.LENIENT, dict[DdlKind, OnDdl]()
        for words in said:
            for kind, word in _pairs(words):
                if kind:
                    by_kind[_kind(kind)] = OnDdl.parse(word, f"ddl {kind}")
                else:
                    default = OnDdl.parse(word, "ddl")
        return cls(default, tuple(sorted(by_kind.items())))

    def of(self, kind: DdlKind | None) -> OnDdl:
        """Return what is done with a kind; None is for what has no kind of its own.

        A new table is made unless CREATE TABLE has a word of its own.
        """
        default = OnDdl.LENIENT if kind is DdlKind.CREATE_TABLE else self.default
        return next((word for of, word in self.by_kind if of is kind), default)

    def carries_out(self, kind: DdlKind | None) -> bool:
        """Tell whether tables lose what the source loses by such a change; by a RENAME TABLE they lose nothing."""
        return self.of(kind) in CARRY_OUT or (kind is DdlKind.RENAME_TABLE and self.of(kind) is OnDdl.LENIENT)

    @property
    def ignores_columns(self) -> bool:
        """Tell whether tables keep their columns and types, whatever the source does with its own."""
        return all(self.of(kind) is OnDdl.IGNORE for kind in _OF_COLUMNS)

    def told(self, kind: DdlKind | None) -> str:
        """Return the option that says what is done with a kind, for people."""
        own = kind is not None and any(of is kind for of, _ in self.by_kind)
        return f"--ddl {kind}={self.of(kind)}" if own else f"--ddl is {self.of(kind)}"


def _pairs(words: DdlWords) -> Iterable[tuple[str, str]]:
    """Return kinds, each with its word; no kind for the word of all others."""
    if isinstance(words, Mapping):
        return [("" if kind == "default" else kind, word) for kind, word in words.items()]
    parts = (word.rpartition("=") for word in ([words] if isinstance(words, str) else words))
    return [(kind, word) for kind, _, word in parts]


def _kind(text: str) -> DdlKind:
    try:
        return DdlKind(text)
    except ValueError:
        raise ConfigError(f"ddl: there is no kind {text!r}", hint=f"one of {', '.join(DdlKind)}") from None
