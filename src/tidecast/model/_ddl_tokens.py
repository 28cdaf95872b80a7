"""The tokens of a schema change's SQL. They come from sqlglot, which takes longer to import than most programs need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from sqlglot import TokenError, TokenType, exp, parse_one, tokenize
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from tidecast.model._ddl_cursor import Token

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


class _WithoutEscapes(MySQL):
    class Tokenizer(MySQL.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']


def split(sql: str, *, escapes: bool) -> list[Token]:
    """Return the tokens of a statement.

    `escapes` tells that a backslash has a meaning in texts. Raises ValueError where the SQL has no tokens.
    """
    try:
        return list(_split(sql, MySQL if escapes else _WithoutEscapes))
    except TokenError as error:
        raise ValueError(str(error)) from None


def query_names(sql: str, begin: int, end: int) -> tuple[list[tuple[list[Token], bool]], list[list[Token]], set[str]]:
    """Return the tables of a query, and whether each has an alias; the tables that its columns name; and all aliases.

    In: a statement, and where the query begins and ends in it. Tables are parts of a name. Those of its own WITH are
    aliases, which come in lower case. Raises ValueError for a query that cannot be read.
    """

    def parts(*identifiers: exp.Expression | None) -> list[Token]:
        there = [(one.name, one.meta) for one in identifiers if one is not None]
        return [Token(name, "", "VAR", begin + at["start"], begin + at["end"] + 1) for name, at in there]

    try:
        query = parse_one(sql[begin:end], read=MySQL)
    except (SqlglotError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(query, exp.Query):
        raise ValueError("no query")
    aliases = {common.alias.lower() for common in query.find_all(exp.CTE)}
    named = [(parts(table.args.get("db"), table.this), table.alias) for table in query.find_all(exp.Table)]
    tables = [(name, bool(alias)) for name, alias in named if len(name) > 1 or name[0].text.lower() not in aliases]
    columns = [parts(c.args.get("db"), c.args["table"]) for c in query.find_all(exp.Column) if c.args.get("table")]
    return tables, columns, aliases | {alias.lower() for _, alias in named if alias}


def _split(sql: str, dialect: type[MySQL]) -> Iterator[Token]:
    tokens = [(token, 0) for token in tokenize(sql, read=dialect)]
    if len(tokens) > 1 and tokens[0][0].token_type is TokenType.RENAME:
        rest = tokens[1][0].text  # what follows RENAME comes as one token
        begin = sql.index(rest, tokens[0][0].end)
        tokens[1:] = [(token, begin) for token in tokenize(rest, read=dialect)]
    for token, begin in tokens:
        place = token.token_type.name, begin + token.start, begin + token.end + 1
        if token.token_type in _QUOTED:
            quote, text = sql[place[1]], sql[place[1] + 1 : place[2] - 1]
            yield Token(token.text, "", *place, text.replace(quote * 2, quote))
        elif token.token_type is not TokenType.SEMICOLON:
            yield from (Token(text, text.upper(), *place) for text in token.text.split())
