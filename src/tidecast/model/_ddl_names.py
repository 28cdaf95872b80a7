"""The tables and databases that a schema change names, given other names in its SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidecast.model._ddl_cursor import Cursor, Token
from tidecast.model._ddl_parser import NAMELESS, read_tokens

Names = Callable[[str, str], tuple[str, str]]
"""From the name of a database and a table to those that they get."""

_SUBJECTS = ("TABLE", "TABLES", "VIEW", "SEQUENCE", "DATABASE", "SCHEMA", "INDEX", "POLICY")


def renamed_tables(sql: str, database: str, names: Names, databases: Callable[[str], str]) -> str | None:
    """Return a statement with other names for tables, None where it cannot be read.

    `names` gives a table's, `databases` that of a database in a statement about one. A table without a database is one
    of `database`. What keeps its name keeps its text, but a table beside one that does not gets its database: the
    statement may be one of another database then.
    """
    found = read_tokens(sql, lambda tokens: _Walk(sql, tokens, database, names, databases).changes())
    if found is None:
        return None
    for start, end, name in reversed(found[0]):
        sql = sql[:start] + name + sql[end:]
    return sql


class _Walk(Cursor):
    """Finds the names in one statement."""

    def __init__(
        self, sql: str, tokens: Sequence[Token], database: str, names: Names, databases: Callable[[str], str]
    ) -> None:
        super().__init__(tokens)
        self._sql = sql
        self._database, self._names, self._databases = database, names, databases
        self._bare: list[tuple[int, int, str]] = []

    def changes(self) -> list[tuple[int, int, str]]:
        """Return where a name stands that changes, and what stands there then, from left to right."""
        found = [*self._changed()]
        return sorted(found + self._bare) if found else []

    def _changed(self) -> Iterator[tuple[int, int, str]]:
        verb = self.word()
        if verb == "TRUNCATE" and self.peek() != "TABLE":
            yield from self._table()
            return
        while self.peek() not in _SUBJECTS:
            self.at += 1
        subject = self.word()
        if subject == "POLICY":
            return
        if subject == "INDEX":
            while self.word() != "ON":
                pass
        self.skip("IF", "NOT", "EXISTS")
        if subject in ("DATABASE", "SCHEMA"):
            while self.more() and self.peek() not in NAMELESS:
                yield from self._of_database()
                if not self.skip("TO"):
                    return
            return
        yield from self._table()
        while self.skip(",") or (verb in ("RENAME", "FLASHBACK") and self.skip("TO")):
            yield from self._table()
        if verb == "CREATE" and subject == "TABLE" and (self.skip("LIKE") or self._ahead("(", "LIKE")):
            yield from self._table()
        yield from self._view() if subject == "VIEW" and verb != "DROP" else self._rest(verb)

    def _rest(self, verb: str) -> Iterator[tuple[int, int, str]]:
        """Yield the tables that the clauses of a statement name."""
        while self.more():
            word = self.word()
            if word == "REFERENCES" or (word == "WITH" and self.skip("TABLE")):
                yield from self._table()
            elif verb == "ALTER" and word == "RENAME" and self.peek() not in ("COLUMN", "INDEX", "KEY"):
                self.skip("TO", "AS", "=")
                yield from self._table()

    def _view(self) -> Iterator[tuple[int, int, str]]:
        """Yield the tables of a view's query, and its columns that name one."""
        from tidecast.model._ddl_tokens import query_names

        while self.word() != "AS":
            pass
        begin, end = self.tokens[self.at].start, self.tokens[-1].end
        for n, token in enumerate(self.tokens):
            if token.word == "CHECK" and n > self.at:
                end = [t.start for t in self.tokens[:n] if t.word == "WITH"][-1]
        tables, columns, aliases = query_names(self._sql, begin, end)
        targets: dict[str, str] = {}
        for parts, has_alias in tables:
            yield from self._change(parts)
            if not has_alias:
                targets[parts[-1].text.lower()] = self._target(parts)[1]
        for parts in columns:
            name = parts[-1].text.lower()
            if len(parts) == 2:
                yield from self._change(parts)
            elif targets.get(name, name).lower() != name:
                if name in aliases:
                    raise ValueError("a column of one of two tables")
                (table,) = parts
                yield table.start, table.end, _quoted(targets[name])

    def _table(self) -> Iterator[tuple[int, int, str]]:
        """Yield the name of a table that stands here, if it changes."""
        parts = self._parts()
        if len(parts) > 2:
            raise ValueError("no name of a table")
        yield from self._change(parts)

    def _target(self, parts: Sequence[Token]) -> tuple[str, str]:
        return self._names(*self._source(parts))

    def _source(self, parts: Sequence[Token]) -> tuple[str, str]:
        return (parts[0].text if len(parts) == 2 else self._database), parts[-1].text

    def _change(self, parts: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
        source, target = self._source(parts), self._target(parts)
        change = parts[0].start, parts[-1].end, ".".join(map(_quoted, target))
        if target != source:
            yield change
        elif len(parts) == 1 and source[0]:
            self._bare.append(change)

    def _of_database(self) -> Iterator[tuple[int, int, str]]:
        """Yield the name of a database that stands here, if it changes."""
        (name,) = self._parts()
        if (target := self._databases(name.text)) != name.text:
            yield name.start, name.end, _quoted(target)

    def _parts(self) -> list[Token]:
        """Return the parts of a name that stands here, without the dots between them."""
        parts = [self.next()]
        while self.skip("."):
            parts.append(self.next())
        return parts

    def _ahead(self, *words: str) -> bool:
        """Skip words if they all come next; tell whether they did."""
        there = tuple(t.word for t in self.tokens[self.at : self.at + len(words)]) == words
        self.at += len(words) if there else 0
        return there


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
