"""Wall clock text between time zones."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_CANONICAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?\z"
_TO_SECONDS = 19
_UTC = "UTC"


def shift_zone(column: Column, from_zone: str | Column, to_zone: str) -> Column:
    """Return TIMESTAMP text, as a wall clock in one zone shows it, as one in another zone does.

    In and out: string `YYYY-MM-DD hh:mm:ss[.ffffff]`, with the same number of digits after the point. The zero
    date, days that no calendar has and any other text stay as they are; null stays null. A wall clock time that
    comes twice or never, since clocks change, is taken as Go's `time.Date` takes it. The session's time zone has no
    say. Zones are Java's names or offsets (`+08:00`); `from_zone` may be a column of them.
    """
    if isinstance(from_zone, str) and from_zone == to_zone:
        return column
    # A timestamp without zone never meets the session's zone; its fraction would lose trailing zeros as text.
    local = F.substring(column, 1, _TO_SECONDS).try_cast("timestamp_ntz")
    utc = local if isinstance(from_zone, str) and from_zone == _UTC else _in_utc(local, from_zone)
    moved = utc if to_zone == _UTC else F.convert_timezone(F.lit(_UTC), F.lit(to_zone), utc)
    whole = F.concat(moved.cast("string"), F.substring(column, _TO_SECONDS + 1, 7))
    return F.when(column.rlike(_CANONICAL), F.coalesce(whole, column)).otherwise(column)


def _in_utc(wall: Column, zone: str | Column) -> Column:
    """Return the time in UTC. The zone's offset depends on that time, so a first guess of it gives the offset."""

    def offset(moment: Column) -> Column:
        return F.convert_timezone(F.lit(_UTC), F.lit(zone), moment) - moment

    # An array's elements are computed once, however often the function speaks of them.
    near = F.transform(F.array(wall), lambda moment: moment - offset(moment))
    return F.get(F.transform(near, lambda moment: wall - offset(moment)), 0)
