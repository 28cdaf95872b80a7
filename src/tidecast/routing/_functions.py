"""The functions of MySQL's that value expressions may call, as SQL of Spark.

Each gets its arguments as values and their number is one that it allows. What depends on anything but the row, such as
`now`, is not here, nor what the two compute otherwise in some case that cannot be told beforehand.
Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from tidecast.routing._values import (
    INT64,
    UINT64,
    Sort,
    Value,
    as_bytes,
    as_exact,
    as_text,
    as_truth,
    check_collation,
    clock_seconds,
    compare,
    exact,
    integer,
    merged,
    moment_text,
    quoted,
    refuse,
    text,
    truth,
    within,
)

_LONGEST = 1 << 32  # of a text, in bytes


class Function(NamedTuple):
    """A function: what it makes of its arguments, and how many it takes."""

    build: Callable[..., Value]
    least: int
    most: int


def conditional(conditions: list[str], values: list[Value]) -> Value:
    """Return the value of the first condition that holds; the last value is that of none."""
    kind, forms = merged(values)
    cases = " ".join(f"WHEN {c} THEN {form}" for c, form in zip(conditions, forms, strict=False))
    return replace(kind, sql=f"(CASE {cases} ELSE {forms[-1]} END)")


def _if(condition: Value, one: Value, other: Value) -> Value:
    return conditional([as_truth(condition)], [one, other])


def _coalesce(*values: Value) -> Value:
    kind, forms = merged(list(values))
    return replace(kind, sql=f"coalesce({', '.join(forms)})")


def _nullif(one: Value, other: Value) -> Value:
    kind, (form,) = merged([one])
    return replace(kind, sql=f"(CASE WHEN {compare('=', one, other).sql} THEN NULL ELSE {form} END)")


def is_null(value: Value) -> Value:
    """Return whether a value is null."""
    return truth(f"{value.sql} IS NULL")


def _strcmp(one: Value, other: Value) -> Value:
    one, other = as_text(one), as_text(other)
    less, same = compare("<", one, other).sql, compare("=", one, other).sql
    return integer(f"CASE WHEN {less} THEN -1 WHEN {same} THEN 0 WHEN NOT {same} THEN 1 END", -1, 1)


def _octets(value: Value) -> Value:
    return integer(f"octet_length({as_bytes(value)})", 0, _LONGEST)


def _characters(value: Value) -> Value:
    return integer(f"char_length({as_text(value).sql})", 0, _LONGEST)


@cache
def _cases(*, upper: bool) -> tuple[str, str]:
    """Return the letters that have another case, and these: one for one, as MySQL and Go have them."""
    pairs = ((letter, _one_upper(letter) if upper else _one_lower(letter)) for letter in map(chr, range(0x20000)))
    changed = [(letter, other) for letter, other in pairs if letter != other]
    return "".join(letter for letter, _ in changed), "".join(other for _, other in changed)


def _one_upper(letter: str) -> str:
    found = (letter.upper(), letter.title())
    return next((one for one in found if len(one) == 1), letter)


def _one_lower(letter: str) -> str:
    return letter.lower()[0]


def _cased(*, upper: bool) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        of = as_text(value)
        return text(f"translate({of.sql}, {', '.join(map(quoted, _cases(upper=upper)))})", of)

    return build


def _concat(*values: Value) -> Value:
    texts = [as_text(v) for v in values]
    return text(f"concat({', '.join(t.sql for t in texts)})", *texts)


def _concat_ws(*values: Value) -> Value:
    texts = [as_text(v) for v in values]
    separator = texts[0].sql  # Spark takes no null for it as MySQL does
    joined = f"concat_ws({', '.join(t.sql for t in texts)})"
    return text(f"(CASE WHEN {separator} IS NOT NULL THEN {joined} END)", *texts)


def whole(value: Value) -> int:
    """Return the number that a literal whole number is."""
    if not (value.sort is Sort.EXACT and value.integer and value.literal is not None):
        refuse("a number in it must be written out as a whole number")
    return value.low


def _left(value: Value, length: Value) -> Value:
    of = as_text(value)
    return text(f"substring({of.sql}, 1, {_int(max(whole(length), 0))})", of)


def _right(value: Value, length: Value) -> Value:
    of = as_text(value)
    return text(f"right({of.sql}, {_int(max(whole(length), 0))})", of)


def _int(number: int) -> int:
    return min(number, (1 << 31) - 1)


def _substring(value: Value, start: Value, length: Value | None = None) -> Value:
    of, begin = as_text(value), whole(start)
    size = _int(max(whole(length), 0)) if length else None
    rest = f", {size}" if size is not None else ""
    if begin == 0 or size == 0:
        return text(f"left({of.sql}, 0)", of)
    if begin < 0:  # MySQL's is empty where it begins before the text does
        shown = f"substring({of.sql}, {-_int(-begin)}{rest})"
        long_enough = f"char_length({of.sql}) >= {-begin}"
        return text(f"(CASE WHEN {long_enough} THEN {shown} ELSE left({of.sql}, 0) END)", of)
    return text(f"substring({of.sql}, {_int(begin)}{rest})", of)


def _text_of(name: str) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        of = as_text(value)
        return text(f"{name}({of.sql})", of)

    return build


def _replace(value: Value, what: Value, by: Value) -> Value:
    texts = [as_text(v) for v in (value, what, by)]
    if not texts[1].literal:
        refuse("what replace looks for must be written out")
    return text(f"replace({', '.join(t.sql for t in texts)})", *texts)


def _padded(name: str) -> Callable[[Value, Value, Value], Value]:
    def build(value: Value, length: Value, pad: Value) -> Value:
        of, by = as_text(value), as_text(pad)
        if not by.literal or not 0 <= whole(length) < 1 << 16:
            refuse(f"the padding of {name} must be written out, and its length at most 65535")
        return text(f"{name}({of.sql}, {whole(length)}, {by.sql})", of, by)

    return build


def _locate(part: Value, value: Value) -> Value:
    texts = [as_text(part), as_text(value)]
    check_collation(text("", *texts))
    return integer(f"locate({texts[0].sql}, {texts[1].sql})", 0, _LONGEST)


def _instr(value: Value, part: Value) -> Value:
    return _locate(part, value)


def _find_in_set(one: Value, several: Value) -> Value:
    texts = [as_text(one), as_text(several)]
    check_collation(text("", *texts))
    if not texts[0].literal:  # Spark finds the empty text in the empty set
        refuse("what find_in_set looks for must be written out")
    return integer(f"find_in_set({texts[0].sql}, {texts[1].sql})", 0, _LONGEST)


def _hex(value: Value) -> Value:
    if value.sort in (Sort.TRUTH, Sort.EXACT):
        return text(f"hex({bits(value)})")
    return text(f"hex({as_bytes(value)})")


def _md5(value: Value) -> Value:
    return text(f"md5({as_bytes(value)})")


def _crc32(value: Value) -> Value:
    return integer(f"crc32({as_bytes(value)})", 0, (1 << 32) - 1, unsigned=True)


def bits(value: Value) -> str:
    """Return SQL of a whole number's 64 bits, as a bigint that has them."""
    number = as_exact(value)
    if not number.integer:
        refuse("a number that is not whole stands where bits belong")
    if number.high <= INT64[1]:
        return f"CAST({number.sql} AS BIGINT)"
    # Two casts of halves: neither leaves the bounds of a bigint, which ANSI forbids.
    high = f"CAST({number.sql} DIV 4294967296 AS BIGINT)"
    return f"(shiftleft({high}, 32) | CAST({number.sql} % 4294967296 AS BIGINT))"


def from_bits(sql: str) -> Value:
    """Return 64 bits, as a bigint has them, as MySQL's BIGINT UNSIGNED."""
    wide = f"CAST({sql} AS DECIMAL(20,0))"
    return integer(f"pmod({wide}, CAST(18446744073709551616 AS DECIMAL(20,0)))", *UINT64, unsigned=True)


def _bit_count(value: Value) -> Value:
    return integer(f"bit_count({bits(value)})", 0, 64)


def _abs(value: Value) -> Value:
    if value.sort is Sort.REAL:
        return replace(value, sql=f"abs({value.sql})", literal=None)
    of = as_exact(value)
    bounds = (0, max(abs(of.low), abs(of.high)))
    return fitting(replace(exact(f"abs({of.sql})", *bounds, of.scale), integer=of.integer, unsigned=of.unsigned))


def fitting(value: Value) -> Value:
    """Return a whole number with a check that MySQL's type holds it, where it may not; any other as it is."""
    if not value.integer:
        return value
    low, high = UINT64 if value.unsigned else INT64
    if low <= value.low and value.high <= high:
        return value
    name = "BIGINT UNSIGNED" if value.unsigned else "BIGINT"
    sql = within(value.sql, f"v BETWEEN {low} AND {high}", name)
    return integer(sql, max(low, value.low), min(high, value.high), unsigned=value.unsigned)


def _sign(value: Value) -> Value:
    number = value.sql if value.sort is Sort.REAL else as_exact(value).sql
    return integer(f"CASE WHEN {number} > 0 THEN 1 WHEN {number} = 0 THEN 0 WHEN {number} < 0 THEN -1 END", -1, 1)


def _cut(name: str) -> Callable[[Value], Value]:
    """`floor`, `ceil`: exact numbers alone, of which MySQL's is one as well."""

    def build(value: Value) -> Value:
        of = as_exact(value)
        if of.integer:
            return replace(of, literal=None)
        unit = 10**of.scale
        low, high = of.low // unit, -(-of.high // unit)
        cut = exact(f"{name}({of.sql})", low, high, 0)
        return replace(cut, integer=INT64[0] <= low and high <= INT64[1], unsigned=False)

    return build


def _round(value: Value, digits: Value | None = None) -> Value:
    of, scale = as_exact(value), whole(digits) if digits else 0
    if scale < 0:
        refuse("round goes to digits after the point alone")
    if scale >= of.scale:
        return replace(of, literal=None)
    unit = 10 ** (of.scale - scale)
    return exact(f"round({of.sql}, {scale})", of.low // unit, -(-of.high // unit), scale)


def _truncate(value: Value, digits: Value) -> Value:
    of, scale = as_exact(value), whole(digits)
    if scale < 0:
        refuse("truncate goes to digits after the point alone")
    if scale >= of.scale:
        return replace(of, literal=None)
    unit = 10 ** (of.scale - scale)
    least = f"CAST('1e-{scale}' AS DECIMAL({scale + 1},{scale}))"
    return exact(f"({of.sql} - {of.sql} % {least})", of.low // unit, -(-of.high // unit), scale)


def _extreme(name: str) -> Callable[..., Value]:
    def build(*values: Value) -> Value:
        kind, forms = merged(list(values))
        if kind.sort not in (Sort.EXACT, Sort.REAL):
            refuse(f"{name} is for numbers alone")
        known = " AND ".join(f"{form} IS NOT NULL" for form in forms)
        return replace(kind, sql=f"(CASE WHEN {known} THEN {name}({', '.join(forms)}) END)")

    return build


def _of_date(value: Value) -> str:
    """Return SQL of the text of a DATE or DATETIME."""
    if value.sort is Sort.TEXT and value.literal is not None:
        return f"'{moment_text(value)}'"
    if value.sort is not Sort.MOMENT:
        refuse(f"{value.sort.value} stands where a date belongs")
    return value.sql


def _part(start: int, length: int, most: int) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        return integer(f"CAST(substring({_of_date(value)}, {start}, {length}) AS INT)", 0, most)

    return build


def _clock_part(number: int, most: int) -> Callable[[Value], Value]:
    def build(value: Value) -> Value:
        if value.sort is Sort.CLOCK:
            part = f"split_part(replace({value.sql}, '-', ''), ':', {number})"
        else:
            part = f"split_part(substring(concat({_of_date(value)}, ' 00:00:00'), 12, 8), ':', {number})"
        return integer(f"CAST(substring_index({part}, '.', 1) AS INT)", 0, most)

    return build


_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_MOST_STEPS = 100_000


def shifted(value: Value, steps: int, unit: str) -> Value:
    """Return a date that is so much later; null where it is none, or beyond the year 9999."""
    if value.sort is not Sort.MOMENT or abs(steps) > _MOST_STEPS or unit not in {*_MONTHS, *_SECONDS}:
        refuse("only a date, and one that is no literal, takes an INTERVAL, and one of a whole number of one unit")
    whole_day = f"concat({value.sql}, substring(' 00:00:00', length({value.sql}) - 9))"
    months, days = steps * _MONTHS.get(unit, 0), steps * _SECONDS.get(unit, 0) // 86_400
    seconds = steps * _SECONDS.get(unit, 0) % 86_400
    interval = f"make_interval(0, {months}, 0, {days}, 0, 0, {seconds})"
    moment = f"transform(array(try_cast({whole_day} AS TIMESTAMP_NTZ)), v -> v + {interval})[0]"
    text_of = "CASE WHEN year(v) BETWEEN 0 AND 9999 THEN CAST(v AS STRING) END"
    return Value(f"transform(array({moment}), v -> {text_of})[0]", Sort.MOMENT, textless=True)


def _date(value: Value) -> Value:
    return Value(f"nullif(substring({_of_date(value)}, 1, 10), '0000-00-00')", Sort.MOMENT)


def _day(value: Value) -> str:
    return f"try_cast(substring({_of_date(value)}, 1, 10) AS DATE)"


def _day_of_week(value: Value) -> Value:
    return integer(f"dayofweek({_day(value)})", 1, 7)


def _weekday(value: Value) -> Value:
    return integer(f"weekday({_day(value)})", 0, 6)


def _day_of_year(value: Value) -> Value:
    return integer(f"dayofyear({_day(value)})", 1, 366)


def _date_difference(one: Value, other: Value) -> Value:
    return integer(f"datediff({_day(one)}, {_day(other)})", -4_000_000, 4_000_000)


def _time_to_sec(value: Value) -> Value:
    if value.sort is not Sort.CLOCK:
        refuse(f"{value.sort.value} stands where a TIME belongs")
    seconds = clock_seconds(value.sql)
    return integer(f"({seconds} - {seconds} % 1)", -(839 * 3600), 839 * 3600)


FUNCTIONS: dict[str, Function] = {
    "coalesce": Function(_coalesce, 1, sys.maxsize),
    "if": Function(_if, 3, 3),
    "ifnull": Function(_coalesce, 2, 2),
    "isnull": Function(is_null, 1, 1),
    "nullif": Function(_nullif, 2, 2),
    **dict.fromkeys(("length", "octet_length"), Function(_octets, 1, 1)),
    **dict.fromkeys(("char_length", "character_length"), Function(_characters, 1, 1)),
    **dict.fromkeys(("lower", "lcase"), Function(_cased(upper=False), 1, 1)),
    **dict.fromkeys(("upper", "ucase"), Function(_cased(upper=True), 1, 1)),
    "concat": Function(_concat, 1, sys.maxsize),
    "concat_ws": Function(_concat_ws, 2, sys.maxsize),
    "left": Function(_left, 2, 2),
    "right": Function(_right, 2, 2),
    **dict.fromkeys(("mid", "substr", "substring"), Function(_substring, 2, 3)),
    **{name: Function(_text_of(name), 1, 1) for name in ("ltrim", "reverse", "rtrim", "trim")},
    "replace": Function(_replace, 3, 3),
    **{name: Function(_padded(name), 3, 3) for name in ("lpad", "rpad")},
    "locate": Function(_locate, 2, 2),
    "instr": Function(_instr, 2, 2),
    "find_in_set": Function(_find_in_set, 2, 2),
    "strcmp": Function(_strcmp, 2, 2),
    "hex": Function(_hex, 1, 1),
    "md5": Function(_md5, 1, 1),
    "crc32": Function(_crc32, 1, 1),
    "bit_count": Function(_bit_count, 1, 1),
    "abs": Function(_abs, 1, 1),
    "sign": Function(_sign, 1, 1),
    "floor": Function(_cut("floor"), 1, 1),
    **dict.fromkeys(("ceil", "ceiling"), Function(_cut("ceil"), 1, 1)),
    "round": Function(_round, 1, 2),
    "truncate": Function(_truncate, 2, 2),
    **{name: Function(_extreme(name), 2, sys.maxsize) for name in ("greatest", "least")},
    "date": Function(_date, 1, 1),
    "year": Function(_part(1, 4, 9999), 1, 1),
    "month": Function(_part(6, 2, 12), 1, 1),
    **dict.fromkeys(("day", "dayofmonth"), Function(_part(9, 2, 31), 1, 1)),
    "hour": Function(_clock_part(1, 838), 1, 1),
    "minute": Function(_clock_part(2, 59), 1, 1),
    "second": Function(_clock_part(3, 59), 1, 1),
    "dayofweek": Function(_day_of_week, 1, 1),
    "dayofyear": Function(_day_of_year, 1, 1),
    "weekday": Function(_weekday, 1, 1),
    "datediff": Function(_date_difference, 2, 2),
    "time_to_sec": Function(_time_to_sec, 1, 1),
}
"""The functions by MySQL's names of them, in lower case."""
