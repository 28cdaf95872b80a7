"""Wall clock text between time zones."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_CANONICAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"
_TO_SECONDS = 19


def shift_zone(column: Column, from_zone: str | Column, to_zone: str) -> Column:
    """Return TIMESTAMP text, as a wall clock in one zone shows it, as one in another zone does.

    In and out: string `YYYY-MM-DD hh:mm:ss[.ffffff]`, with the same number of digits after the point. The zero
    date, days that no calendar has and any other text stay as they are; null stays null. A wall clock time that
    comes twice (clocks go back) is the earlier of the two; one that never comes (clocks go forward) is taken by
    the offset before the change. The session's time zone has no say. Zones are Java's names or
    offsets (`+08:00`); `from_zone` may be a column of them.
    """
    if isinstance(from_zone, str) and from_zone == to_zone:
        return column
    # A timestamp without zone never meets the session's zone; its fraction would lose trailing zeros as text.
    local = F.substring(column, 1, _TO_SECONDS).try_cast("timestamp_ntz")
    moved = F.convert_timezone(F.lit(from_zone), F.lit(to_zone), local).cast("string")
    whole = F.concat(moved, F.substring(column, _TO_SECONDS + 1, 7))
    return F.when(column.rlike(_CANONICAL), F.coalesce(whole, column)).otherwise(column)
