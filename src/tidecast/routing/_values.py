"""What an expression of MySQL's has while it becomes one of Spark's: SQL text, and the sort of value that this gives.

Nothing of a stranger's text comes into the SQL as it is: literals are written in hexadecimal, columns have other names.
Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import NoReturn

INT64, UINT64 = (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)
MAX_DIGITS = 38
_ZERO = "0000-00-00 00:00:00.000000"
_NUMBER_TEXT = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*")
_NUMBER_START = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,6}))?)?)?"
)
_MOMENT_DIGITS = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})(?:\.([0-9]{0,6}))?)?")
_CLOCK = re.compile(r"(-?)([0-9]{1,3}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,6}))?)?")
_CLOCK_DIGITS = re.compile(r"(-?)([0-9]{0,3}?)([0-9]{0,2}?)([0-9]{1,2})(?:\.([0-9]{0,6}))?")
_BINARY_COLLATIONS = ("", "binary", "utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "ascii_bin", "latin1_bin")
_UTF8 = ("", "utf8", "utf8mb3", "utf8mb4", "ascii", "binary")


class Unsupported(ValueError):
    """An expression that is not computed as MySQL computes it, so not at all; its text says why."""


def refuse(why: str) -> NoReturn:
    """Raise Unsupported."""
    raise Unsupported(why)


OUT_OF_RANGE = re.compile(r"filter expression: ((?:BIGINT|BIGINT UNSIGNED|DOUBLE) value is out of range)")


def within(sql: str, condition: str, name: str) -> str:
    """Return SQL of a value `v` that is null or for which a condition holds, else of an error as MySQL's.

    The value stands in it once, as it may be long: as the argument of a function.
    """
    error = f"raise_error({quoted(f'filter expression: {name} value is out of range')})"
    return f"transform(array({sql}), v -> CASE WHEN v IS NULL OR {condition} THEN v ELSE {error} END)[0]"


class Sort(enum.Enum):
    """A sort of value; what Spark's SQL of it gives stands behind it."""

    NULL = "NULL"
    TRUTH = "a condition"  # boolean
    EXACT = "a number"  # decimal of `digits` and `scale`
    LONG = "a DECIMAL of more than 38 digits"  # its text
    REAL = "a FLOAT or DOUBLE"  # double
    TEXT = "text"  # string
    BYTES = "bytes"  # binary
    CHOICE = "an ENUM or SET"  # string; `number` has the other form
    MOMENT = "a date"  # MySQL's text of a DATE, DATETIME or TIMESTAMP
    CLOCK = "a TIME"  # MySQL's text
    OTHER = "a value of this type"  # anything; only whether it is null counts


@dataclass(frozen=True)
class Value:
    """A value as SQL of Spark.

    An exact number lies between `low` and `high`, counted in its last digit, the `scale`th after the point; `integer`
    and `unsigned` tell MySQL's type of it. `literal` is the text of a literal, `collate` and `charset` a text's,
    `number` what an ENUM, a SET or a literal of bytes is where a number belongs; `year` tells a YEAR,
    `textless` what has a text of its own that is not known here, and `column` a date or time that nothing was made of.
    """

    sql: str
    sort: Sort
    low: int = 0
    high: int = 0
    scale: int = 0
    integer: bool = False
    unsigned: bool = False
    literal: str | None = None
    collate: str | None = None
    charset: str = ""
    number: Value | None = None
    year: bool = False
    textless: bool = False
    column: bool = False

    @property
    def digits(self) -> int:
        """The digits of an exact number, at least one before the point."""
        return max(len(str(max(abs(self.low), abs(self.high)))), self.scale + 1)


NULL = Value("NULL", Sort.NULL)


def truth(sql: str) -> Value:
    """Return a condition."""
    return Value(f"({sql})", Sort.TRUTH)


def text(sql: str, *like: Value) -> Value:
    """Return a text that is made of others: it has their collation and charset."""
    collations = {v.collate for v in like if v.sort in (Sort.TEXT, Sort.CHOICE) and v.collate is not None}
    charsets = {v.charset for v in like if v.charset}
    if len(collations) > 1 or len(charsets) > 1:
        refuse("it mixes texts of several collations")
    return Value(sql, Sort.TEXT, collate=next(iter(collations), None), charset=next(iter(charsets), ""))


def integer(sql: str, low: int, high: int, *, unsigned: bool = False) -> Value:
    """Return an integer within bounds that fit into MySQL's; `sql` may give any type of whole number."""
    value = Value(sql, Sort.EXACT, low, high, integer=True, unsigned=unsigned)
    return replace(value, sql=f"CAST({sql} AS DECIMAL({value.digits},0))")


def exact(sql: str, low: int, high: int, scale: int) -> Value:
    """Return a number with digits after the point."""
    value = Value(sql, Sort.EXACT, low, high, scale)
    check_room(value.digits)
    return replace(value, sql=f"CAST({sql} AS DECIMAL({value.digits},{scale}))")


def real(sql: str) -> Value:
    """Return a double."""
    return Value(sql, Sort.REAL)


def quoted(literal: str) -> str:
    """Return SQL of a text, with none of its characters."""
    return f"CAST(X'{literal.encode().hex()}' AS STRING)"


def text_literal(literal: str) -> Value:
    """Return a literal text."""
    return Value(quoted(literal), Sort.TEXT, literal=literal)


def number_literal(literal: str) -> Value:
    """Return a literal number, which may have a sign."""
    if "e" in literal.lower():
        return replace(real(f"CAST({quoted(literal)} AS DOUBLE)"), literal=literal)
    whole, _, fraction = literal.partition(".")
    unscaled = int(f"{whole}{fraction}")
    if "." in literal or not INT64[0] <= unscaled <= UINT64[1]:
        value = exact(quoted(literal), unscaled, unscaled, len(fraction))
    else:
        value = integer(quoted(literal), unscaled, unscaled, unsigned=unscaled > INT64[1])
    return replace(value, literal=literal)


def as_truth(value: Value) -> str:
    """Return SQL of whether MySQL takes a value for true."""
    match value.sort:
        case Sort.TRUTH:
            return value.sql
        case Sort.NULL:
            return "CAST(NULL AS BOOLEAN)"
        case Sort.EXACT | Sort.REAL:
            return f"({value.sql} <> 0)"
        case Sort.TEXT:
            return f"({as_real(value)} <> 0)"
    refuse(f"{value.sort.value} is taken for a condition: compare it with something")


def as_exact(value: Value) -> Value:
    """Return a value as an exact number."""
    if value.sort is Sort.TRUTH:
        return integer(f"CAST({value.sql} AS INT)", 0, 1)
    if value.number:
        return value.number
    return value if value.sort is Sort.EXACT else refuse(f"{value.sort.value} stands where a whole number belongs")


def as_real(value: Value) -> str:
    """Return SQL of a value as a double: of a text, the number that it begins with, else 0."""
    match value.sort:
        case Sort.REAL:
            return value.sql
        case Sort.TEXT:
            start = f"regexp_extract({value.sql}, {quoted(_NUMBER_START)}, 0)"
            return f"try_cast(regexp_replace({start}, '^$', '0') AS DOUBLE)"
    return f"CAST({as_exact(value).sql} AS DOUBLE)"


_PLAIN_SCALE = 6
"""Spark writes smaller numbers with an exponent."""


def as_text(value: Value) -> Value:
    """Return a value as text."""
    if value.textless:
        refuse(f"{value.sort.value} of which MySQL's text is not known stands where text belongs")
    match value.sort:
        case Sort.TEXT:
            return value
        case Sort.NULL:
            return text("CAST(NULL AS STRING)")
        case Sort.CHOICE | Sort.MOMENT | Sort.CLOCK:
            return replace(text(value.sql), collate=value.collate, charset=value.charset)
        case Sort.TRUTH | Sort.EXACT if as_exact(value).scale <= _PLAIN_SCALE:
            return text(f"CAST({as_exact(value).sql} AS STRING)")
    refuse(f"{value.sort.value} stands where text belongs")


def as_bytes(value: Value) -> str:
    """Return SQL of a text's or a binary value's bytes."""
    if value.sort is Sort.BYTES:
        return value.sql
    if value.charset not in _UTF8:
        refuse(f"the bytes of text of the charset {value.charset} count")
    return f"CAST({as_text(value).sql} AS BINARY)"


def check_collation(value: Value) -> None:
    """Refuse a text whose collation does not compare bytes."""
    if value.collate is not None and value.collate not in _BINARY_COLLATIONS:
        refuse(f"text of the collation {value.collate} is compared, and only those that compare bytes are supported")


def compare(operator: str, left: Value, right: Value) -> Value:
    """Return a comparison, of one of Spark's operators, by what MySQL compares such values by."""
    if Sort.NULL in (left.sort, right.sort):
        if operator != "<=>":
            return truth("CAST(NULL AS BOOLEAN)")
        return truth(f"{(right if left.sort is Sort.NULL else left).sql} IS NULL")
    one, other = _comparable(left, right)
    return truth(f"{one} {operator} {other}")


def _comparable(left: Value, right: Value) -> tuple[str, str]:
    """Return two values in forms that compare as MySQL compares them."""
    sorts = {left.sort, right.sort}
    if sorts & {Sort.MOMENT, Sort.CLOCK}:
        return _times(left, right)
    if sorts == {Sort.CHOICE} or Sort.OTHER in sorts:
        refuse(f"{left.sort.value} is compared with {right.sort.value}")
    if Sort.BYTES in sorts and not sorts - {Sort.BYTES, Sort.TEXT, Sort.CHOICE}:
        return as_bytes(left), as_bytes(right)
    if not sorts - {Sort.TEXT, Sort.CHOICE}:
        both = text("", left, right)
        check_collation(both)
        return tuple(f"rtrim({as_text(v).sql})" for v in (left, right))  # type: ignore[return-value]
    if Sort.LONG in sorts:
        return _halves(left), _halves(right)
    return _numbers(left, right)


def _times(left: Value, right: Value) -> tuple[str, str]:
    for one, other in ((left, right), (right, left)):
        as_number = other.sort is Sort.EXACT or (one.sort is Sort.CLOCK and other.sort is Sort.TEXT)
        if one.sort in (Sort.MOMENT, Sort.CLOCK) and as_number and not one.column:
            refuse(f"{one.sort.value} that is no column is compared with {_shown(other)}")
    form = _moment if Sort.MOMENT in (left.sort, right.sort) else _clock
    return form(left), form(right)


def _numbers(left: Value, right: Value) -> tuple[str, str]:
    left, right = _with_exact_literal(left, right), _with_exact_literal(right, left)
    sorts = {left.sort, right.sort}
    if sorts & {Sort.REAL, Sort.TEXT}:
        return as_real(left), as_real(right)
    one, other = as_exact(left), as_exact(right)
    check_digits(one, other)
    for year, number in ((one, other), (other, one)):
        if year.year and number.literal is not None and number.low < 100:
            refuse("a YEAR is compared with a number of fewer than four digits")
    return one.sql, other.sql


def _with_exact_literal(value: Value, other: Value) -> Value:
    """Return the exact number that a literal is, where it is compared with one."""
    if value.literal is None or other.sort not in (Sort.EXACT, Sort.LONG):
        return value
    if value.sort is Sort.REAL and other.integer and math.isfinite(number := float(value.literal)):
        plain = f"{Decimal(number):f}"  # TiDB compares a whole number's column with the very number that a double is
        return number_literal(plain) if len(plain) < MAX_DIGITS else value
    found = _NUMBER_TEXT.fullmatch(value.literal) if value.sort is Sort.TEXT else None
    return number_literal(found[1]) if found else value


def check_room(digits: int) -> None:
    """Refuse numbers of more digits than a decimal type of Spark's has."""
    if digits > MAX_DIGITS:
        refuse(f"its numbers may have more than {MAX_DIGITS} digits")


def check_digits(one: Value, other: Value, *, more: int = 0) -> None:
    """Refuse two numbers that have no decimal type of Spark's in common, one of so many digits more."""
    check_room(max(one.digits - one.scale, other.digits - other.scale) + max(one.scale, other.scale) + more)


def _halves(value: Value) -> str:
    """Return SQL of a number of any length as what stands before and after its point, which compare in this order."""
    if value.sort is not Sort.LONG:
        found = _NUMBER_TEXT.fullmatch(value.literal or "")
        if not found:
            refuse(f"{Sort.LONG.value} is compared with something else than a literal number")
        whole, _, fraction = found[1].partition(".")
        value = Value(quoted(f"{whole if whole.strip('+-') else whole + '0'}.{fraction}"), Sort.LONG)
    before = f"try_cast(substring_index({value.sql}, '.', 1) AS DECIMAL(38,0))"
    after = f"regexp_replace({value.sql}, {quoted('^([-+]?)[0-9]*[.]?')}, {quoted('$10.0')})"  # a tenth, in all alike
    halves = f"named_struct('a', {before}, 'b', try_cast({after} AS DECIMAL(38,37)))"
    return f"CASE WHEN {value.sql} IS NOT NULL THEN {halves} END"


def _moment(value: Value) -> str:
    """Return SQL of a moment as text of one length, which also compares dates that no calendar has."""
    if value.sort is Sort.MOMENT:
        return f"concat({value.sql}, substring('{_ZERO}', length({value.sql}) + 1))"
    return quoted(moment_text(value))


def moment_text(value: Value) -> str:
    """Return the moment that a literal is, with all its digits."""
    literal = (value.literal or "").strip()
    if value.sort is Sort.EXACT and value.literal is not None and value.low == value.high == 0:
        return _ZERO
    digits = value.sort in (Sort.TEXT, Sort.EXACT) and _MOMENT_DIGITS.fullmatch(literal)
    found = digits or (value.sort is Sort.TEXT and _MOMENT.fullmatch(literal)) or None
    if not found:
        refuse(f"a date is compared with {_shown(value)}, and not with one as 'YYYY-MM-DD hh:mm:ss'")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if (year, month, day) != (0, 0, 0):
        try:
            date(year, month, day)
        except ValueError:
            refuse(f"a date is compared with {_shown(value)}, which no calendar has")
    if hour > 23 or minute > 59 or second > 59:
        refuse(f"a date is compared with {_shown(value)}, which no clock shows")
    return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{(found[7] or ''):0<6}"


def _clock(value: Value) -> str:
    """Return SQL of a TIME in seconds."""
    return clock_seconds(value.sql) if value.sort is Sort.CLOCK else _clock_literal(value)


def clock_seconds(sql: str) -> str:
    """Return SQL of the seconds of a TIME's text."""
    hours, minutes, seconds = (
        f"CAST(split_part(replace({sql}, '-', ''), ':', {n}) AS DECIMAL(9,6))" for n in (1, 2, 3)
    )
    sign = f"CASE WHEN startswith({sql}, '-') THEN -1 ELSE 1 END"
    return f"CAST(({hours} * 3600 + {minutes} * 60 + {seconds}) * {sign} AS DECIMAL(18,6))"


def _clock_literal(value: Value) -> str:
    literal = (value.literal or "").strip()
    found = value.sort in (Sort.TEXT, Sort.EXACT) and (
        _CLOCK_DIGITS.fullmatch(literal) or (value.sort is Sort.TEXT and _CLOCK.fullmatch(literal))
    )
    if not found:
        refuse(f"a TIME is compared with {_shown(value)}, and not with one as '-hhh:mm:ss'")
    sign, (hours, minutes, seconds) = found[1], (int(part or 0) for part in found.groups()[1:4])
    if hours > 838 or minutes > 59 or seconds > 59:
        refuse(f"a TIME is compared with {_shown(value)}, which is none")
    return f"CAST('{sign}{hours * 3600 + minutes * 60 + seconds}.{found[5] or 0}' AS DECIMAL(18,6))"


def _shown(value: Value) -> str:
    if value.literal is None:
        return f"{value.sort.value} that is no literal" if value.sort is not Sort.OTHER else value.sort.value
    return f"'{value.literal}'" if value.sort is Sort.TEXT else value.literal


def merged(values: list[Value]) -> tuple[Value, list[str]]:
    """Return what a value of one of several sorts is, without its SQL, and the SQL of each in this form."""
    some = [v for v in values if v.sort is not Sort.NULL]
    sorts = {v.sort for v in some}
    if not sorts:
        return NULL, ["NULL"] * len(values)
    if not sorts - {Sort.TRUTH, Sort.EXACT}:
        numbers = [as_exact(v) for v in some]
        scale = max(n.scale for n in numbers)
        low = min(n.low * 10 ** (scale - n.scale) for n in numbers)
        high = max(n.high * 10 ** (scale - n.scale) for n in numbers)
        alike = all(n.integer for n in numbers) and len({n.unsigned for n in numbers}) == 1
        kind = replace(exact("", low, high, scale), integer=alike, unsigned=alike and numbers[0].unsigned)
        to = f"DECIMAL({kind.digits},{scale})"
        return kind, [f"CAST({as_exact(v).sql} AS {to})" if v.sort is not Sort.NULL else "NULL" for v in values]
    if not sorts - {Sort.TRUTH, Sort.EXACT, Sort.REAL}:
        return real(""), [as_real(v) if v.sort is not Sort.NULL else "NULL" for v in values]
    if not sorts - {Sort.TEXT, Sort.CHOICE}:
        return text("", *some), [as_text(v).sql if v.sort is not Sort.NULL else "NULL" for v in values]
    if sorts == {Sort.BYTES} or (len(some) == 1 and sorts <= {Sort.CLOCK, Sort.MOMENT}):
        return Value("", sorts.pop()), [v.sql for v in values]
    refuse("its values are of several sorts: " + ", ".join(sorted(sort.value for sort in sorts)))
