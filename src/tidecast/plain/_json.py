"""JSON messages that all readers take for the same."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from tidecast.plain._takes_spark import TakesSpark, need

_MOST_DIGITS, _LONGEST_NAME = 400, 1_000
"""Far from where Spark's reader gives up."""


def object_of(value: bytes) -> dict[str, Any]:
    """Return the members of a message that is one JSON object in UTF-8; numbers with a point are decimals.

    Raises TakesSpark for anything else, and for what readers take in different ways, as members of one name.
    """
    try:
        found = json.loads(
            value.decode("utf-8"),
            object_pairs_hook=_members,
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise TakesSpark(str(error)) from None
    need(isinstance(found, dict), "no object")
    return found  # type: ignore[no-any-return]


def member(members: dict[str, Any], name: str, kind: type, *, bits: int = 64) -> Any:
    """Return a member, None where it is null or not there. Raises TakesSpark for one of another type.

    A number is a signed one of so many bits.
    """
    value = members.get(name)
    if value is not None:
        need(type(value) is kind, f"{name} is of another type")
        need(kind is not int or -(1 << bits - 1) <= value < 1 << bits - 1, f"{name} is too large")
    return value


def _decimal(text: str) -> Decimal:
    need(len(text) <= _MOST_DIGITS, "a number that is too long")
    return Decimal(text)


def _integer(text: str) -> int:
    need(len(text) <= _MOST_DIGITS, "a number that is too long")
    return int(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    need(len(members) == len(pairs), "a member comes twice")
    for name, value in pairs:
        need(len(name) <= _LONGEST_NAME, "a name that is too long")
        _check_text(name)
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, list):
            for text in value:
                if isinstance(text, str):
                    _check_text(text)
    return members


def _check_text(text: str) -> None:
    """Raise TakesSpark for half a surrogate pair, which has no form in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TakesSpark(str(error)) from None


def _constant(name: str) -> None:
    raise TakesSpark(name)
