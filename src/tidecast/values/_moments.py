"""MySQL's text of dates and times as numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import TEXT, content_of, null_where, rewritten, to_numpy, valid
from tidecast.values._zones import CANONICAL, clock_parts, seconds_of, wall_clock

_DAY = 86_400
_HOUR, _SECOND = 3600, 1_000_000
_DATE_WIDTH = len("YYYY-MM-DD")
_FRACTION = 20
"""Where the digits after the point begin."""
_CLOCK = r"^(?P<sign>-?)(?P<hours>\d{1,9}):(?P<minutes>\d{1,2}):(?P<seconds>\d{1,2})(?:\.(?P<fraction>\d{1,6}))?$"

Years = Callable[[np.ndarray], np.ndarray]
"""What is made of years before they are looked up in a calendar."""


def days_of(date: pa.Array, years: Years) -> pa.Array:
    """Return days since 1970 of dates, `YYYY-MM-DD`, as int64; null for a day that no calendar has."""
    parts, real = clock_parts(pc.binary_join_element_wise(date, pa.scalar("00:00:00", TEXT), pa.scalar(" ", TEXT)))
    seconds, there = seconds_of(**{**parts, "year": years(parts["year"])})
    return pa.array(seconds // _DAY, mask=~(there & real))


def micros_of(moment: pa.Array, years: Years) -> pa.Array:
    """Return microseconds since 1970 of wall clock times, `YYYY-MM-DD hh:mm:ss[.ffffff]`, as int64.

    Null for a time that no calendar has.
    """
    parts, real = clock_parts(moment)
    seconds, there = seconds_of(**{**parts, "year": years(parts["year"])})
    data, offsets = content_of(moment)
    places = offsets[:-1, None] + _FRACTION + np.arange(6)
    digits = np.where(places < offsets[1:, None], data.take(places, mode="clip").astype(np.int64) - ord("0"), 0)
    return pa.array(seconds * _SECOND + digits @ (10 ** np.arange(6)[::-1]), mask=~(there & real))


def calendar_value(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the dates or times of MySQL's text as date32, or as a timestamp of microseconds.

    Null for a day that no calendar has, and for any other text. Beside MySQL's own form those are read that Spark
    reads: a date with a time behind it, numbers of one digit, `T` in place of the blank.
    """
    is_date = kind == pa.date32()
    written = _WRITTEN_DATE if is_date else _WRITTEN_MOMENT if kind.tz is None else _WRITTEN_IN_UTC
    forms = _DAY_FORM if is_date else CANONICAL
    odd = np.flatnonzero(~np.asarray(pc.fill_null(pc.match_substring_regex(text, forms), True)))
    text = rewritten(text, odd, lambda other: _in_mysqls_form(other, written, is_date))
    # Numpy's calendar here begins with the year 1, and MySQL's with 0.
    if is_date:
        return pc.subtract(days_of(text, _after_a_cycle), _CYCLE).cast(pa.int32()).cast(kind)
    return pc.subtract(micros_of(text, _after_a_cycle), _CYCLE * _DAY * _SECOND).cast(kind)


_CYCLE = 146_097
"""The days of 400 years, after which the calendar begins anew."""
_DAY_FORM = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATE = r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_SECONDS = r"[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d*))?"
_TIME = r"[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(?:Z|UTC|[+-]\d\d:\d\d)?)?"
_WRITTEN_DATE = re.compile(_DATE + r"(?:[ T].*)?)?)?\s*")
_WRITTEN_MOMENT = re.compile(_DATE + rf"(?:{_TIME})?)?)?\s*")
_WRITTEN_IN_UTC = re.compile(rf"\s*(\d{{4}})-(\d{{1,2}})-(\d{{1,2}}){_SECONDS}\s*")


def _after_a_cycle(years: np.ndarray) -> np.ndarray:
    later: np.ndarray = years + 400
    return later


def _in_mysqls_form(text: str, written: re.Pattern[str], is_date: bool) -> str | None:
    found = written.fullmatch(text)
    if found is None:
        return None
    year, month, day, *clock = found.groups()
    date = f"{year}-{int(month or 1):02}-{int(day or 1):02}"
    if is_date:
        return date
    hour, minute, second, fraction = clock
    whole = f"{date} {int(hour or 0):02}:{int(minute or 0):02}:{int(second or 0):02}"
    return f"{whole}.{fraction[:6]}" if fraction else whole


def clock_micros(time: pa.Array) -> pa.Array:
    """Return the microseconds of TIME values, `[-]hhh:mm:ss[.ffffff]`, as int64; null for any other text."""
    parts = pc.extract_regex(time, _CLOCK)
    if parts.null_count == len(parts):
        return pa.nulls(len(time), pa.int64())
    sign, *texts, fraction = (parts.field(n) for n in range(parts.type.num_fields))
    hours, minutes, seconds = (_whole(text) for text in texts)
    size = ((hours * 60 + minutes) * 60 + seconds) * _SECOND + _whole(pc.utf8_rpad(fraction, 6, "0"))
    negative = np.asarray(pc.fill_null(pc.equal(sign, "-"), False))
    return null_where(pa.array(np.where(negative, -size, size)), np.asarray(parts.is_null()))


def _whole(text: pa.Array) -> np.ndarray:
    return to_numpy(pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64()))


def date_text(days: pa.Array) -> pa.Array:
    """Return days since 1970 (int64) as dates, `YYYY-MM-DD`; null beyond four-digit years."""
    text = wall_clock(to_numpy(days), np.zeros(len(days), np.int64), end=_DATE_WIDTH)
    return null_where(text, ~valid(days))


def moment_text(seconds: pa.Array, fraction: pa.Array) -> pa.Array:
    """Return seconds since 1970 (int64) as wall clock times with these fractions; null beyond four-digit years."""
    days, rest = np.divmod(to_numpy(seconds), _DAY)
    return pc.binary_join_element_wise(wall_clock(days, rest), fraction, pa.scalar("", TEXT))


def clock_text(micros: pa.Array, fraction: pa.Array) -> pa.Array:
    """Return microseconds (int64) as TIME values, `[-]hhh:mm:ss`, with these fractions."""
    number = to_numpy(micros)
    seconds = np.abs(number) // _SECOND
    hours, rest = np.divmod(seconds, _HOUR)
    clock = wall_clock(np.zeros(len(number), np.int64), rest, first=_DATE_WIDTH + len(" hh"))
    sign = pc.if_else(pa.array(number < 0), pa.scalar("-", TEXT), pa.scalar("", TEXT))
    text = pa.array(hours).cast(TEXT)
    padded = pc.if_else(pc.less(pc.binary_length(text), 2), pc.utf8_lpad(text, 2, "0"), text)
    return pc.binary_join_element_wise(sign, padded, clock, fraction, pa.scalar("", TEXT))
