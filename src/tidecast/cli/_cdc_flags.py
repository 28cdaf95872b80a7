"""The commands and flags of `tidecast cli`, which are those of TiCDC's `cdc cli`, and how they are read.

Words are taken, refused and explained as Go's cobra and pflag do, which TiCDC's client is made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

from tidecast._go import parse_bool, parse_int, quoted

_PROGRAM = "tidecast cli"
_UINT64 = 1 << 64


class Flags(SimpleNamespace):
    """The value of each flag, by its name with `_` for `-`, and the `command`, such as "changefeed create"."""


class Help(Exception):
    """The user asked for help, or named no command: the text is that help."""


class Usage(Exception):
    """A wrong command line: what is wrong, and how it is right."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


def _tso(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError
    if (number := int(text)) >= _UINT64:
        raise OverflowError
    return number


def _seconds(text: str) -> int:
    if not (seconds := _tso(text)):
        raise ValueError
    return seconds


class _Kind(NamedTuple):
    """The type of a flag's value: its name in usage texts, its reader, and the Go function that errors name."""

    word: str
    read: Callable[[str], object]
    go: str = ""


_TEXT = _Kind("string", str)
_BOOL = _Kind("", parse_bool, "ParseBool")
_INT = _Kind("int", parse_int, "ParseInt")
_TSO = _Kind("uint", _tso, "ParseUint")
_SECONDS = _Kind("uint", _seconds, "ParseUint")


@dataclass(frozen=True)
class _Flag:
    """A flag; one without a description is hidden."""

    name: str
    about: str = ""
    short: str = ""
    kind: _Kind = _TEXT
    default: object = ""
    required: bool = False

    @property
    def names(self) -> str:
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"

    @property
    def row(self) -> tuple[str, str]:
        """Its line in a usage text."""
        name = f"{'' if self.short else '    '}{self.names} {self.kind.word}".rstrip()
        return name, f"{self.about} (required)" if self.required else self.about

    def read(self, text: str) -> object:
        """Return the value that a text stands for. Raises ValueError, which says what is wrong."""
        try:
            return self.kind.read(text)
        except (ValueError, OverflowError) as error:
            why = "value out of range" if isinstance(error, OverflowError) else "invalid syntax"
            raise ValueError(
                f'invalid argument {quoted(text)} for "{self.names}" flag: '
                f"strconv.{self.kind.go}: parsing {quoted(text)}: {why}"
            ) from None


class _Command(NamedTuple):
    about: str
    flags: tuple[_Flag, ...] = ()
    hidden: bool = False


def _switch(name: str, about: str, short: str = "") -> _Flag:
    return _Flag(name, about, short, _BOOL, default=False)


_NO_EFFECT = "accepted for compatibility; has no effect"
_HELP = _switch("help", "show this help", "h")
_SHARED = (
    _Flag("server", "the server's address (default http://127.0.0.1:8300)"),
    _Flag("pd", "the server's address; deprecated, use --server (tso query needs it)"),
    _Flag("ca", "the CA file to check the server's certificate against"),
    _Flag("cert", "the client's certificate file"),
    _Flag("key", "the key file of the client's certificate"),
    _Flag("log-level", _NO_EFFECT),
    _Flag("user", "the user's name"),
    _Flag("password", "the user's password; on a shared machine, set TICDC_PASSWORD instead"),
)
_KEYSPACE = _Flag("keyspace", _NO_EFFECT, "k", default="default")
_NO_KEYSPACE = replace(_KEYSPACE, default="")
_ID = _Flag("changefeed-id", "the changefeed's ID", "c", required=True)
_ONE = (_ID, _KEYSPACE)
_NO_CONFIRM = _switch("no-confirm", "do not ask for confirmation")
_ASKING = (_NO_CONFIRM, _switch("verbose", "also list the tables", "v"))
_UPSTREAM = tuple(_Flag(f"upstream-{name}") for name in ("pd", "ca", "cert", "key"))
_SETTINGS = (
    _Flag("sink-uri", "where to publish: kafka://host:port/topic?protocol=…"),
    _Flag("schema-registry", "the Schema Registry's URL"),
    _Flag("config", "the changefeed's configuration file (TOML)"),
    _Flag("target-ts", "stop at this TSO", kind=_TSO, default=None),
    _Flag("sort-engine", default="unified"),
    _Flag("sort-dir"),
    *_UPSTREAM,
)
_TABLE = _Flag("table-id", "the table's ID", "t", _INT, required=True)
_NODE = _Flag("target-node-id", "the ID of the server to move to", "d", required=True)
_MODE = _Flag("mode", _NO_EFFECT, kind=_INT, default=0)
_SPLIT = _Command("Always refused: one server has all tables.", (*_ONE, _TABLE, _MODE), hidden=True)
_MOVE = _SPLIT._replace(flags=(*_ONE, _TABLE, _NODE, _MODE))

_COMMANDS = {
    "": _Command("Manage changefeeds with the commands of TiCDC's cdc cli."),
    "changefeed": _Command("Manage changefeeds."),
    "changefeed create": _Command(
        "Create a changefeed.",
        (
            replace(_ID, about="the changefeed's ID (default: the server makes one)", required=False),
            *_SETTINGS,
            _Flag("start-ts", "publish changes after this TSO (default: now)", kind=_TSO, default=0),
            *_ASKING,
            _switch("disable-gc-check", "do not compare with TiKV's GC; no effect on a server of tidecast"),
            _Flag("tz", default="SYSTEM"),
            _NO_KEYSPACE,
        ),
    ),
    "changefeed update": _Command("Change a stopped or failed changefeed.", (*_ONE, *_SETTINGS, *_ASKING)),
    "changefeed list": _Command("List changefeeds.", (_switch("all", "also list finished ones", "a"), _KEYSPACE)),
    "changefeed query": _Command(
        "Show a changefeed.", (*_ONE, _switch("simple", "show only state, checkpoint and error", "s"))
    ),
    "changefeed pause": _Command("Pause a changefeed.", (_ID, _NO_KEYSPACE)),
    "changefeed resume": _Command(
        "Resume a paused or failed changefeed.",
        (
            *_ONE,
            _Flag("overwrite-checkpoint-ts", "continue from this checkpoint: now, or a TSO"),
            *_ASKING,
            *_UPSTREAM,
        ),
    ),
    "changefeed remove": _Command("Remove a changefeed.", _ONE),
    "changefeed statistics": _Command(
        "Print a changefeed's lag until interrupted.",
        (*_ONE, _Flag("interval", "seconds between two outputs (default 10)", "I", _SECONDS, 10)),
    ),
    "changefeed move-table": _MOVE,
    "changefeed move-split-table": _MOVE,
    "changefeed split-table-by-region-count": _SPLIT,
    "changefeed merge-table": _SPLIT,
    "capture": _Command("Manage servers."),
    "capture list": _Command("List the servers."),
    "tso": _Command("Manage TSOs."),
    "tso query": _Command("Print the current TSO. Needs --pd with the server's address."),
    "unsafe": _Command("Inspect what the server stores.", hidden=True),
    "unsafe reset": _Command(
        "Always refused: there is no PD.", (_NO_CONFIRM, _Flag("cluster-id", _NO_EFFECT, default="default"))
    ),
    "unsafe show-metadata": _Command("Print what the server stores.", (_NO_CONFIRM,)),
    "unsafe delete-service-gc-safepoint": _Command(
        "Always refused: there is no PD.", (_NO_CONFIRM, _NO_KEYSPACE, *_UPSTREAM)
    ),
    "unsafe resolve-lock": _Command(
        "Always refused: there is no TiKV.",
        (
            _Flag("region", "the region's ID", kind=_TSO, required=True),
            _Flag("ts", "resolve locks older than this TSO (default: one minute ago)", kind=_TSO, default=0),
            _NO_CONFIRM,
            _NO_KEYSPACE,
            *_UPSTREAM,
        ),
    ),
}


def parse(arguments: Sequence[str]) -> Flags:
    """Return the command and its flags. Raises Usage, or Help where that is wanted or no command is named."""
    command, words = _command(arguments)
    path = f"{_PROGRAM} {command}".rstrip()
    flags = (*_COMMANDS[command].flags, *_SHARED, _HELP)
    try:
        given, rest = _read(flags, words)
        if given.get("help") or _verbs(command):
            raise Help(f"{_COMMANDS[command].about}\n\n{_usage(command)}")
        if rest:
            raise ValueError(f'unknown command {quoted(rest[0])} for "{path}"')
        missing = sorted(flag.name for flag in flags if flag.required and flag.name not in given)
        if missing:
            raise ValueError(f"required flag(s) {', '.join(map(quoted, missing))} not set")
    except ValueError as error:
        raise Usage(str(error), _usage(command)) from None
    values = {flag.name: flag.default for flag in flags} | given
    return Flags(command=command, **{name.replace("-", "_"): value for name, value in values.items()})


def _verbs(command: str) -> list[str]:
    """Return the names of the commands in a group of commands, none for a command."""
    prefix = f"{command} " if command else ""
    names = [name.removeprefix(prefix) for name in _COMMANDS if name.startswith(prefix)]
    return [name for name in names if name and " " not in name]


def _command(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command that the words name, and the other words. A flag before it takes the word after it."""
    command, words, at = "", list(arguments), 0
    while at < len(words) and words[at] != "--":
        word = words[at]
        if not word or word == "-":
            at += 1
        elif word.startswith("-"):
            at += 2 if "=" not in word and (word.startswith("--") or len(word) == 2) else 1
        elif word in _verbs(command):
            command = f"{command} {words.pop(at)}".lstrip()
            at = 0
        else:
            break
    return command, words


def _read(flags: Iterable[_Flag], words: Sequence[str]) -> tuple[dict[str, object], list[str]]:
    """Return the values of the flags that are given, and the words that are none. Raises ValueError as pflag does."""
    long = {flag.name: flag for flag in flags}
    short = {flag.short: flag for flag in flags if flag.short}
    given: dict[str, object] = {}
    others: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        if word == "--":
            return given, others + left[::-1]
        if word.startswith("--"):
            name, equals, text = word[2:].partition("=")
            if not name or name.startswith("-"):
                raise ValueError(f"bad flag syntax: {word}")
            if (flag := long.get(name)) is None:
                raise ValueError(f"unknown flag: --{name}")
            if not equals and flag.kind is _BOOL:
                text = "true"
            elif not equals:
                if not left:
                    raise ValueError(f"flag needs an argument: {word}")
                text = left.pop()
            given[name] = flag.read(text)
        elif word.startswith("-") and word != "-":
            letters = word[1:]
            while letters:
                at, letters = f"{letters[0]!r} in -{letters}", letters[1:]
                if (flag := short.get(at[1])) is None:
                    raise ValueError(f"unknown shorthand flag: {at}")
                if len(letters) > 1 and letters[0] == "=":
                    text, letters = letters[1:], ""
                elif flag.kind is _BOOL:
                    text = "true"
                elif letters:
                    text, letters = letters, ""
                elif left:
                    text = left.pop()
                else:
                    raise ValueError(f"flag needs an argument: {at}")
                given[flag.name] = flag.read(text)
        else:
            others.append(word)
    return given, others


def _usage(command: str) -> str:
    """Return how a command is called, in cobra's form."""
    path = f"{_PROGRAM} {command}".rstrip()
    verbs = _verbs(command)
    text = f"Usage:\n  {path} {'[command]' if verbs else '[flags]'}\n"
    if verbs:
        commands = {verb: _COMMANDS[f"{command} {verb}".lstrip()] for verb in verbs}
        rows = [(verb, found.about) for verb, found in commands.items() if not found.hidden]
        text += f"\nAvailable Commands:\n{_columns(rows)}"
    for title, flags in (("Flags", (*_COMMANDS[command].flags, _HELP)), ("Global Flags", _SHARED)):
        text += f"\n{title}:\n{_columns([flag.row for flag in flags if flag.about])}"
    return text


def _columns(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "".join(f"  {name:{width}}   {about}\n" for name, about in rows)
