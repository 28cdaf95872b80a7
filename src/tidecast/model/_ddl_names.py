"""The tables and databases that a schema change names, given other names in its SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Names = Callable[[str, str], tuple[str, str]]
"""From the name of a database and a table to those that they get."""

_SUBJECTS = ("TABLE", "TABLES", "VIEW", "SEQUENCE", "DATABASE", "SCHEMA", "INDEX", "POLICY")
_NAMELESS = ("CHARACTER", "CHARSET", "DEFAULT", "COLLATE", "SET", "PLACEMENT", "ENCRYPTION", "=")
"""What follows ALTER DATABASE where it names none."""


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
            tokens = [Place(*place) for place in places(sql, escapes=escapes)]
            found = sorted(_Walk(sql, tokens, database, names, databases).run())
        except (LookupError, ValueError):
            continue
        for start, end, name in reversed(found):
            sql = sql[:start] + name + sql[end:]
        return sql
    return None


class _Walk:
    """Goes through one statement from left to right and finds its names."""

    def __init__(
        self, sql: str, tokens: Sequence[Place], database: str, names: Names, databases: Callable[[str], str]
    ) -> None:
        self._sql, self._tokens = sql, tokens
        self._database, self._names, self._databases = database, names, databases
        self._at = 0

    def run(self) -> Iterator[tuple[int, int, str]]:
        """Yield where a name stands that changes, and what stands there then."""
        verb = self._word()
        if verb == "TRUNCATE" and self._peek() != "TABLE":
            yield from self._table()
            return
        while self._peek() not in _SUBJECTS:
            self._at += 1
        subject = self._word()
        if subject == "POLICY":
            return
        if subject == "INDEX":
            while self._word() != "ON":
                pass
        self._skip("IF", "NOT", "EXISTS")
        if subject in ("DATABASE", "SCHEMA"):
            while self._more() and self._peek() not in _NAMELESS:
                yield from self._of_database()
                if not self._skip("TO"):
                    return
            return
        yield from self._table()
        while self._skip(",") or (verb in ("RENAME", "FLASHBACK") and self._skip("TO")):
            yield from self._table()
        if verb == "CREATE" and subject == "TABLE" and (self._skip("LIKE") or self._ahead("(", "LIKE")):
            yield from self._table()
        yield from self._view() if subject == "VIEW" and verb != "DROP" else self._rest(verb)

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
        from tidecast.model._ddl_tokens import query_names

        while self._word() != "AS":
            pass
        begin, end = self._tokens[self._at].start, self._tokens[-1].end
        for n, token in enumerate(self._tokens):
            if token.word == "CHECK" and n > self._at:
                end = [t.start for t in self._tokens[:n] if t.word == "WITH"][-1]
        tables, columns, aliases = query_names(self._sql[begin:end])

        def placed(parts: Sequence[tuple[str, int, int]]) -> list[Place]:
            return [Place(text, "", begin + first, begin + last) for text, first, last in parts]

        targets: dict[str, str] = {}
        for parts, has_alias in tables:
            yield from self._change(placed(parts))
            if not has_alias:
                targets[parts[-1][0].lower()] = self._target(placed(parts))[1]
        for parts in columns:
            name = parts[-1][0].lower()
            if len(parts) == 2:
                yield from self._change(placed(parts))
            elif targets.get(name, name).lower() != name:
                if name in aliases:
                    raise ValueError("a column of one of two tables")
                (table,) = placed(parts)
                yield table.start, table.end, _quoted(targets[name])

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
