"""Expressions of MySQL's as functions of a row, with what is known of the values that they give.

Source: Changefeed configuration, value expressions.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NoReturn

INT64, UINT64 = (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)
_MAX_DIGITS, _MAX_SCALE = 65, 30
"""The most digits that MySQL's DECIMAL has, and the most after its point."""
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
"""Arithmetic that rounds nothing: no result has so many digits."""
_ZERO = "0000-00-00 00:00:00.000000"
_NUMBER_TEXT = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*")
_NUMBER_START = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,6}))?)?)?"
)
_MOMENT_DIGITS = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})(?:\.([0-9]{0,6}))?)?")
_CLOCK = re.compile(r"(-?)([0-9]{1,3}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,6}))?)?")
_CLOCK_DIGITS = re.compile(r"(-?)([0-9]{0,3}?)([0-9]{0,2}?)([0-9]{1,2})(?:\.([0-9]{0,6}))?")
_BINARY_COLLATIONS = ("", "binary", "utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "ascii_bin", "latin1_bin")
_UTF8 = ("", "utf8", "utf8mb3", "utf8mb4", "ascii", "binary")

Read = Callable[[Sequence[Any]], Any]
"""A function from what an expression sees of a row to a value, None for NULL."""


class Unsupported(ValueError):
    """An expression that is not computed as MySQL computes it, so not at all; its text says why."""


def refuse(why: str) -> NoReturn:
    """Raise Unsupported."""
    raise Unsupported(why)


OUT_OF_RANGE = re.compile(r"filter expression: ((?:BIGINT|BIGINT UNSIGNED|DOUBLE) value is out of range)")


def out_of_range(name: str) -> NoReturn:
    """Stop as MySQL does where a number has no place in its type."""
    raise ValueError(f"filter expression: {name} value is out of range")


def strict(make: Callable[..., Any], *arguments: Read) -> Read:
    """Return what a function makes of values, NULL where one of them is."""
    if len(arguments) == 1:
        (only,) = arguments
        return lambda row: None if (value := only(row)) is None else make(value)

    def read(row: Sequence[Any]) -> Any:
        values = []
        for argument in arguments:
            value = argument(row)
            if value is None:
                return None
            values.append(value)
        return make(*values)

    return read


def all_of(*parts: Read) -> Read:
    """Return MySQL's AND: NULL where none is false, but one is NULL."""

    def read(row: Sequence[Any]) -> bool | None:
        known: bool | None = True
        for part in parts:
            found = part(row)
            if found is False:
                return False
            known = known if found else None
        return known

    return read


def constant(value: Any) -> Read:
    """Return what gives the same value for every row."""
    return lambda row: value


class Sort(enum.Enum):
    """A sort of value; what its function gives stands behind it."""

    NULL = "NULL"
    TRUTH = "a condition"  # bool
    EXACT = "a number"  # int, or Decimal with at most `scale` digits after the point
    REAL = "a FLOAT or DOUBLE"  # float
    TEXT = "text"  # str
    BYTES = "bytes"  # bytes
    CHOICE = "an ENUM or SET"  # str; `number` has the other form
    MOMENT = "a date"  # MySQL's text of a DATE, DATETIME or TIMESTAMP
    CLOCK = "a TIME"  # MySQL's text
    OTHER = "a value of this type"  # anything; only whether it is null counts


@dataclass(frozen=True)
class Value:
    """A value of a row, and what is known of it before there is one.

    An exact number lies between `low` and `high`, counted in its last digit, the `scale`th after the point. `integer`
    and `unsigned` are MySQL's type of it.

    `literal` is the text of a literal, `collate` and `charset` a text's. `number` is the number of an ENUM, a SET or a
    literal of bytes.

    `year` marks a YEAR, `hybrid` a BIT, which arithmetic takes as a double, `textless` a value whose text is not known
    here, and `column` a date or time straight from a column.
    """

    read: Read
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
    hybrid: bool = False
    textless: bool = False
    column: bool = False


NULL = Value(constant(None), Sort.NULL)


def truth(read: Read) -> Value:
    """Return a condition."""
    return Value(read, Sort.TRUTH)


def text(read: Read, *like: Value) -> Value:
    """Return a text that is made of others: it has their collation and charset."""
    collations = {v.collate for v in like if v.sort in (Sort.TEXT, Sort.CHOICE) and v.collate is not None}
    charsets = {v.charset for v in like if v.charset}
    if len(collations) > 1 or len(charsets) > 1:
        refuse("it mixes texts of several collations")
    return Value(read, Sort.TEXT, collate=next(iter(collations), None), charset=next(iter(charsets), ""))


def integer(read: Read, low: int, high: int, *, unsigned: bool = False) -> Value:
    """Return an integer within bounds that fit into MySQL's."""
    return Value(read, Sort.EXACT, low, high, integer=True, unsigned=unsigned)


def exact(read: Read, low: int, high: int, scale: int) -> Value:
    """Return a number with digits after the point. Refuses one with more digits than MySQL's DECIMAL has."""
    digits = max(len(str(max(abs(low), abs(high)))), scale + 1)  # at least one before the point
    if digits > _MAX_DIGITS:
        refuse(f"its numbers may have more than {_MAX_DIGITS} digits")
    if scale > _MAX_SCALE:
        refuse(f"its numbers may have more than {_MAX_SCALE} digits after the point")
    return Value(read, Sort.EXACT, low, high, scale)


def real(read: Read) -> Value:
    """Return a double."""
    return Value(read, Sort.REAL)


def text_literal(literal: str) -> Value:
    """Return a literal text."""
    return Value(constant(literal), Sort.TEXT, literal=literal)


def number_literal(literal: str) -> Value:
    """Return a literal number, which may have a sign."""
    if "e" in literal.lower():
        return replace(real(constant(float(literal))), literal=literal)
    whole, _, fraction = literal.partition(".")
    unscaled = int(f"{whole}{fraction}")
    if "." in literal or not INT64[0] <= unscaled <= UINT64[1]:
        value = exact(constant(Decimal(literal)), unscaled, unscaled, len(fraction))
    else:
        value = integer(constant(unscaled), unscaled, unscaled, unsigned=unscaled > INT64[1])
    return replace(value, literal=literal)


def as_truth(value: Value) -> Read:
    """Return whether MySQL takes a value for true."""
    match value.sort:
        case Sort.TRUTH | Sort.NULL:
            return value.read
        case Sort.EXACT | Sort.REAL:
            return strict(lambda number: number != 0, value.read)
        case Sort.TEXT:
            return strict(lambda number: number != 0, as_real(value))
    refuse(f"{value.sort.value} is taken for a condition: compare it with something")


def as_exact(value: Value) -> Value:
    """Return a value as an exact number."""
    if value.sort is Sort.TRUTH:
        return integer(strict(int, value.read), 0, 1)
    if value.number:
        return value.number
    if value.sort is not Sort.EXACT:
        refuse(f"{value.sort.value} stands where a whole number belongs")
    return replace(value, hybrid=False) if value.hybrid else value


def as_real(value: Value) -> Read:
    """Return a value as a double: of a text, the number that it begins with, else 0."""
    match value.sort:
        case Sort.REAL:
            return value.read
        case Sort.TEXT:
            return strict(_number_at_start, value.read)
    return strict(float, as_exact(value).read)


def _number_at_start(text_of: str) -> float:
    found = _NUMBER_START.match(text_of)
    return float(found[0]) if found else 0.0


def as_text(value: Value) -> Value:
    """Return a value as text."""
    if value.textless:
        refuse(f"{value.sort.value} of which MySQL's text is not known stands where text belongs")
    match value.sort:
        case Sort.TEXT:
            return value
        case Sort.NULL:
            return text(value.read)
        case Sort.CHOICE | Sort.MOMENT | Sort.CLOCK:
            return replace(text(value.read), collate=value.collate, charset=value.charset)
        case Sort.TRUTH | Sort.EXACT:
            number = as_exact(value)
            return text(strict(lambda exact_number: f"{exact_number:.{number.scale}f}", strict(Decimal, number.read)))
    refuse(f"{value.sort.value} stands where text belongs")


def as_bytes(value: Value) -> Read:
    """Return a text's or a binary value's bytes."""
    if value.sort is Sort.BYTES:
        return value.read
    if value.charset not in _UTF8:
        refuse(f"the bytes of text of the charset {value.charset} count")
    return strict(str.encode, as_text(value).read)


def check_collation(*values: Value) -> None:
    """Refuse texts of several collations, and of one that does not compare bytes."""
    collate = text(constant(None), *values).collate
    if collate is not None and collate not in _BINARY_COLLATIONS:
        refuse(f"text of the collation {collate} is compared, and only those that compare bytes are supported")


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, ">": gt, ">=": ge, "<": lt, "<=": le}


def compare(operator: str, left: Value, right: Value) -> Value:
    """Return a comparison by what MySQL compares such values by; `<=>` is true of two NULLs."""
    if Sort.NULL in (left.sort, right.sort):
        if operator != "<=>":
            return truth(constant(None))
        return is_null(right if left.sort is Sort.NULL else left)
    one, other = _comparable(left, right)
    if operator != "<=>":
        return truth(strict(_COMPARE[operator], one, other))
    return truth(lambda row: one(row) == other(row))  # None equals None alone


def between(value: Value, low: Value, high: Value) -> Value:
    """Return whether a value lies between two bounds.

    Refuses what TiDB compares in another form: it chooses one for all three.
    """
    bounds = [bound for bound in (low, high) if bound.sort is not Sort.NULL and value.sort is not Sort.NULL]
    forms = {_form(value, bound) for bound in bounds}
    timed, sorts = forms & {Sort.MOMENT, Sort.CLOCK}, {value.sort, *(bound.sort for bound in bounds)}
    if len(forms) > 1 or (timed and (Sort.EXACT in sorts or (Sort.CLOCK in forms and value.sort is not Sort.CLOCK))):
        refuse(f"BETWEEN has values of several sorts: {', '.join(sorted(sort.value for sort in sorts))}")
    parts = compare(">=", value, low).read, compare("<=", value, high).read
    return truth(all_of(*parts))


def is_null(value: Value) -> Value:
    """Return whether a value is NULL."""
    return truth(lambda row: value.read(row) is None)


def _form(left: Value, right: Value) -> Sort:
    """Return by which sort of value MySQL compares two."""
    sorts = {left.sort, right.sort}
    for one in (Sort.MOMENT, Sort.CLOCK):
        if one in sorts:
            return one
    if not sorts - {Sort.BYTES, Sort.TEXT, Sort.CHOICE}:
        return Sort.BYTES if Sort.BYTES in sorts else Sort.TEXT
    sorts = {_with_exact_literal(left, right).sort, _with_exact_literal(right, left).sort}
    return Sort.REAL if sorts & {Sort.REAL, Sort.TEXT} else Sort.EXACT


def _comparable(left: Value, right: Value) -> tuple[Read, Read]:
    """Return two values in forms that compare as MySQL compares them."""
    sorts = {left.sort, right.sort}
    if sorts & {Sort.MOMENT, Sort.CLOCK}:
        return _times(left, right)
    if sorts == {Sort.CHOICE} or Sort.OTHER in sorts:
        refuse(f"{left.sort.value} is compared with {right.sort.value}")
    if Sort.BYTES in sorts and not sorts - {Sort.BYTES, Sort.TEXT, Sort.CHOICE}:
        return as_bytes(left), as_bytes(right)
    if not sorts - {Sort.TEXT, Sort.CHOICE}:
        check_collation(left, right)
        # Python orders texts by code points, which is the order of their bytes in UTF-8.
        return tuple(strict(lambda t: t.rstrip(" "), as_text(v).read) for v in (left, right))  # type: ignore[return-value]
    return _numbers(left, right)


def _times(left: Value, right: Value) -> tuple[Read, Read]:
    for one, other in ((left, right), (right, left)):
        as_number = other.sort is Sort.EXACT or (one.sort is Sort.CLOCK and other.sort is Sort.TEXT)
        if one.sort in (Sort.MOMENT, Sort.CLOCK) and as_number and not one.column:
            refuse(f"{one.sort.value} that is no column is compared with {_shown(other)}")
    form = _moment if Sort.MOMENT in (left.sort, right.sort) else _clock
    return form(left), form(right)


def _numbers(left: Value, right: Value) -> tuple[Read, Read]:
    left, right = _with_exact_literal(left, right), _with_exact_literal(right, left)
    sorts = {left.sort, right.sort}
    if sorts & {Sort.REAL, Sort.TEXT}:
        return as_real(left), as_real(right)
    one, other = as_exact(left), as_exact(right)
    for year, number in ((one, other), (other, one)):
        if year.year and number.literal is not None and number.low < 100 * 10**number.scale:
            refuse("a YEAR is compared with a number of fewer than four digits")
    return one.read, other.read


def _with_exact_literal(value: Value, other: Value) -> Value:
    """Return the exact number that a literal is, where it is compared with one."""
    if value.literal is None or other.sort is not Sort.EXACT:
        return value
    if value.sort is Sort.REAL and other.integer and math.isfinite(number := float(value.literal)):
        plain = f"{Decimal(number):f}"  # TiDB compares a whole number's column with the very number that a double is
        return number_literal(plain) if _fits(plain) else value
    found = _NUMBER_TEXT.fullmatch(value.literal) if value.sort is Sort.TEXT else None
    return number_literal(found[1]) if found else value


def _fits(number: str) -> bool:
    whole, _, fraction = number.lstrip("+-").partition(".")
    return len(whole) + len(fraction) <= _MAX_DIGITS and len(fraction) <= _MAX_SCALE


def _moment(value: Value) -> Read:
    """Return a moment as text of one length, which also compares dates that no calendar has."""
    if value.sort is Sort.MOMENT:
        return strict(lambda moment: moment + _ZERO[len(moment) :], value.read)
    return constant(moment_text(value))


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


def _clock(value: Value) -> Read:
    """Return a TIME in seconds."""
    return strict(clock_seconds, value.read) if value.sort is Sort.CLOCK else constant(_clock_literal(value))


def clock_seconds(clock: str) -> Decimal | None:
    """Return the seconds of a TIME's text."""
    found = _CLOCK.fullmatch(clock)
    return _seconds(found) if found else None


def _seconds(found: re.Match[str]) -> Decimal:
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:4])
    return Decimal(f"{found[1]}{hours * 3600 + minutes * 60 + seconds}.{found[5] or 0}")


def _clock_literal(value: Value) -> Decimal:
    literal = (value.literal or "").strip()
    found = value.sort in (Sort.TEXT, Sort.EXACT) and (
        _CLOCK_DIGITS.fullmatch(literal) or (value.sort is Sort.TEXT and _CLOCK.fullmatch(literal))
    )
    if not found:
        refuse(f"a TIME is compared with {_shown(value)}, and not with one as '-hhh:mm:ss'")
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:4])
    if hours > 838 or minutes > 59 or seconds > 59:
        refuse(f"a TIME is compared with {_shown(value)}, which is none")
    return _seconds(found)


def _shown(value: Value) -> str:
    if value.literal is None:
        return f"{value.sort.value} that is no literal" if value.sort is not Sort.OTHER else value.sort.value
    return f"'{value.literal}'" if value.sort is Sort.TEXT else value.literal


def merged(values: list[Value]) -> tuple[Value, list[Read]]:
    """Return what a value of one of several sorts is, without its function, and that of each in this form."""
    some = [v for v in values if v.sort is not Sort.NULL]
    sorts = {v.sort for v in some}
    if not sorts:
        return NULL, [v.read for v in values]
    if not sorts - {Sort.TRUTH, Sort.EXACT}:
        numbers = [as_exact(v) for v in some]
        scale = max(n.scale for n in numbers)
        low = min(n.low * 10 ** (scale - n.scale) for n in numbers)
        high = max(n.high * 10 ** (scale - n.scale) for n in numbers)
        alike = all(n.integer for n in numbers) and len({n.unsigned for n in numbers}) == 1
        kind = replace(exact(NULL.read, low, high, scale), integer=alike, unsigned=alike and numbers[0].unsigned)
        return kind, [as_exact(v).read if v.sort is not Sort.NULL else v.read for v in values]
    if not sorts - {Sort.TRUTH, Sort.EXACT, Sort.REAL}:
        return real(NULL.read), [as_real(v) if v.sort is not Sort.NULL else v.read for v in values]
    if not sorts - {Sort.TEXT, Sort.CHOICE}:
        return text(NULL.read, *some), [as_text(v).read if v.sort is not Sort.NULL else v.read for v in values]
    if sorts == {Sort.BYTES} or (len(some) == 1 and sorts <= {Sort.CLOCK, Sort.MOMENT}):
        return Value(NULL.read, sorts.pop()), [v.read for v in values]
    refuse("its values are of several sorts: " + ", ".join(sorted(sort.value for sort in sorts)))
