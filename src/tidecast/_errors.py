"""The errors of tidecast, as one tree.

TidecastError
├── TransientError         worth a retry: a broker or a registry that does not answer
│   └── Unreachable
└── TerminalError          a retry would meet the same wall
    ├── ConfigError        an option, a URI or a TOML file is wrong
    ├── SchemaRefused      the registry will not take a schema
    ├── TableRefused       the place for tables will not take a table
    ├── RegistryError      the registry answered something unusable
    ├── EncodeError        a table or a value has no form in the protocol
    ├── DecodeError        a message cannot be read
    ├── SourceChanged      a source no longer holds what follows a checkpoint
    ├── CorruptedData      a row's checksum does not fit and the policy is to stop
    └── MissingRuntime     Java, a connector or a package is not there
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class TidecastError(Exception):
    """The root of every error that tidecast raises on purpose.

    `code` is TiCDC's error code where TiCDC has one (for example `CDC:ErrKafkaInvalidConfig`);
    `where` names the place (topic, partition, offset, column, file) and `hint` what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"[{self.code}]{self.message}" if self.code else self.message
        if self.where:
            text = f"{self.where}: {text}"
        return f"{text} ({self.hint})" if self.hint else text

    @property
    def coded(self) -> str:
        """The text with the code in front, which is where clients of TiCDC look for it."""
        text = ", ".join(filter(None, (self.message, self.where))) + (f" ({self.hint})" if self.hint else "")
        return f"[{self.code}]{text}" if self.code else text


class TransientError(TidecastError):
    """Something outside failed in a way that may pass; the same call may succeed later."""


class Unreachable(TransientError):
    """A broker or a registry does not answer."""


class TerminalError(TidecastError):
    """The same call would fail again until somebody changes something."""


class ConfigError(TerminalError):
    """An option, a URI or a configuration file is wrong."""


class SchemaRefused(TerminalError):
    """The registry refuses a schema; the message carries the registry's own words."""


class TableRefused(TerminalError):
    """The place for tables will not take a table: for its name, its shape, its data, or what lies there."""


class RegistryError(TerminalError):
    """The registry gave an answer that cannot be used: wrong credentials, unknown schema id, not a registry."""


class EncodeError(TerminalError):
    """A table or a value has no form in the chosen protocol."""


class DecodeError(TerminalError):
    """A message cannot be read."""


class SourceChanged(TerminalError):
    """A source no longer holds what follows a checkpoint: a topic was made anew, or messages expired unread.

    `remaining` has the offsets from which whoever puts up with that goes on; places that are to be read from their
    start are not among them.
    """

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, remaining: Mapping[str, int]
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.remaining = remaining


class CorruptedData(TerminalError):
    """A row does not fit its checksum and the policy is to stop."""


class MissingRuntime(TerminalError):
    """Java, a Spark connector or a package that tidecast needs is not there."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn an import that fails into MissingRuntime, which names the group of optional dependencies to install."""
    try:
        yield
    except ImportError as error:
        raise MissingRuntime(
            f"{what} needs a package that is not installed: {error.name or error}",
            hint=f"pip install 'tidecast[{extra}]'",
        ) from None


_CAUSED_BY = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_PY4J = re.compile(r"An error occurred while calling [^\n]*\n: ")


def root_cause(error: BaseException) -> str:
    """Return in a line what an error that nobody expected comes from: the last cause that Python or Java tells."""
    seen = {id(error)}
    # Spark keeps the Java exception's cause beside Python's own.
    while (cause := getattr(error, "_cause", None) or error.__cause__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
    text = str(error).strip()
    if causes := _CAUSED_BY.findall(text):
        return str(causes[-1]).strip()
    first = next(iter(_PY4J.sub("", text).splitlines()), "")
    return f"{type(error).__name__}: {first}"
