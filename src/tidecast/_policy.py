"""What is done with messages that cannot be handled, and with rows that do not match their checksums."""

from __future__ import annotations

import re
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
    """What to do with a message that cannot be handled."""

    DEAD_LETTER = "dead-letter"
    FAIL = "fail"


class OnMismatch(_Choice):
    """What to do with a row that does not match its checksum."""

    DEAD_LETTER = "dead-letter"
    APPLY = "apply"
    FAIL = "fail"


class OnDataLoss(_Choice):
    """What to do where a topic no longer holds what follows a checkpoint."""

    FAIL = "fail"
    CONTINUE = "continue"


class OnUnrepresentable(_Choice):
    """What to do with a value that the type of a table's column cannot hold: null, text instead of it, or no row."""

    NULL = "null"
    STRING = "string"
    FAIL = "fail"


class TableMode(_Choice):
    """What a table holds: the rows as they are, deleted ones marked as such, too, every version, or every change."""

    CURRENT = "current"
    SOFT_DELETE = "soft-delete"
    HISTORY = "history"
    LOG = "log"


class OnDdl(_Choice):
    """What to do with a change of a table's schema. Source: Other documents, Flink CDC's schema evolution."""

    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    LENIENT = "lenient"
    IGNORE = "ignore"
    EXCEPTION = "exception"

    @property
    def moves_columns(self) -> bool:
        """Whether tables lose what the source loses: columns and names."""
        return self in (OnDdl.EVOLVE, OnDdl.TRY_EVOLVE, OnDdl.EXCEPTION)
