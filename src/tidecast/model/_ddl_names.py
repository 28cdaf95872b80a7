"""The tables and databases that a schema change names, given other names in its SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Names = Callable[[str, str], tuple[str, str]]
"""From the name of a database and a table to those that they get."""

_SUBJECTS = ("TABLE", "TABLES", "VIEW", "DATABASE", "SCHEMA", "INDEX")
_BEFORE_TABLES = ("FROM", "JOIN")
_NO_NAMES = ("SELECT", "LATERAL", "VALUES", "JSON_TABLE", "DUAL")


class Place(NamedTuple):
    """A token of a statement: its text, its upper-case word where it is not quoted, and its place in the SQL."""

    text: str
    word: str
    start: int
    end: int


def renamed_tables(sql: str, database: str, names: Names, databases: Callable[[str], str]) -> str | None:
    """Return a statement with other names for tables, None where it cannot be read.

    `names` gives a table's, `databases` that of a database in a statement about one. A table without a database is one
    of `database`. What keeps its name keeps its text.
    """
    from tidecast.model._ddl_tokens import places  # programs that read no statement need not wait for it

    for escapes in (True, False):
        try:
            found = sorted(_Walk([Place(*p) for p in places(sql, escapes=escapes)], database, names, databases).run())
        except (IndexError, ValueError):
            continue
        for start, end, name in reversed(found):
            sql = sql[:start] + name + sql[end:]
        return sql
    return None


class _Walk:
    """Goes through one statement from left to right and finds its names."""

    def __init__(self, tokens: Sequence[Place], database: str, names: Names, databases: Callable[[str], str]) -> None:
        self._tokens, self._database, self._names, self._databases = tokens, database, names, databases
        self._at = 0
        self._tables: dict[str, str] = {}
        """The tables of a view without an alias, and what they are called then."""

    def run(self) -> Iterator[tuple[int, int, str]]:
        """Yield where a name stands that changes, and what stands there then."""
        verb = self._word()
        if verb == "TRUNCATE" and self._peek() != "TABLE":
            yield from self._table()
            return
        while self._peek() not in _SUBJECTS:
            self._at += 1
        subject = self._word()
        if subject == "INDEX":
            while self._word() != "ON":
                pass
        self._skip("IF", "NOT", "EXISTS")
        if subject in ("DATABASE", "SCHEMA"):
            yield from self._of_database()
            return
        yield from self._table()
        while self._skip(",") or (verb == "RENAME" and self._skip("TO")):
            yield from self._table()
        if verb == "CREATE" and subject == "TABLE" and (self._skip("LIKE") or self._ahead("(", "LIKE")):
            yield from self._table()
        yield from self._view() if subject == "VIEW" else self._rest(verb)

    def _rest(self, verb: str) -> Iterator[tuple[int, int, str]]:
        """Yield the tables that the clauses of a statement name."""
        while self._more():
            word = self._word()
            if word == "REFERENCES" or (word == "WITH" and self._skip("TABLE")):
                yield from self._table()
            elif verb == "ALTER" and word == "RENAME" and self._peek() not in ("COLUMN", "INDEX", "KEY"):
                self._skip("TO", "AS", "=")
                yield from self._table()

    def _view(self) -> Iterator[tuple[int, int, str]]:
        """Yield the tables of a view's query, and its columns that name one."""
        start = self._at
        common = any(token.word == "WITH" for token in self._tokens)  # names that the query itself may have made
        while self._more():
            if self._word() in _BEFORE_TABLES:
                yield from self._of_query(common)
        self._at = start
        while self._more():
            yield from self._column()

    def _of_query(self, common: bool) -> Iterator[tuple[int, int, str]]:
        """Yield the tables that stand behind FROM or JOIN, up to the first that is a query of its own."""
        while True:
            while self._skip("("):
                pass
            if self._peek() in _NO_NAMES:
                return
            parts = self._parts()
            if len(parts) > 2 or (common and len(parts) == 1):
                raise ValueError("no name of a table")
            alias = self._skip("AS")
            if not alias:
                self._tables[parts[-1].text] = self._target(parts)[1]
            yield from self._change(parts)
            following = [token.word for token in self._tokens[self._at : self._at + 2]]
            if alias or following[1:] == [","]:
                self._at += 1
            if not self._skip(","):
                return

    def _column(self) -> Iterator[tuple[int, int, str]]:
        """Yield the table of a column that names it: `table.column`, or `database.table.column`."""
        word, parts = self._peek(), self._parts()
        if word in _BEFORE_TABLES:
            while self._skip("("):
                pass
            if self._peek() not in _NO_NAMES:
                self._parts()
        elif len(parts) == 3:
            yield from self._change(parts[:2])
        elif len(parts) == 2 and parts[0].text in self._tables:
            yield parts[0].start, parts[0].end, _quoted(self._tables[parts[0].text])

    def _table(self) -> Iterator[tuple[int, int, str]]:
        """Yield the name of a table that stands here, if it changes."""
        parts = self._parts()
        if len(parts) > 2:
            raise ValueError("no name of a table")
        yield from self._change(parts)

    def _target(self, parts: Sequence[Place]) -> tuple[str, str]:
        return self._names(*self._source(parts))

    def _source(self, parts: Sequence[Place]) -> tuple[str, str]:
        return (parts[0].text if len(parts) == 2 else self._database), parts[-1].text

    def _change(self, parts: Sequence[Place]) -> Iterator[tuple[int, int, str]]:
        target = self._target(parts)
        if target != self._source(parts):
            yield parts[0].start, parts[-1].end, ".".join(map(_quoted, target))

    def _of_database(self) -> Iterator[tuple[int, int, str]]:
        """Yield the name of a database that stands here, if it changes."""
        (name,) = self._parts()
        if (target := self._databases(name.text)) != name.text:
            yield name.start, name.end, _quoted(target)

    def _parts(self) -> list[Place]:
        """Return the parts of a name that stands here, without the dots between them."""
        parts = [self._next()]
        while self._skip("."):
            parts.append(self._next())
        return parts

    def _ahead(self, *words: str) -> bool:
        """Skip words if they all come next; tell whether they did."""
        there = tuple(t.word for t in self._tokens[self._at : self._at + len(words)]) == words
        self._at += len(words) if there else 0
        return there

    def _more(self) -> bool:
        return self._at < len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._at].word

    def _next(self) -> Place:
        self._at += 1
        return self._tokens[self._at - 1]

    def _word(self) -> str:
        return self._next().word

    def _skip(self, *words: str) -> bool:
        """Skip those of the words that come next; tell whether there was any."""
        start = self._at
        while self._more() and self._peek() in words and self._peek():
            self._at += 1
        return self._at > start


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
