"""The tokens of a schema change's SQL. They come from sqlglot, which takes longer to import than most programs need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from sqlglot import Token, TokenError, TokenType, exp, parse_one, tokenize
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


class _WithoutEscapes(MySQL):
    class Tokenizer(MySQL.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']


def split(sql: str, *, escapes: bool) -> list[tuple[str, str, str]]:
    """Return each token's text, its upper-case word where it is not quoted, else "", and the name of its `TokenType`.

    `escapes` tells that a backslash has a meaning in texts. Raises ValueError where the SQL has no tokens.
    """
    return [(text, word, token.token_type.name) for text, word, token, _ in _words(sql, escapes)]


def places(sql: str, *, escapes: bool) -> list[tuple[str, str, int, int]]:
    """Return each token's text and word, as `split`, and where it begins and ends in the SQL. Raises as `split`."""
    return [(text, word, at + token.start, at + token.end + 1) for text, word, token, at in _words(sql, escapes)]


Part = tuple[str, int, int]
"""A part of a name, and where it begins and ends in the SQL."""


def query_names(sql: str) -> tuple[list[tuple[list[Part], bool]], list[list[Part]], set[str]]:
    """Return the tables of a query, and whether each has an alias; the tables that its columns name; and all aliases.

    Tables are parts of a name. Those of its own WITH are aliases, which come in lower case. Raises ValueError for a
    query that cannot be read.
    """
    try:
        query = parse_one(sql, read=MySQL)
    except (SqlglotError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(query, exp.Query):
        raise ValueError("no query")
    aliases = {common.alias.lower() for common in query.find_all(exp.CTE)}
    named = [(_parts(table.args.get("db"), table.this), table.alias) for table in query.find_all(exp.Table)]
    tables = [(parts, bool(alias)) for parts, alias in named if len(parts) > 1 or parts[0][0].lower() not in aliases]
    columns = [_parts(c.args.get("db"), c.args["table"]) for c in query.find_all(exp.Column) if c.args.get("table")]
    return tables, columns, aliases | {alias.lower() for _, alias in named if alias}


def _parts(*identifiers: exp.Expression | None) -> list[Part]:
    return [(part.name, part.meta["start"], part.meta["end"] + 1) for part in identifiers if part is not None]


def _words(sql: str, escapes: bool) -> list[tuple[str, str, Token, int]]:
    try:
        return list(_split(sql, MySQL if escapes else _WithoutEscapes))
    except TokenError as error:
        raise ValueError(str(error)) from None


def _split(sql: str, dialect: type[MySQL]) -> Iterator[tuple[str, str, Token, int]]:
    """Yield text, word and token, and where the text begins in which its places count."""
    tokens = [(token, 0) for token in tokenize(sql, read=dialect)]
    if len(tokens) > 1 and tokens[0][0].token_type is TokenType.RENAME:
        rest = tokens[1][0].text  # what follows RENAME comes as one token
        begin = sql.index(rest, tokens[0][0].end)
        tokens[1:] = [(token, begin) for token in tokenize(rest, read=dialect)]
    for token, begin in tokens:
        if token.token_type in _QUOTED:
            yield token.text, "", token, begin
        elif token.token_type is not TokenType.SEMICOLON:
            yield from ((text, text.upper(), token, begin) for text in token.text.split())
