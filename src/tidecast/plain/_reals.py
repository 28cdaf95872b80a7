"""Floats and doubles: read from text, and written. Twins of `tidecast.expressions.shortest_text` and Spark's casts."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from fractions import Fraction

from tidecast.plain._takes_spark import TakesSpark, need, takes_spark

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_MOST_DIGITS = 400
_NO_EXPONENT_FROM, _NO_EXPONENT_TO = 1e-3, 1e7
_FLOAT_DIGITS = 9


def real_of(text: str) -> float:
    """Return the double nearest to a number's text."""
    need(_NUMBER.fullmatch(text) is not None and len(text) < _MOST_DIGITS, "no number")
    value = float(text)
    need(math.isfinite(value), "beyond all doubles")
    return value


def float_of(value: float) -> float:
    """Return the float of 32 bits nearest to a double."""
    if not math.isfinite(value):
        return value
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return takes_spark("beyond all floats")


def float_from(text: str) -> float:
    """Return the float of 32 bits nearest to a number's text; not where a double between them might lead astray."""
    near = float_of(real_of(text))
    (bits,) = struct.unpack("<I", struct.pack("<f", abs(near)))
    exact, size = abs(Fraction(text)), Fraction(abs(near))
    neighbours = (struct.unpack("<f", struct.pack("<I", other))[0] for other in (max(bits - 1, 0), bits + 1))
    others = [Fraction(other) for other in neighbours if math.isfinite(other) and other != abs(near)]
    need(all(abs(exact - size) < abs(exact - other) for other in others), "between two floats")
    return near


def shortest_text(value: float) -> str:
    """Return the shortest digits that are this double when read again, never with an exponent."""
    need(math.isfinite(value), "no number")
    written = format(Decimal(repr(value)), "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def real_text(value: float, *, is_float: bool) -> str:
    """Return a double or a float as Java 19 and later write it: the shortest digits, at least two."""
    if math.isnan(value):
        return "NaN"
    sign, size = "-" if math.copysign(1, value) < 0 else "", abs(value)
    if math.isinf(size):
        return f"{sign}Infinity"
    number = _shortest_float(size) if is_float else Decimal(repr(size))
    if len(number.normalize().as_tuple().digits) == 1 and size:
        number = Decimal(f"{size:.1e}")
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    if not size or _NO_EXPONENT_FROM <= size < _NO_EXPONENT_TO:
        plain = format(number.normalize(), "f")
        return sign + (plain if "." in plain else f"{plain}.0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"


def _shortest_float(size: float) -> Decimal:
    for digits in range(_FLOAT_DIGITS):
        near = Decimal(f"{size:.{digits}e}")
        step = Decimal(1).scaleb(near.adjusted() - digits)
        for candidate in (near, near + step, near - step):
            if _is_float(float(candidate), size):
                return candidate
    return Decimal(size)


def _is_float(number: float, wanted: float) -> bool:
    """Tell whether the float nearest to a number is this one."""
    try:
        return float_of(number) == wanted
    except TakesSpark:
        return False
