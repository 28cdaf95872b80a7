"""Wall clock text between time zones."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import TEXT, content_of, gather, joined

CANONICAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_TO_SECONDS = 19
_DIGITS = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
_BLANK = np.frombuffer(b"0000-00-00 00:00:00", np.uint8)
_PLACES = {"year": (0, 4), "month": (4, 6), "day": (6, 8), "hour": (8, 10), "minute": (10, 12), "second": (12, 14)}
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_FIRST, _LAST = dt.date(1969, 12, 1), dt.date(2039, 1, 1)
"""Around all times that TIMESTAMP has."""
_EPOCH = dt.date(1970, 1, 1)
_DAY = 86_400


def shift_zone(column: pa.Array, from_zone: str, to_zone: str) -> pa.Array:
    """Return TIMESTAMP text, as a wall clock in one zone shows it, as one in another zone does.

    In and out: text `YYYY-MM-DD hh:mm:ss[.ffffff]`, with the same number of digits after the point. The zero date, days
    that no calendar has and any other text stay as they are; null stays null. A wall clock time that comes twice or
    never, since clocks change, is taken as Go's `time.Date` takes it. Zones are names such as `Asia/Shanghai`, `UTC` or
    offsets such as `+08:00`. Before 1970 and from 2039 on, a zone's offset is that of its first or last day here.
    """
    if from_zone == to_zone:
        return column
    parts, canonical = clock_parts(column)
    if not canonical.any():
        return column
    seconds, real = seconds_of(**parts)
    moves = canonical & real
    utc = _to_utc(np.where(moves, seconds, 0), from_zone)
    wall = utc + _offset_at(utc, to_zone)
    days, rest = np.divmod(wall, _DAY)
    moves &= (days >= _MIN_DAY) & (days <= _MAX_DAY)
    whole = joined([wall_clock(days, rest), pc.utf8_slice_codeunits(column, _TO_SECONDS)], TEXT)
    return pc.if_else(pa.array(moves), whole, column)


_FIRST_DAY = -719_528
"""The first day of the year 0."""
_MIN_DAY, _MAX_DAY = ((dt.date(year, month, day) - _EPOCH).days for year, month, day in ((1, 1, 1), (9999, 12, 31)))


def clock_parts(text: pa.Array) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return year, month, day, hour, minute and second of wall clock times, and which texts show them."""
    canonical = np.asarray(pc.fill_null(pc.match_substring_regex(text, CANONICAL), False))
    data, offsets = content_of(text)
    digits = data.take(offsets[:-1, None] + _DIGITS, mode="clip").astype(np.int64) - ord("0")
    return {name: _number(digits[:, first:end]) for name, (first, end) in _PLACES.items()}, canonical


def is_zone(name: str) -> bool:
    """Tell whether times can be moved to and from a time zone."""
    try:
        return _transitions(name) is not None
    except (OSError, ValueError, KeyError):
        return False


def _number(digits: np.ndarray) -> np.ndarray:
    number: np.ndarray = digits @ (10 ** np.arange(digits.shape[1])[::-1])
    return number


def seconds_of(
    year: np.ndarray, month: np.ndarray, day: np.ndarray, hour: np.ndarray, minute: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds since 1970 of a wall clock's time, and which times a calendar and a clock have."""
    real = (year >= 1) & (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60)
    months = (np.where(real, year, 1970) - 1970) * 12 + np.where(real, month, 1) - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    real &= (day >= 1) & (day <= after - first)
    return ((first + day - 1) * _DAY + hour * 3600 + minute * 60 + second), real


def wall_clock(days: np.ndarray, seconds: np.ndarray, first: int = 0, end: int = _TO_SECONDS) -> pa.Array:
    """Return days since 1970 and seconds of the day as text, or some characters of it; null beyond four-digit years."""
    count = len(days)
    starts = np.arange(count) * _TO_SECONDS + first
    there = (days >= _FIRST_DAY) & (days <= _MAX_DAY)
    length = np.where(there, end - first, 0)
    return gather(_written(days, seconds).ravel(), starts, length, there).cast(TEXT)


def _written(days: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return days since 1970 and seconds of the day as the bytes of their text, 19 a row."""
    date = np.clip(days, _FIRST_DAY, _MAX_DAY).astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    months = month.astype(np.int64)
    year = months // 12 + 1970
    dates = (year // 100, year % 100, months % 12 + 1, (date - month).astype(np.int64) + 1)
    values = (*dates, seconds // 3600, seconds // 60 % 60, seconds % 60)
    text = np.tile(_BLANK, (len(days), 1))
    for pair, value in enumerate(values):
        tens, ones = _DIGITS[2 * pair], _DIGITS[2 * pair + 1]
        text[:, tens] += (value // 10).astype(np.uint8)
        text[:, ones] += (value % 10).astype(np.uint8)
    return text


def _to_utc(wall: np.ndarray, zone: str) -> np.ndarray:
    """Return the time in UTC. The zone's offset depends on that time, so a first guess of it gives the offset."""
    near: np.ndarray = wall - _offset_at(wall, zone)
    utc: np.ndarray = wall - _offset_at(near, zone)
    return utc


def _offset_at(utc: np.ndarray, zone: str) -> np.ndarray:
    """Return a zone's offset in seconds at moments in UTC."""
    moments, offsets = _transitions(zone)
    found: np.ndarray = offsets.take(np.searchsorted(moments, utc, side="right"))
    return found


@lru_cache(32)
def _transitions(zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Return when a zone's offset changes, in seconds since 1970, and the offsets before, between and after."""
    if found := _OFFSET.fullmatch(zone):
        size = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
        return np.zeros(0, np.int64), np.array([-size if found[1] == "-" else size])
    info = ZoneInfo("UTC" if zone == "Z" else zone)

    def offset(moment: int) -> int:
        at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(seconds=moment)
        difference = at.astimezone(info).utcoffset()
        assert difference is not None
        return int(difference.total_seconds())

    moments: list[int] = []
    start = (_FIRST - _EPOCH).days * _DAY
    offsets = [offset(start)]
    for day in range(start, (_LAST - _EPOCH).days * _DAY, _DAY):
        if offset(day + _DAY) == offsets[-1]:
            continue
        low, high = day, day + _DAY  # the change is after `low`, and at `high` or before
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle) != offsets[-1] else (middle, high)
        moments.append(high)
        offsets.append(offset(high))
    return np.array(moments, np.int64), np.array(offsets, np.int64)
