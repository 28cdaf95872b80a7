"""TiCDC's patterns of tables and columns: `schema.table` rules with wildcards, regular expressions and quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tidecast._errors import ConfigError
from tidecast._go import Regexp, parse_regexp
from tidecast._time_limit import check_time

_LITERAL = re.compile(r"[0-9A-Za-z$_\u0080-\U0010ffff]")
_NAME = re.compile(r"[0-9A-Za-z$_]+(?=\.|$)")
_RESERVED = re.compile(r"[0-9A-Za-z]")
"""What a backslash may not stand before."""

_CLASS = re.compile(r"\[(!?)((?:\\[^0-9A-Za-z]|[^\]\\])+)\]", re.S)
_REGEX = re.compile(r"/((?:\\.|[^/\\])+)/", re.S)
_QUOTED = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`')
_WILDCARDS = {"*": ".*", "?": "."}

_SYSTEM_SCHEMAS = {
    "dm_heartbeat",
    "information_schema",
    "inspection_schema",
    "lightning_task_info",
    "metrics_schema",
    "mysql",
    "performance_schema",
    "sys",
    "tidb_cdc",
    "workload_schema",
}
"""Schemas that never leave, whatever the rules say. Source: Changefeed configuration, table filter."""


@dataclass(frozen=True)
class _Name:
    """A pattern that is a plain name, as most are: thousands of them take no time."""

    name: str
    fold: bool

    def search(self, text: str) -> bool:
        """Tell whether a text is this name."""
        return (text.lower() if self.fold else text) == self.name


@dataclass(frozen=True)
class _Rule:
    """A rule; `whole` tells that its table part is a lone `*`, which is every table."""

    positive: bool
    schema: Regexp
    table: Regexp
    whole: bool


class TableMatcher:
    """Table rules, of which the last one that matches decides; a table that none matches is out.

    Raises ConfigError (`CDC:ErrFilterRuleInvalid`) for a rule that is none.
    Source: Changefeed configuration, table filter.
    """

    _shown = "[{}]"
    """The rules as TiCDC shows them in errors."""

    def __init__(self, rules: Sequence[str], *, case_sensitive: bool = False) -> None:
        parsed = (_Reader(rule, rules, case_sensitive, self._shown).table_rule() for rule in rules)
        self._rules = [rule for rule in parsed if rule]

    def matches(self, schema: str, table: str) -> bool:
        """Tell whether the rules let a table in."""
        check_time()
        for rule in reversed(self._rules):
            if rule.schema.search(schema) and rule.table.search(table):
                return rule.positive
        return False

    @property
    def only(self) -> tuple[str | None, str | None]:
        """The schema, and the table, of all that the rules let in; None where there may be several."""
        positive = [rule for rule in self._rules if rule.positive]
        return _only(rule.schema for rule in positive), _only(rule.table for rule in positive)

    def matches_schema(self, schema: str) -> bool:
        """Tell whether the rules let any table of a schema in, as far as its name tells."""
        check_time()
        for rule in reversed(self._rules):
            if rule.schema.search(schema) and (rule.positive or rule.whole):
                return rule.positive
        return False


def _only(patterns: Iterable[Regexp]) -> str | None:
    """Return the name that all of the patterns are, None where they are no plain names, or several."""
    names = {pattern.name if isinstance(pattern, _Name) else None for pattern in patterns}
    return names.pop() if len(names) == 1 else None


class TableFilter(TableMatcher):
    """The rules of `[filter]`: as `TableMatcher`, but for the schemas of the system, which never leave.

    No rules at all let everything in.
    """

    _shown = "&{{[{}] [] []}}"

    def __init__(self, rules: Sequence[str], *, case_sensitive: bool = False) -> None:
        super().__init__(rules or ["*.*"], case_sensitive=case_sensitive)

    def matches(self, schema: str, table: str) -> bool:
        """Tell whether the rules let a table in."""
        return schema.lower() not in _SYSTEM_SCHEMAS and super().matches(schema, table)

    def matches_schema(self, schema: str) -> bool:
        """Tell whether the rules let any table of a schema in, as far as its name tells."""
        return schema.lower() not in _SYSTEM_SCHEMAS and super().matches_schema(schema)


class ColumnMatcher:
    """Column patterns, of which the last one that matches decides; case never counts.

    Raises ConfigError (`CDC:ErrFilterRuleInvalid`) for a pattern that is none.
    Source: Changefeed configuration, column selectors.
    """

    def __init__(self, rules: Sequence[str]) -> None:
        parsed = (_Reader(rule, rules, False).column_rule() for rule in rules)
        self._rules = [rule for rule in parsed if rule]

    def matches(self, column: str) -> bool:
        """Tell whether the patterns let a column in."""
        check_time()
        return next((positive for positive, name in reversed(self._rules) if name.search(column)), False)


class _Reader:
    """Reads one rule, from left to right."""

    def __init__(self, rule: str, rules: Sequence[str], case_sensitive: bool, shown: str = "[{}]") -> None:
        check_time()
        self._shown = shown
        self._rest = rule.strip(" \t")
        self._rules = rules
        self._fold = not case_sensitive

    def table_rule(self) -> _Rule | None:
        if self._is_comment():
            return None
        if self._rest.startswith("@"):
            self._fail("importing filter rules from a file is not supported here, write the rules themselves")
        positive = self._sign()
        schema = self._pattern()
        if not self._rest:
            self._fail("wrong table pattern")
        if not self._rest.startswith("."):
            self._fail("syntax error: missing '.' between schema and table patterns")
        self._rest = self._rest[1:]
        whole = self._rest == "*"
        table = self._pattern()
        if self._rest:
            self._fail("syntax error: stray characters after table pattern")
        return _Rule(positive, schema, table, whole)

    def column_rule(self) -> tuple[bool, Regexp] | None:
        if self._is_comment():
            return None
        positive = self._sign()
        is_bare = self._rest[:1] not in ("/", '"', "`")
        name = self._pattern()
        if self._rest:  # what ends a bare pattern is a dot
            stray = "syntax error: stray characters after column pattern"
            self._fail("unexpected special character '.'" if is_bare else stray)
        return positive, name

    def _is_comment(self) -> bool:
        return not self._rest or self._rest.startswith("#")

    def _sign(self) -> bool:
        negative = self._rest.startswith("!")
        self._rest = self._rest[negative:]
        return not negative

    def _pattern(self) -> Regexp:
        match self._rest[:1]:
            case "":
                self._fail("syntax error: missing pattern")
            case "/":
                return self._regex()
            case '"' | "`":
                return self._quoted()
        return self._bare()

    def _regex(self) -> Regexp:
        found = _REGEX.match(self._rest)
        if not found:
            self._fail("syntax error: incomplete regexp")
        self._rest = self._rest[found.end() :]
        try:
            return parse_regexp(found[1].replace(r"\/", "/"), fold=self._fold)
        except ValueError as error:
            self._fail(f"invalid pattern: {error}")

    def _quoted(self) -> Regexp:
        found = _QUOTED.match(self._rest)
        if not found:
            self._fail("syntax error: incomplete quoted identifier")
        self._rest = self._rest[found.end() :]
        name = (found[1] or "").replace('""', '"') or (found[2] or "").replace("``", "`")
        return self._named(name) if name.isascii() else self._whole(re.escape(name))

    def _bare(self) -> Regexp:
        if plain := _NAME.match(self._rest):
            self._rest = self._rest[plain.end() :]
            return self._named(plain[0])
        pieces: list[str] = []
        while self._rest and not self._rest.startswith("."):
            pieces.append(self._piece(self._rest[0]))
        return self._whole("".join(pieces))

    def _named(self, name: str) -> Regexp:
        return _Name(name.lower() if self._fold else name, self._fold)

    def _piece(self, first: str) -> str:
        """Take one element of a bare pattern, and return it as a regular expression."""
        length, piece = 1, re.escape(first)
        if first in _WILDCARDS:
            piece = _WILDCARDS[first]
        elif first == "[":
            found = _CLASS.match(self._rest)
            if not found or found[0] == "[!]":
                self._fail("syntax error: failed to parse character class")
            # Here `^` is a character like any other, and so is `[`.
            members = re.sub(r"(?<!\\)[\^\[&~|]", lambda m: "\\" + m[0], found[2])
            length, piece = found.end(), f"[{'^' * len(found[1])}{members}]"
        elif first == "\\":
            escaped = self._rest[1:2]
            if not escaped:
                self._fail("syntax error: cannot place \\ at end of line")
            if _RESERVED.fullmatch(escaped):
                self._fail(f"cannot escape a letter or number (\\{escaped}), it is reserved for future extension")
            length, piece = 2, re.escape(escaped)
        elif not _LITERAL.fullmatch(first):
            self._fail(f"unexpected special character '{first}'")
        self._rest = self._rest[length:]
        return piece

    def _whole(self, expression: str) -> Regexp:
        try:
            return parse_regexp(rf"(?s)\A(?:{expression})\z", fold=self._fold)
        except ValueError:
            self._fail("syntax error: failed to parse character class")

    def _fail(self, why: str) -> NoReturn:
        rules = self._shown.format(" ".join(self._rules))
        raise ConfigError(
            f"filter rule is invalid {rules}: at <cmdline>:1: {why}", code="CDC:ErrFilterRuleInvalid"
        ) from None
