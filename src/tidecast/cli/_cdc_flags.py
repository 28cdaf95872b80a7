"""The flags of `tidecast cli`: those of TiCDC's `cdc cli`, at any place where Go's would be taken."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from tidecast._go import parse_int

MOVES = ("move-table", "move-split-table", "split-table-by-region-count", "merge-table")
SORT_ENGINES = ("memory", "file", "unified")
_TSO = 1 << 64
_BOOLS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


class Help(Exception):
    """A group of commands without one of its commands: the text says which there are."""


class Usage(Exception):
    """A wrong command line: what is wrong, and how it is right."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


_ARGUMENT = re.compile("argument ([^:]+): (.*)", re.DOTALL)
_NO_VALUE = "expected one argument"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in the words of Go's flags, and leaves exiting to others."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument COMMAND: invalid choice"):
            raise Help(self.format_help())
        missing = message.partition("the following arguments are required: ")[2]
        if missing:
            names = ", ".join(f'"{name.rpartition("/")[2].lstrip("-")}"' for name in missing.split(", "))
            message = f"required flag(s) {names} not set"
        elif found := _ARGUMENT.fullmatch(message):
            names = found[1].replace("/", ", ")
            message = (
                f"flag needs an argument: {names.rpartition(', ')[2]}"
                if found[2] == _NO_VALUE
                else f"invalid argument {found[2].replace('FLAG', names)}"
            )
        raise Usage(message, self.format_help())


def _invalid(text: str, parser: str, why: str = "invalid syntax") -> argparse.ArgumentTypeError:
    """Return the error for a flag's value, in the words of Go's `strconv`."""
    return argparse.ArgumentTypeError(f'"{text}" for "FLAG" flag: strconv.{parser}: parsing "{text}": {why}')


def _bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _invalid(text, "ParseBool")
    return _BOOLS[text]


def _tso(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _invalid(text, "ParseUint")
    if int(text) >= _TSO:
        raise _invalid(text, "ParseUint", "value out of range")
    return int(text)


def _int(text: str) -> int:
    try:
        return parse_int(text)
    except ValueError:
        raise _invalid(text, "ParseInt") from None


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise _invalid(text, "ParseUint")
    return int(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command as `command` ("changefeed create") and its flags. Raises Usage, or Help for no command."""
    shared, parsers = _Parser(add_help=False), dict[str, _Parser]()
    for name, about in (
        ("server", "the server's address (default http://127.0.0.1:8300)"),
        ("pd", "the server's address; the older name of --server"),
        ("ca", "the CA file that the server's certificate is checked against"),
        ("cert", "the client's certificate file"),
        ("key", "the key file of the certificate"),
        ("log-level", "accepted and ignored"),
        ("user", "the user's name"),
        ("password", "the user's password; the variable TICDC_PASSWORD is safer"),
    ):
        shared.add_argument(f"--{name}", help=about, default=argparse.SUPPRESS)

    def parser_of(into: argparse._SubParsersAction[_Parser], name: str, about: str, *, hidden: bool = False) -> _Parser:
        listed: dict[str, Any] = {} if hidden else {"help": about}
        parser = into.add_parser(name, description=about, parents=[shared], allow_abbrev=False, **listed)
        parsers[parser.prog] = parser
        return parser

    def flag(
        parser: _Parser, *names: str, about: str | None, of: type | None = None, default: object = "", **more: object
    ) -> None:
        options: dict[str, object] = {"help": about or argparse.SUPPRESS, "default": default, **more}
        if of is bool:
            options |= {"type": _bool, "nargs": "?", "const": True, "default": False, "metavar": "true|false"}
        parser.add_argument(*names, **options)  # type: ignore[arg-type]

    def keyspace(parser: _Parser, default: str = "default") -> None:
        flag(parser, "-k", "--keyspace", about="accepted and ignored", default=default)

    def one(parser: _Parser, *, required: bool = True) -> None:
        flag(parser, "-c", "--changefeed-id", about="the changefeed's id", required=required)

    def settings(parser: _Parser) -> None:
        flag(parser, "--sink-uri", about="the sink URI: kafka://host:port/topic?protocol=…")
        flag(parser, "--schema-registry", about="the Schema Registry's URL")
        flag(parser, "--config", about="the changefeed's configuration file (TOML)")
        flag(parser, "--target-ts", about="stop after this commit-ts", type=_tso, default=None, metavar="TSO")
        flag(parser, "--sort-engine", about=None, default="unified")
        flag(parser, "--sort-dir", about=None)
        upstream(parser)

    def upstream(parser: _Parser) -> None:
        for name in ("pd", "ca", "cert", "key"):
            flag(parser, f"--upstream-{name}", about=None)

    def asking(parser: _Parser) -> None:
        flag(parser, "--no-confirm", about="do not ask for confirmation", of=bool)
        flag(parser, "-v", "--verbose", about="print more", of=bool)

    root = _Parser(
        "tidecast cli", description="TiCDC's command line for changefeeds.", parents=[shared], allow_abbrev=False
    )
    groups = root.add_subparsers(dest="group", metavar="COMMAND", required=False)
    feeds = parser_of(groups, "changefeed", "Manage changefeeds.")
    verbs = feeds.add_subparsers(dest="verb", metavar="COMMAND", required=False)

    create = parser_of(verbs, "create", "Create a changefeed.")
    keyspace(create, default="")
    one(create, required=False)
    settings(create)
    flag(
        create,
        "--start-ts",
        about="publish changes after this commit-ts (default: now)",
        type=_tso,
        default=0,
        metavar="TSO",
    )
    flag(create, "--disable-gc-check", about="accepted and ignored", of=bool)
    flag(create, "--tz", about=None, default="SYSTEM")
    asking(create)

    update = parser_of(verbs, "update", "Update a stopped or failed changefeed.")
    keyspace(update)
    one(update)
    settings(update)
    asking(update)

    listing = parser_of(verbs, "list", "List changefeeds.")
    keyspace(listing)
    flag(listing, "-a", "--all", about="list finished changefeeds as well", of=bool)

    query = parser_of(verbs, "query", "Show a changefeed.")
    keyspace(query)
    one(query)
    flag(query, "-s", "--simple", about="print state and checkpoint only", of=bool)

    for name, about in (("pause", "Pause a changefeed."), ("remove", "Remove a changefeed.")):
        simple = parser_of(verbs, name, about)
        keyspace(simple, default="" if name == "pause" else "default")
        one(simple)

    resume = parser_of(verbs, "resume", "Resume a changefeed.")
    keyspace(resume)
    one(resume)
    asking(resume)
    flag(resume, "--overwrite-checkpoint-ts", about="continue from here: now, or a TSO", metavar="TSO")
    upstream(resume)

    statistics = parser_of(verbs, "statistics", "Print the lag of a changefeed repeatedly.")
    keyspace(statistics)
    one(statistics)
    flag(statistics, "-I", "--interval", about="seconds between two lines", type=_seconds, default=10)

    for name in MOVES:
        move = parser_of(verbs, name, "Refused: one server has all tables.", hidden=True)
        keyspace(move)
        one(move)
        flag(move, "-t", "--table-id", about="the table's id", type=_int, required=True)
        if name.startswith("move"):
            flag(move, "-d", "--target-node-id", about="the target server", required=True)
        flag(move, "--mode", about="accepted and ignored", type=_int, default=0)

    unsafe = parser_of(groups, "unsafe", "Inspect what the server stores.", hidden=True)
    dangers = unsafe.add_subparsers(dest="verb", metavar="COMMAND", required=False)
    for name, about in (
        ("reset", "Refused: there is no PD to reset."),
        ("show-metadata", "Print what the server stores."),
        ("delete-service-gc-safepoint", "Refused: there is no PD."),
        ("resolve-lock", "Refused: there is no TiKV."),
    ):
        danger = parser_of(dangers, name, about)
        flag(danger, "--no-confirm", about="do not ask for confirmation", of=bool)
        if name == "reset":
            flag(danger, "--cluster-id", about="accepted and ignored", default="default")
        elif name != "show-metadata":
            keyspace(danger, default="")
            upstream(danger)
        if name == "resolve-lock":
            flag(danger, "--region", about="the region's id", type=_tso, required=True)
            flag(danger, "--ts", about="resolve locks older than this (default: one minute ago)", type=_tso, default=0)

    for group, verb, of_group, of_verb in (
        ("capture", "list", "Manage servers.", "List the servers."),
        ("tso", "query", "Manage TSOs.", "Print the current TSO."),
    ):
        inner = parser_of(groups, group, of_group).add_subparsers(dest="verb", metavar="COMMAND", required=False)
        parser_of(inner, verb, of_verb)

    found, rest = root.parse_known_args(arguments)
    chosen = [name for name in (found.group, getattr(found, "verb", None)) if name]
    if rest:
        where = " ".join((root.prog, *chosen))
        raise Usage(_unknown(rest[0], where), parsers.get(where, root).format_help())
    if len(chosen) < 2:
        raise Help({"changefeed": feeds, "unsafe": unsafe}.get("".join(chosen), root).format_help())
    found.command = " ".join(chosen)
    return found


def _unknown(word: str, command: str) -> str:
    """Return what is wrong with a word that no command has, as Go's flags say it."""
    if word.startswith("--"):
        return f"unknown flag: {word.partition('=')[0]}"
    if word.startswith("-"):
        return f"unknown shorthand flag: {word[1:2]!r} in {word}"
    return f'unknown command "{word}" for "{command}"'
