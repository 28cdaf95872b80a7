"""A walk over the tokens of a schema change's SQL, from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Token(NamedTuple):
    """A name, a literal or a mark, and where it begins and ends in the SQL.

    `word` is the upper-case text of what is not quoted, else empty. `type` is the name of sqlglot's `TokenType`.
    `plain` is what is quoted as a text in which a backslash has no meaning.
    """

    text: str
    word: str
    type: str
    start: int
    end: int
    plain: str = ""


class Cursor:
    """A place among tokens. At the end `peek` and what takes a token raise IndexError."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def more(self) -> bool:
        """Tell whether a token comes."""
        return self.at < len(self.tokens)

    def peek(self) -> str:
        """Return the word of the next token."""
        return self.tokens[self.at].word

    def next(self) -> Token:
        """Take the next token."""
        self.at += 1
        return self.tokens[self.at - 1]

    def word(self) -> str:
        """Take the next token, and return its word."""
        return self.next().word

    def skip(self, *words: str) -> bool:
        """Skip those of the words that come next; tell whether there was any."""
        start = self.at
        while self.more() and self.peek() in words and self.peek():
            self.at += 1
        return self.at > start
