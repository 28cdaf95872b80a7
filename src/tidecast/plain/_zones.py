"""Wall clock text between time zones. The twin of `tidecast.expressions.shift_zone`."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

from tidecast.plain._takes_spark import TakesSpark, need

_CANONICAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_TO_SECONDS = 19
_FIRST_YEAR, _LAST_YEAR = 1970, 2100
_NAME = re.compile(r"[A-Z]\w+(/[A-Z][\w+-]+)+")
_OFFSET = re.compile(r"([+-])([01][0-9]):([0-5][0-9])")


def zone_named(name: str) -> dt.tzinfo:
    """Return a time zone. Raises TakesSpark for one that this Python and Spark may not both know."""
    if name == "UTC":
        return dt.UTC
    if offset := _OFFSET.fullmatch(name):
        size = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return dt.timezone(-size if offset[1] == "-" else size)
    need(_NAME.fullmatch(name) is not None, "an unusual time zone")
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise TakesSpark(str(error)) from None


def in_utc(text: str, zone: dt.tzinfo) -> str:
    """Return TIMESTAMP text, as a wall clock in a zone shows it, in UTC; what is no moment stays.

    A wall clock time that comes twice or never is taken as Go's `time.Date` takes it.
    """
    if zone is dt.UTC or not _CANONICAL.fullmatch(text):
        return text
    try:
        wall = dt.datetime.fromisoformat(text[:_TO_SECONDS])
    except ValueError:
        need(not text.startswith("0000") or text.startswith("0000-00-00"), "a day of the year 0")
        return text
    need(_FIRST_YEAR <= wall.year < _LAST_YEAR, "a moment that TIMESTAMP does not have")
    near = wall - _offset(wall, zone)
    return str(wall - _offset(near, zone)) + text[_TO_SECONDS:]


def _offset(moment: dt.datetime, zone: dt.tzinfo) -> dt.timedelta:
    """Return a zone's offset at a moment in UTC."""
    offset = moment.replace(tzinfo=dt.UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset
