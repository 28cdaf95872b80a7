"""Read from a schema change's SQL what its table's schema lacks: kind of change, names, and columns as defined.

A statement is read as tokens, not as a tree: TiDB's dialect has forms that no parser for MySQL takes.
Source: Debezium protocol, change types, column attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from typing import TypeVar

from tidecast.model._ddl_cursor import Cursor, Token

Read = TypeVar("Read")
Name = tuple[str | None, str]
"""Database, where the statement has it, and table."""

_NO_COLUMN = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "CONSTRAINT", "FULLTEXT", "FOREIGN", "CHECK", "PARTITION", "SPATIAL")
_HINTS = ("ALGORITHM", "LOCK")
"""What clauses of ALTER TABLE begin with that only say how: TiDB passes over them."""
_VALUES = frozenset(["VALUES", "DEFAULT"])
"""Each partition of RANGE or LIST is defined with one of these."""
_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
_CHANGING_KEYS = {("ADD", "UNIQUE"), *(("DROP", what) for what in ("PRIMARY", "INDEX", "KEY", "CONSTRAINT"))}
_QUOTED = r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)"""
_MYSQL_CLAUSE = re.compile(_QUOTED + r"|/\*!\d*(.*?)\*/", re.S)
_TIDB_CLAUSE = re.compile(_QUOTED + r"|/\*(?:!\d*|T!?(?:\[\w+\])?)(.*?)\*/", re.S)
_REMEMBERED = 1_000
_SUBJECTS = ("TABLE", "VIEW", "DATABASE", "SCHEMA", "INDEX", "TABLES", "SEQUENCE")
NAMELESS = ("CHARACTER", "CHARSET", "DEFAULT", "COLLATE", "SET", "PLACEMENT", "ENCRYPTION", "=")
"""What follows ALTER DATABASE where it names none: it is the session's then."""


@dataclass(frozen=True)
class Definition:
    """A column as a statement defines it.

    `arguments` are the numbers of its type; `default` is the text of a literal, which bits are as a number, of the
    current time, or the name of a function.
    `had_name` is the column's name before, where it has a new one. A definition that is not `whole` changes the default
    alone.
    """

    name: str
    had_name: str
    whole: bool = True
    arguments: tuple[int, ...] = ()
    default: str | None = None
    comment: str | None = None
    automatic: bool = False
    """Whether it counts up, or is set by each update."""
    generated: str = ""
    """`VIRTUAL` or `STORED` for a generated column."""


@dataclass(frozen=True)
class Statement:
    """A schema change, as its SQL says it.

    `verb` and `subject` are its first words, such as `ALTER` and `TABLE`, `modifiers` those between; `actions` the
    words that its clauses begin with. `renamed` is the table's new name, or the one that a partition is exchanged with;
    `like` the table whose copy it makes. `renamed_columns` are those that get a new name and no definition: the new
    name, and the old one. `unique` are the unique keys that CREATE TABLE makes, by name: each one's columns,
    where these are whole. `index` is the one that it is about or drops. `sound` tells that TiCDC can read it, too.
    """

    verb: str
    subject: str
    name: Name
    renamed: Name | None = None
    exchanged: Name | None = None
    like: Name | None = None
    charset: str | None = None
    actions: tuple[tuple[str, ...], ...] = ()
    definitions: dict[str, Definition] = field(default_factory=dict)
    renamed_columns: dict[str, str] = field(default_factory=dict)
    unique: dict[str, tuple[str, ...]] = field(default_factory=dict)
    index: str = ""
    sound: bool = True
    modifiers: tuple[str, ...] = ()

    @property
    def may_change_keys(self) -> bool:
        """Tell whether a table that is not new may have other keys afterwards."""
        on_index = {(self.verb, self.subject)} if self.subject == "INDEX" else set(self.actions)
        added = ("CREATE", "INDEX") in on_index and "UNIQUE" in self.modifiers
        return added or not on_index.isdisjoint(_CHANGING_KEYS)

    @property
    def is_on_primary_key(self) -> bool:
        """Tell whether it names the index of the primary key: TiDB then drops the key."""
        return self.index.upper() == "PRIMARY"

    @property
    def former_names(self) -> dict[str, str]:
        """The old name of each column that it renames, by the new one; both in lower case, as it may spell them."""
        renamed = {d.name.lower(): d.had_name.lower() for d in self.definitions.values() if d.had_name != d.name}
        return renamed | {new.lower(): old.lower() for new, old in self.renamed_columns.items()}

    def renamed_from(self, database: str) -> tuple[str, str] | None:
        """Return the table's name before, None where it keeps it; `database` is that of its new name.

        A name without a database is of the session's, which the new name tells where it has none either; else the
        database is empty.
        """
        if self.renamed is None:
            return None
        return self.name[0] or ("" if self.renamed[0] else database), self.name[1]


def read_tokens(sql: str, read: Callable[[list[Token]], Read]) -> tuple[Read, bool] | None:
    """Return what a function reads in the tokens of a statement, None where it raises LookupError or ValueError.

    A backslash has a meaning in texts, unless the statement cannot be read so; the second value tells whether it has.
    """
    from tidecast.model._ddl_tokens import split  # programs that read no statement need not wait for it

    for escapes in (True, False):
        try:
            return read(split(sql, escapes=escapes)), escapes
        except (LookupError, ValueError):
            continue
    return None


@lru_cache(_REMEMBERED)
def read_statement(sql: str, *, tidb_clauses: bool = False) -> Statement | None:
    """Return what a statement says, None where it cannot be read at all.

    Text in comments does not count, but for clauses that MySQL carries out (`/*! … */`), and with `tidb_clauses` TiDB's
    own ones (`/*T! … */`).
    TiCDC prints the options of ENUM and SET as they are; one that ends with a backslash makes a statement that it
    cannot read itself.
    """
    clause = _TIDB_CLAUSE if tidb_clauses else _MYSQL_CLAUSE
    sql = clause.sub(lambda found: found[1] or f" {found[2]} ", sql)
    found = read_tokens(sql, lambda tokens: _Reader(tokens).statement())
    return found and replace(found[0], sound=found[1])


class _Reader(Cursor):
    """Reads one statement."""

    def statement(self) -> Statement:
        verb = self.word()
        if verb == "TRUNCATE":
            self.skip("TABLE")
            return Statement(verb, "TABLE", self._name())
        modifiers = []
        while self.peek() not in _SUBJECTS and self.more():
            modifiers.append(self.word())
        subject = self.word()
        index = ""
        if subject == "INDEX":
            self.skip("IF", "NOT", "EXISTS")
            index = self._text() if self.peek() != "ON" else ""
            while self.word() != "ON":
                pass
        self.skip("IF", "NOT", "EXISTS")
        if subject in ("DATABASE", "SCHEMA"):
            database = None if self.peek() in NAMELESS else self._text()
            return Statement(verb, "DATABASE", (database, ""), charset=self._charset())
        name = self._name()
        if (verb, subject) == ("CREATE", "TABLE"):
            return replace(self._create(name), modifiers=tuple(modifiers))
        if (verb, subject) == ("RENAME", "TABLE"):
            self.skip("TO")
            return Statement("RENAME", "TABLE", name, renamed=self._name())
        if (verb, subject) == ("ALTER", "TABLE"):
            return self._alter(name)
        return Statement(verb, subject, name, index=index, modifiers=tuple(modifiers))

    def _create(self, name: Name) -> Statement:
        if self.skip("LIKE"):
            return Statement("CREATE", "TABLE", name, like=self._name())
        definitions, unique = list[Definition](), dict[str, tuple[str, ...]]()
        if self.skip("("):
            for part in filter(None, self._parts()):
                if _is_column(part):
                    definitions.append(_definition(part))
                    if any(token.word == "UNIQUE" for token in part[2:]):
                        unique[part[0].text] = (part[0].text,)
                else:
                    unique |= _Reader(part)._unique()
        return Statement(
            "CREATE",
            "TABLE",
            name,
            charset=self._charset(),
            definitions={d.name: d for d in definitions},
            unique=unique,
        )

    def _unique(self) -> dict[str, tuple[str, ...]]:
        """Return the name of a unique key and its columns; nothing of another key, or of one with parts of columns."""
        name = self._text() if self.skip("CONSTRAINT") and self.peek() != "UNIQUE" else ""
        if not self.skip("UNIQUE"):
            return {}
        self.skip("KEY", "INDEX")
        while not self.skip("("):
            other = self._text()
            name = name or other
        columns = [part for part in self._parts() if part]
        if any(len(part) > 1 and part[1].word not in ("ASC", "DESC") for part in columns):
            return {}
        return {name or columns[0][0].text: tuple(part[0].text for part in columns)}

    def _alter(self, name: Name) -> Statement:
        definitions: list[Definition] = []
        renamed_columns: dict[str, str] = {}
        actions = []
        renamed = exchanged = charset = None
        index = ""
        for part in self._clauses():
            clause = _Reader(part)
            action = clause._action()
            if action[0] in _HINTS:
                continue
            actions.append(action)
            match action:
                case ("RENAME", "COLUMN"):
                    old, _, new = clause._text(), clause.skip("TO"), clause._text()
                    renamed_columns[new] = old
                case ("RENAME", *rest) if not rest:
                    clause.skip("TO", "AS", "=")
                    renamed = clause._name()
                case ("EXCHANGE", _):
                    while clause.word() != "TABLE":
                        pass
                    exchanged = clause._name()
                case ("DROP", "INDEX" | "KEY"):
                    clause.skip("IF", "EXISTS")
                    index = clause._text()
                case ("CONVERT", *_) | ("CHARSET", *_) | ("COLLATE", *_):
                    charset = _Reader(part)._charset()
                case _:
                    definitions += clause._defined(action)
        return Statement(
            "ALTER",
            "TABLE",
            name,
            renamed=renamed,
            exchanged=exchanged,
            charset=charset,
            actions=tuple(actions),
            definitions={d.name: d for d in definitions},
            renamed_columns=renamed_columns,
            index=index,
        )

    def _clauses(self) -> Iterator[list[Token]]:
        """Yield the clauses of ALTER TABLE; those that it adds in one bracket come one by one, as for TiDB."""
        for part in filter(None, self._parts()):
            clause = _Reader(part)
            if clause.skip("ADD"):
                clause.skip("COLUMN", "IF", "NOT", "EXISTS")
                if clause.skip("("):
                    yield from ([part[0], *one] for one in clause._parts() if one)
                    continue
            yield part

    def _action(self) -> tuple[str, ...]:
        """Return the words that say what a clause of ALTER TABLE does, without the word COLUMN before a name."""
        self.skip("DEFAULT")
        first = self.word()
        if first == "CHARACTER":
            return ("CHARSET",)
        second = self.peek() if self.more() else ""
        if first == "ADD" and second == "CONSTRAINT":
            self.at += 1
            while self.more() and self.peek() not in _NO_COLUMN:
                self.at += 1
            return (first, self.peek() if self.more() else "CONSTRAINT")
        if first == "ADD" and second not in _NO_COLUMN:
            if not _is_column(self.tokens[self.at :]):
                return (first, self.word())
            self.skip("COLUMN", "IF", "NOT", "EXISTS")
            return (first, "COLUMN")
        if first in ("MODIFY", "CHANGE"):
            self.skip("COLUMN", "IF", "EXISTS")
            return (first, "COLUMN")
        if first in ("ALTER", "DROP", "RENAME") and second not in _NO_COLUMN:
            if first == "RENAME" and second != "COLUMN":  # TO and AS may be missing before the table's name
                return (first,)
            self.skip("COLUMN", "IF", "EXISTS")
            return (first, "COLUMN")
        self.skip(second)
        if (first, second) == ("ADD", "PARTITION") and _VALUES.isdisjoint(token.word for token in self.tokens):
            return (first, "PARTITIONS")  # of HASH or KEY, which moves rows
        return (first, second)

    def _defined(self, action: tuple[str, ...]) -> Iterator[Definition]:
        match action:
            case ("ADD" | "MODIFY", "COLUMN"):
                yield _definition(self.tokens[self.at :])
            case ("CHANGE", "COLUMN"):
                old = self._text()
                yield _definition(self.tokens[self.at :], old)
            case ("ALTER", "COLUMN"):
                name, sets = self._text(), self.skip("SET")
                self.skip("DROP", "DEFAULT")
                default = _literal(self.tokens[self.at :]) if sets else None
                yield Definition(name, name, whole=False, default=default)

    def _parts(self) -> Iterator[list[Token]]:
        """Yield what stands between the commas up to the bracket that closes, or to the end."""
        depth, part = 0, list[Token]()
        while self.more():
            token = self.next()
            depth += {"(": 1, ")": -1}.get(token.word, 0)
            if depth < 0:
                break
            if depth == 0 and token.type == "COMMA":
                yield part
                part = []
            else:
                part.append(token)
        yield part

    def _charset(self) -> str | None:
        """Return the character set that options name, directly or by a collation."""
        while self.more():
            word = self.word()
            if word == "CHARSET" or (word == "CHARACTER" and self.skip("SET")):
                self.skip("=")
                return self._text().lower()
            if word == "COLLATE":
                self.skip("=")
                return self._text().lower().partition("_")[0]
        return None

    def _name(self) -> Name:
        first = self._text()
        return (first, self._text()) if self.skip(".") else (None, first)

    def _text(self) -> str:
        return self.next().text


def _is_column(tokens: Sequence[Token]) -> bool:
    """Tell whether a column comes, and no key, check or partition, nor an index of a kind that MySQL lacks."""
    first, *second = (token.word for token in tokens[:2])
    return first not in _NO_COLUMN and second not in (["INDEX"], ["KEY"])


def _definition(tokens: Sequence[Token], had_name: str | None = None) -> Definition:
    name, kind, *rest = tokens
    bracketed = bool(rest) and rest[0].word == "("
    end = [t.word for t in rest].index(")") if bracketed else 0
    arguments = tuple(int(t.text) for t in rest[:end] if t.type == "NUMBER")
    default = comment = None
    automatic, generated = False, ""
    for n, token in enumerate(rest, 1):
        match token.word:
            case "DEFAULT" if default is None:
                default = _literal(rest[n:])
            case "COMMENT":
                comment = rest[n].plain  # TiDB prints the backslashes of a text, and escapes none
            case "AUTO_INCREMENT":
                automatic = True
            case "GENERATED":
                generated = _generated(rest[n:])
            case "AS" if not generated and [t.word for t in rest[n : n + 1]] == ["("]:  # as users may write it
                generated = _generated(rest[n:])
            case "ON" if rest[n].word == "UPDATE":
                automatic = kind.word == "TIMESTAMP"
    return Definition(name.text, had_name or name.text, True, arguments, default, comment or None, automatic, generated)


def _generated(tokens: Sequence[Token]) -> str:
    """Return how a generated column is kept, from the tokens of `ALWAYS AS (…) STORED`."""
    depth = 0
    for n, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if token.word == ")" and depth == 0:
            return "STORED" if [t.word for t in tokens[n + 1 : n + 2]] == ["STORED"] else "VIRTUAL"
    return "VIRTUAL"


def _literal(tokens: Sequence[Token]) -> str | None:
    """Return the literal, the current time or the function that tokens begin with, None for NULL and others.

    A number with a sign is an expression to TiDB.
    """
    for token, follows in zip_longest(tokens, tokens[1:]):
        match token.type:
            case "INTRODUCER" | "L_PAREN":
                continue
            case "STRING" | "NUMBER":
                return token.text
            case "BIT_STRING" | "HEX_STRING":
                return str(int(token.text, 2 if token.type == "BIT_STRING" else 16))
            case _ if token.word in _NOW:
                return "CURRENT_TIMESTAMP"
            case _:
                return token.word if token.word and follows and follows.word == "(" else None
    return None
