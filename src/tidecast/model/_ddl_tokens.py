"""The tokens of a schema change's SQL. They come from sqlglot, which takes longer to import than most programs need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from sqlglot import TokenError, TokenType, tokenize
from sqlglot.dialects.mysql import MySQL

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


class _WithoutEscapes(MySQL):
    class Tokenizer(MySQL.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']


def split(sql: str, *, escapes: bool) -> list[tuple[str, str, str]]:
    """Return each token's text, its upper-case word where it is not quoted, else "", and the name of its `TokenType`.

    `escapes` tells that a backslash has a meaning in texts. Raises ValueError where the SQL has no tokens.
    """
    try:
        return list(_split(sql, MySQL if escapes else _WithoutEscapes))
    except TokenError as error:
        raise ValueError(str(error)) from None


def _split(sql: str, dialect: type[MySQL]) -> Iterator[tuple[str, str, str]]:
    tokens = tokenize(sql, read=dialect)
    if len(tokens) > 1 and tokens[0].token_type is TokenType.RENAME:
        tokens[1:] = tokenize(tokens[1].text, read=dialect)  # what follows RENAME comes as one token
    for token in tokens:
        if token.token_type in _QUOTED:
            yield token.text, "", token.token_type.name
        elif token.token_type is not TokenType.SEMICOLON:
            yield from ((text, text.upper(), token.token_type.name) for text in token.text.split())
