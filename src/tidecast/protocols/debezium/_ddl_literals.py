"""Times as a statement may write them, in the form in which TiDB keeps them.

Source: Other documents, MySQL's date and time literals.
"""

from __future__ import annotations

import datetime as dt
import re

_DIGITS = re.compile(r"(\d{6}|\d{8}|\d{12}|\d{14})(?:\.(\d*))?$")
_PARTS = re.compile(r"(\d{1,4})\D(\d{1,2})\D(\d{1,2})(?:[\sT]+(\d{1,2})(?:\D(\d{1,2})(?:\D(\d{1,2})(?:\.(\d*))?)?)?)?$")
_CLOCK = re.compile(r"(-?)(?:(\d{1,2})\s+)?(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?$")
_NUMBER = re.compile(r"(-?)(\d{1,7})(?:\.(\d*))?$")
_MICROS = 6
_FULL_YEAR = 4
_CENTURY_ENDS = 70
_SIXTY = 60


def datetime_text(literal: str, digits: int) -> str | None:
    """Return a DATETIME or TIMESTAMP literal as `YYYY-MM-DD hh:mm:ss[.ffffff]`, None for what is none.

    `digits` are those after the point, to which it is rounded. Days that no calendar has stay, as in the zero date.
    """
    literal = literal.strip()
    if literal and not literal.strip("0"):
        literal = "0000-00-00"
    if bare := _DIGITS.match(literal):
        whole, fraction = bare.groups()
        year = whole[: _FULL_YEAR if len(whole) in (8, 14) else 2]
        rest = whole[len(year) :]
        numbers = [year, *(rest[n : n + 2] for n in range(0, len(rest), 2))]
    elif parts := _PARTS.match(literal):
        *numbers, fraction = parts.groups()
    else:
        return None
    year, month, day, hour, minute, second = (int(n or 0) for n in [*numbers, *["0"] * (6 - len(numbers))])
    if len(numbers[0]) == len("70"):
        year += 1900 if year >= _CENTURY_ENDS else 2000
    micros = _rounded(fraction, digits)
    try:
        moment = dt.datetime(year, month, day, hour, minute, second) + dt.timedelta(microseconds=micros)
    except (ValueError, OverflowError):
        if month > 12 or day > 31 or hour > 23 or max(minute, second) >= _SIXTY or micros >= 10**_MICROS:
            return None
        return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{_shown(micros, digits)}"
    return f"{moment.replace(microsecond=0)}{_shown(moment.microsecond, digits)}"


def time_text(literal: str, digits: int) -> str | None:
    """Return a TIME literal as `[-]hh:mm:ss[.ffffff]`, None for what is none; `digits` as in `datetime_text`."""
    literal = literal.strip()
    if match := _CLOCK.match(literal):
        sign, days, hours, minutes, seconds, fraction = match.groups()
    elif match := _NUMBER.match(literal):
        sign, number, fraction = match.groups()
        days, (hours, minutes, seconds) = "0", (number[:-4], number[-4:-2], number[-2:])
    else:
        moment = datetime_text(literal, digits)
        return moment and moment[len("0000-00-00 ") :]
    if max(int(minutes or 0), int(seconds or 0)) >= _SIXTY:
        return None
    whole = (int(days or 0) * 24 + int(hours or 0)) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    carry, micros = divmod(_rounded(fraction, digits), 10**_MICROS)
    whole += carry
    clock = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{sign}{clock}{_shown(micros, digits)}"


def _rounded(fraction: str | None, digits: int) -> int:
    """Return the microseconds of a fraction's text, rounded to some digits; up to a whole second."""
    cut = (fraction or "")[: digits + 1].ljust(digits + 1, "0")
    return int((int(cut) + 5) // 10 * 10 ** (_MICROS - digits))


def _shown(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""
