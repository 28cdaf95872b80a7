"""TSO: TiDB's commit-ts, physical milliseconds << 18 | a logical counter."""

from __future__ import annotations

import datetime as dt
import time

LOGICAL_BITS = 18
_FIRST = 10**15
_DAY = 86_400


def physical_ms(tso: int) -> int:
    """Return the wall-clock part of a TSO, in milliseconds since the epoch."""
    return tso >> LOGICAL_BITS


def compose(physical: int, logical: int = 0) -> int:
    """Return the TSO of a wall-clock time in milliseconds and a logical counter."""
    return physical << LOGICAL_BITS | logical


def is_tso(number: int) -> bool:
    """Tell whether a number has as many digits as a TSO; those of schemas and tables have fewer."""
    return number >= _FIRST


def latest_tso() -> int:
    """Return a TSO that no commit-ts reaches: one flipped bit would otherwise make a row the newest for good.

    It is two days ahead of this machine's clock, and the same all day.
    """
    return compose((int(time.time()) // _DAY + 2) * _DAY * 1000)


def to_datetime(tso: int) -> dt.datetime:
    """Return the wall-clock time of a TSO, in UTC."""
    return dt.datetime.fromtimestamp(physical_ms(tso) / 1000, tz=dt.UTC)


def read_tso(text: str) -> int | None:
    """Return the TSO of a text: a number, or a time in ISO 8601, in UTC where it names no zone; None for neither."""
    if text.isdecimal():
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return compose(round(zoned.timestamp() * 1000))
