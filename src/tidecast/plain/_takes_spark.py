"""What stops the reading of a message in Python."""

from __future__ import annotations

from typing import Never


class TakesSpark(Exception):
    """A message is not surely sound: what it says, or what is wrong with it, is for Spark's reader to tell."""


def takes_spark(why: str) -> Never:
    """Raise TakesSpark."""
    raise TakesSpark(why)


def need(condition: bool, what: str) -> None:
    """Raise TakesSpark unless a condition holds."""
    if not condition:
        takes_spark(what)
