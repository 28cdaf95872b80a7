"""The functions of MySQL's that value expressions may call.

Each gets its arguments as values and their number is one that it allows. Functions that depend on more than the row,
such as `now`, are not here, nor those that TiDB and MySQL compute differently in a case that is not known beforehand.
Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tidecast.routing._values import (
    EXACT,
    INT64,
    UINT64,
    Read,
    Sort,
    Value,
    as_bytes,
    as_exact,
    as_text,
    as_truth,
    check_collation,
    clock_seconds,
    compare,
    constant,
    exact,
    integer,
    is_null,
    merged,
    moment_text,
    out_of_range,
    refuse,
    strict,
    text,
)

_LONGEST = 1 << 32  # of a text, in bytes


class Function(NamedTuple):
    """A function: what it makes of its arguments, and how many it takes."""

    build: Callable[..., Value]
    least: int
    most: int


def conditional(conditions: list[Read], values: list[Value]) -> Value:
    """Return the value of the first condition that holds; the last value is that of none."""
    kind, forms = merged(values)
    cases = [*zip(conditions, forms, strict=False)]

    def read(row: Sequence[Any]) -> Any:
        return next((form for condition, form in cases if condition(row)), forms[-1])(row)

    return replace(kind, read=read)


def _if(condition: Value, one: Value, other: Value) -> Value:
    return conditional([as_truth(condition)], [one, other])


def _coalesce(*values: Value) -> Value:
    kind, forms = merged(list(values))
    return replace(kind, read=lambda row: next((v for form in forms if (v := form(row)) is not None), None))


def _nullif(one: Value, other: Value) -> Value:
    kind, (form,) = merged([one])
    same = compare("=", one, other).read
    return replace(kind, read=lambda row: None if same(row) else form(row))


def _strcmp(one: Value, other: Value) -> Value:
    one, other = as_text(one), as_text(other)
    check_collation(one, other)
    blank = (strict(lambda t: t.rstrip(" "), v.read) for v in (one, other))
    return integer(strict(lambda a, b: (a > b) - (a < b), *blank), -1, 1)


def _octets(value: Value) -> Value:
    return integer(strict(len, as_bytes(value)), 0, _LONGEST)


def _characters(value: Value) -> Value:
    return integer(strict(len, as_text(value).read), 0, _LONGEST)


@cache
def _cases(*, upper: bool) -> dict[int, str]:
    """Return the characters that have another case, with it: one for one, as MySQL and Go have them."""
    pairs = ((letter, _one_upper(letter) if upper else _one_lower(letter)) for letter in map(chr, range(0x20000)))
    return {ord(letter): other for letter, other in pairs if letter != other}


def _one_upper(letter: str) -> str:
    found = (letter.upper(), letter.title())
    return next((one for one in found if len(one) == 1), letter)


def _one_lower(letter: str) -> str:
    return letter.lower()[0]


def _of_text(make: Callable[[str], str]) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        of = as_text(value)
        return text(strict(make, of.read), of)

    return build


def _concat(*values: Value) -> Value:
    texts = [as_text(v) for v in values]
    return text(strict(lambda *parts: "".join(parts), *(t.read for t in texts)), *texts)


def _concat_ws(*values: Value) -> Value:
    texts = [as_text(v) for v in values]
    separator, *parts = (t.read for t in texts)

    def read(row: Sequence[Any]) -> str | None:
        between = separator(row)
        return None if between is None else between.join(p for part in parts if (p := part(row)) is not None)

    return text(read, *texts)


def whole(value: Value) -> int:
    """Return the number that a literal whole number is."""
    if not (value.sort is Sort.EXACT and value.integer and value.literal is not None):
        refuse("a number in it must be written out as a whole number")
    return value.low


def _left(value: Value, length: Value) -> Value:
    size = max(whole(length), 0)
    return _of_text(lambda t: t[:size])(value)


def _right(value: Value, length: Value) -> Value:
    size = max(whole(length), 0)
    return _of_text(lambda t: t[max(len(t) - size, 0) :])(value)


def _substring(value: Value, start: Value, length: Value | None = None) -> Value:
    begin = whole(start)
    size = max(whole(length), 0) if length else _LONGEST

    def part(of: str) -> str:
        at = begin - 1 if begin > 0 else len(of) + begin
        # MySQL's is empty where it begins before the text does.
        return of[at : at + size] if begin and at >= 0 else ""

    return _of_text(part)(value)


def _replace(value: Value, what: Value, by: Value) -> Value:
    texts = [as_text(v) for v in (value, what, by)]
    if not texts[1].literal:
        refuse("what replace looks for must be written out")
    return text(strict(str.replace, *(t.read for t in texts)), *texts)


def _padded(name: str) -> Callable[[Value, Value, Value], Value]:
    def build(value: Value, length: Value, pad: Value) -> Value:
        of, by, size = as_text(value), as_text(pad), whole(length)
        if not by.literal or not 0 <= size < 1 << 16:
            refuse(f"the padding of {name} must be written out, and its length at most 65535")

        def padded(t: str, padding: str) -> str:
            missing = size - len(t)
            more = (padding * missing)[: max(missing, 0)]
            return (more + t if name == "lpad" else t + more)[:size]

        return text(strict(padded, of.read, by.read), of, by)

    return build


def _locate(part: Value, value: Value) -> Value:
    texts = [as_text(part), as_text(value)]
    check_collation(*texts)
    return integer(strict(lambda p, t: t.find(p) + 1, *(t.read for t in texts)), 0, _LONGEST)


def _find_in_set(one: Value, several: Value) -> Value:
    texts = [as_text(one), as_text(several)]
    check_collation(*texts)
    if not texts[0].literal:  # MySQL finds the empty text in no empty set
        refuse("what find_in_set looks for must be written out")

    def place(wanted: str, listed: str) -> int:
        elements = listed.split(",")
        return elements.index(wanted) + 1 if wanted in elements else 0

    return integer(strict(place, *(t.read for t in texts)), 0, _LONGEST)


def _hex(value: Value) -> Value:
    if value.sort in (Sort.TRUTH, Sort.EXACT):
        return text(strict("{:X}".format, bits(value)))
    return text(strict(lambda content: content.hex().upper(), as_bytes(value)))


def _md5(value: Value) -> Value:
    return text(strict(lambda content: hashlib.md5(content, usedforsecurity=False).hexdigest(), as_bytes(value)))


def _crc32(value: Value) -> Value:
    return integer(strict(zlib.crc32, as_bytes(value)), 0, (1 << 32) - 1, unsigned=True)


def bits(value: Value) -> Read:
    """Return a whole number's 64 bits, as the unsigned number that has them."""
    number = as_exact(value)
    if not number.integer:
        refuse("a number that is not whole stands where bits belong")
    return strict(lambda n: int(n) & UINT64[1], number.read)


def from_bits(read: Read) -> Value:
    """Return 64 bits as MySQL's BIGINT UNSIGNED; what `read` gives may have more."""
    return integer(strict(lambda n: n & UINT64[1], read), *UINT64, unsigned=True)


def _bit_count(value: Value) -> Value:
    return integer(strict(int.bit_count, bits(value)), 0, 64)


def _abs(value: Value) -> Value:
    if value.sort is Sort.REAL:
        return replace(value, read=strict(abs, value.read), literal=None)
    of = as_exact(value)
    bounds = (0, max(abs(of.low), abs(of.high)))
    magnitude = exact(strict(lambda n: n.copy_abs() if isinstance(n, Decimal) else abs(n), of.read), *bounds, of.scale)
    return fitting(replace(magnitude, integer=of.integer, unsigned=of.unsigned))


def fitting(value: Value) -> Value:
    """Return a whole number with a check that MySQL's type holds it, where it may not; any other as it is."""
    if not value.integer:
        return value
    low, high = UINT64 if value.unsigned else INT64
    if low <= value.low and value.high <= high:
        return value
    name = "BIGINT UNSIGNED" if value.unsigned else "BIGINT"
    read = strict(lambda n: n if low <= n <= high else out_of_range(name), value.read)
    return integer(read, max(low, value.low), min(high, value.high), unsigned=value.unsigned)


def _sign(value: Value) -> Value:
    number = value.read if value.sort is Sort.REAL else as_exact(value).read
    return integer(strict(lambda n: (n > 0) - (n < 0), number), -1, 1)


def _cut(rounding: str) -> Callable[[Value], Value]:
    """`floor`, `ceil`: exact numbers alone, of which MySQL's is one as well."""

    def build(value: Value) -> Value:
        of = as_exact(value)
        if of.integer:
            return replace(of, literal=None)
        unit = 10**of.scale
        low, high = of.low // unit, -(-of.high // unit)
        cut = exact(strict(lambda n: Decimal(n).to_integral_value(rounding, EXACT), of.read), low, high, 0)
        return replace(cut, integer=INT64[0] <= low and high <= INT64[1], unsigned=False)

    return build


def _to_scale(name: str, rounding: str) -> Callable[[Value, Value | None], Value]:
    """`round`, `truncate`: exact numbers alone."""

    def build(value: Value, digits: Value | None = None) -> Value:
        of, scale = as_exact(value), whole(digits) if digits else 0
        if scale < 0:
            refuse(f"{name} goes to digits after the point alone")
        if scale >= of.scale:
            return replace(of, literal=None)
        unit, last = 10 ** (of.scale - scale), Decimal(1).scaleb(-scale)
        read = strict(lambda n: Decimal(n).quantize(last, rounding, EXACT), of.read)
        return exact(read, of.low // unit, -(-of.high // unit), scale)

    return build


def _extreme(name: str, choose: Callable[..., Any]) -> Callable[..., Value]:
    def build(*values: Value) -> Value:
        kind, forms = merged(list(values))
        if kind.sort not in (Sort.EXACT, Sort.REAL):
            refuse(f"{name} is for numbers alone")
        return replace(kind, read=strict(choose, *forms))

    return build


def _of_date(value: Value) -> Read:
    """Return the text of a DATE or DATETIME."""
    if value.sort is Sort.TEXT and value.literal is not None:
        return constant(moment_text(value))
    if value.sort is not Sort.MOMENT:
        refuse(f"{value.sort.value} stands where a date belongs")
    return value.read


def _number(digits: str) -> int | None:
    """Return the number of a part of a date or time, None where the source sent another text."""
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _part(start: int, length: int, most: int) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        return integer(strict(lambda t: _number(t[start : start + length]), _of_date(value)), 0, most)

    return build


def _clock_part(number: int, most: int) -> Callable[[Value], Value]:
    def part(clock: str) -> int | None:
        parts = clock.lstrip("-").partition(".")[0].split(":")
        return _number(parts[number]) if number < len(parts) else None

    def build(value: Value) -> Value:
        if value.sort is Sort.CLOCK:
            return integer(strict(part, value.read), 0, most)
        return integer(strict(lambda t: part(f"{t} 00:00:00"[11:19]), _of_date(value)), 0, most)

    return build


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_MOST_STEPS = 100_000
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIRST_YEAR, _END_YEAR = np.datetime64("0000-01-01"), np.datetime64("10000-01-01")


def shifted(value: Value, steps: int, unit: str) -> Value:
    """Return a date that is so much later; null where it is none, or beyond the year 9999."""
    if value.sort is not Sort.MOMENT or abs(steps) > _MOST_STEPS or unit not in {*_MONTHS, *_SECONDS}:
        refuse("only a date, and one that is no literal, takes an INTERVAL, and one of a whole number of one unit")
    months, seconds = steps * _MONTHS.get(unit, 0), steps * _SECONDS.get(unit, 0)

    def later(moment: str) -> str | None:
        day = _day(moment)
        if day is None:
            return None
        try:
            time = np.datetime64(f"1970-01-01T{moment[11:] or '00:00:00'}", "us") - np.datetime64(0, "us")
        except ValueError:
            return None
        month = day.astype("M8[M]") + months
        last = (month + 1).astype("M8[D]") - 1
        day = min(month.astype("M8[D]") + (day - day.astype("M8[M]").astype("M8[D]")), last)
        found = day.astype("M8[us]") + time + np.timedelta64(seconds, "s")
        return str(found).replace("T", " ") if _FIRST_YEAR <= found < _END_YEAR else None

    return Value(strict(later, value.read), Sort.MOMENT, textless=True)


def _date(value: Value) -> Value:
    return Value(strict(lambda t: None if t[:10] == "0000-00-00" else t[:10], _of_date(value)), Sort.MOMENT)


def _day(moment: str) -> np.datetime64 | None:
    """Return the day of a date's text, None for one that no calendar has."""
    try:
        return np.datetime64(moment[:10], "D") if _DAY.match(moment) else None
    except ValueError:
        return None


def _of_day(make: Callable[[np.datetime64], int], low: int, high: int) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        return integer(strict(make, strict(_day, _of_date(value))), low, high)

    return build


def _number_of(day: np.datetime64) -> int:
    """Return the days since the first of January 1970, which was a Thursday."""
    return int(day.astype(np.int64))


def _day_of_year(day: np.datetime64) -> int:
    return _number_of(day) - _number_of(day.astype("M8[Y]").astype("M8[D]")) + 1


def _date_difference(one: Value, other: Value) -> Value:
    days = (strict(_number_of, strict(_day, _of_date(value))) for value in (one, other))
    return integer(strict(lambda a, b: a - b, *days), -4_000_000, 4_000_000)


def _time_to_sec(value: Value) -> Value:
    if value.sort is not Sort.CLOCK:
        refuse(f"{value.sort.value} stands where a TIME belongs")
    return integer(strict(int, strict(clock_seconds, value.read)), -(839 * 3600), 839 * 3600)


FUNCTIONS: dict[str, Function] = {
    "coalesce": Function(_coalesce, 1, sys.maxsize),
    "if": Function(_if, 3, 3),
    "ifnull": Function(_coalesce, 2, 2),
    "isnull": Function(is_null, 1, 1),
    "nullif": Function(_nullif, 2, 2),
    **dict.fromkeys(("length", "octet_length"), Function(_octets, 1, 1)),
    **dict.fromkeys(("char_length", "character_length"), Function(_characters, 1, 1)),
    **dict.fromkeys(("lower", "lcase"), Function(_of_text(lambda t: t.translate(_cases(upper=False))), 1, 1)),
    **dict.fromkeys(("upper", "ucase"), Function(_of_text(lambda t: t.translate(_cases(upper=True))), 1, 1)),
    "concat": Function(_concat, 1, sys.maxsize),
    "concat_ws": Function(_concat_ws, 2, sys.maxsize),
    "left": Function(_left, 2, 2),
    "right": Function(_right, 2, 2),
    **dict.fromkeys(("mid", "substr", "substring"), Function(_substring, 2, 3)),
    "ltrim": Function(_of_text(lambda t: t.lstrip(" ")), 1, 1),
    "reverse": Function(_of_text(lambda t: t[::-1]), 1, 1),
    "rtrim": Function(_of_text(lambda t: t.rstrip(" ")), 1, 1),
    "trim": Function(_of_text(lambda t: t.strip(" ")), 1, 1),
    "replace": Function(_replace, 3, 3),
    **{name: Function(_padded(name), 3, 3) for name in ("lpad", "rpad")},
    "locate": Function(_locate, 2, 2),
    "instr": Function(lambda value, part: _locate(part, value), 2, 2),
    "find_in_set": Function(_find_in_set, 2, 2),
    "strcmp": Function(_strcmp, 2, 2),
    "hex": Function(_hex, 1, 1),
    "md5": Function(_md5, 1, 1),
    "crc32": Function(_crc32, 1, 1),
    "bit_count": Function(_bit_count, 1, 1),
    "abs": Function(_abs, 1, 1),
    "sign": Function(_sign, 1, 1),
    "floor": Function(_cut(ROUND_FLOOR), 1, 1),
    **dict.fromkeys(("ceil", "ceiling"), Function(_cut(ROUND_CEILING), 1, 1)),
    "round": Function(_to_scale("round", ROUND_HALF_UP), 1, 2),
    "truncate": Function(_to_scale("truncate", ROUND_DOWN), 2, 2),
    "greatest": Function(_extreme("greatest", max), 2, sys.maxsize),
    "least": Function(_extreme("least", min), 2, sys.maxsize),
    "date": Function(_date, 1, 1),
    "year": Function(_part(0, 4, 9999), 1, 1),
    "month": Function(_part(5, 2, 12), 1, 1),
    **dict.fromkeys(("day", "dayofmonth"), Function(_part(8, 2, 31), 1, 1)),
    "hour": Function(_clock_part(0, 838), 1, 1),
    "minute": Function(_clock_part(1, 59), 1, 1),
    "second": Function(_clock_part(2, 59), 1, 1),
    "dayofweek": Function(_of_day(lambda day: (_number_of(day) + 4) % 7 + 1, 1, 7), 1, 1),
    "dayofyear": Function(_of_day(_day_of_year, 1, 366), 1, 1),
    "weekday": Function(_of_day(lambda day: (_number_of(day) + 3) % 7, 0, 6), 1, 1),
    "datediff": Function(_date_difference, 2, 2),
    "time_to_sec": Function(_time_to_sec, 1, 1),
}
"""The functions by MySQL's names of them, in lower case."""
