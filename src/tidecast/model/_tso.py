"""TSO: TiDB's commit-ts, physical milliseconds << 18 | a logical counter."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import Column
from pyspark.sql import functions as F

LOGICAL_BITS = 18


def physical_ms(tso: int) -> int:
    """Return the wall-clock part of a TSO, in milliseconds since the epoch."""
    return tso >> LOGICAL_BITS


def physical_ms_of(tso: Column) -> Column:
    """Return the wall-clock part of a TSO column (bigint), in milliseconds since the epoch."""
    return F.shiftright(tso, LOGICAL_BITS)


def compose(physical: int, logical: int = 0) -> int:
    """Return the TSO of a wall-clock time in milliseconds and a logical counter."""
    return physical << LOGICAL_BITS | logical


def is_tso(tso: Column) -> Column:
    """Tell whether a number (bigint) can be a commit-ts: neither negative nor ahead of this machine's clock by days.

    One flipped bit would otherwise make a row the newest for good, or a watermark that all rows to come lie below.
    """
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=2)  # the same all day, so that plans are, too
    latest = int(dt.datetime.combine(tomorrow, dt.time(), dt.UTC).timestamp() * 1000)
    return (tso >= 0) & (tso < F.lit(compose(latest)))


def to_datetime(tso: int) -> dt.datetime:
    """Return the wall-clock time of a TSO, in UTC."""
    return dt.datetime.fromtimestamp(physical_ms(tso) / 1000, tz=dt.UTC)
