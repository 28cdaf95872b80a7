"""The page of dead letters: the place and cause of each, not its content."""

from __future__ import annotations

import shlex
from itertools import islice
from typing import Any

from tidecast._errors import TidecastError
from tidecast.server._answers import moment
from tidecast.storage import AnyPath
from tidecast.topics import DeadLetter, dead_letters_in

_SHOWN = 100


def letters_command(what: str, where: str, *options: str) -> str:
    """Return a command that shows dead letters."""
    return shlex.join(("tidecast", "dead-letters", what, where, *options))


def first_letters(folder: AnyPath | None) -> dict[str, Any]:
    """Return the first hundred dead letters of a folder, None for none, in JSON's types."""
    if folder is None:
        return {"letters": [], "more": False, "command": None, "problem": None}
    where = str(folder)
    found, problem = [], None
    try:
        # The content of a message may be large, and is dropped at once.
        found = [_shown(letter, where) for letter in islice(dead_letters_in(folder), _SHOWN + 1)]
    except TidecastError as error:
        problem = str(error)
    except OSError as error:
        problem = f"the dead letters cannot be read: {error.strerror}"
    return {
        "letters": found[:_SHOWN],
        "more": len(found) > _SHOWN,
        "command": letters_command("list", where),
        "problem": problem,
    }


def _time(timestamp: int | None) -> str | None:
    try:
        return None if timestamp is None else moment(timestamp / 1000, "milliseconds")
    except (ValueError, OverflowError, OSError):  # a producer may send any number
        return str(timestamp)


def _shown(letter: DeadLetter, where: str) -> dict[str, Any]:
    place = {"--topic": letter.topic, "--partition": letter.partition, "--offset": letter.offset}
    options = (text for option, value in place.items() if value is not None for text in (option, str(value)))
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "time": _time(letter.timestamp),
        "reason": letter.reason,
        "detail": letter.detail,
        "command": letters_command("show", where, *options),
    }
