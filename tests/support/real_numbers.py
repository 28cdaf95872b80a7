"""Floats and doubles, and the shortest text of each by Python alone."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal


def double(bits: int) -> float:
    """Return the double of these bits."""
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value


def single(bits: int) -> float:
    """Return the float of these bits."""
    value: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    return value


def without_exponent(text: str) -> str:
    """Return the text of a number without an exponent, and without zeros at the end of its fraction."""
    written = format(Decimal(text), "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def shortest_double(value: float) -> str:
    """Return the shortest text of a double."""
    return without_exponent(repr(value))


def _as_single(value: Decimal) -> float:
    try:
        return single(int.from_bytes(struct.pack("<f", float(value)), "little"))
    except OverflowError:
        return math.inf


def read_again(text: str | None, kind: str) -> float | None:
    """Return the number of a text of Java's, a `float` or a `double`, which Java before 19 writes with spare digits."""
    if text is None:
        return None
    number = float(text)
    return single(int.from_bytes(struct.pack("<f", number), "little")) if kind == "float" else number


def shortest_single(value: float) -> str:
    """Return the shortest text of a float, by trying the numbers around it with ever more digits."""
    for digits in range(9):
        near = Decimal(f"{value:.{digits}e}")
        step = Decimal(1).scaleb(near.adjusted() - digits)
        for candidate in (near, near + step, near - step):
            if _as_single(candidate) == value:
                return without_exponent(str(candidate))
    raise AssertionError(value)


def doubles() -> list[float]:
    """Return doubles of every size: edges, and random ones that are always the same."""
    r = random.Random(3)
    positive = [
        *(2.0**k for k in range(-1074, 1024)),
        *(double(n) for n in range(1, 300)),
        *(double(r.getrandbits(52)) for _ in range(500)),
        *(double(e << 52 | r.getrandbits(52)) for e in range(1, 2047)),
        *(double((1023 + 84) << 52 | r.getrandbits(52)) for _ in range(500)),
        *(float(r.getrandbits(r.randint(50, 90))) for _ in range(2000)),
        *(r.random() * 10 ** r.randint(-8, 20) for _ in range(2000)),
        *(round(r.random() * 1e9, 2) for _ in range(1000)),
        *(round(r.random() * 10 ** r.randint(7, 14), r.randint(0, 7)) for _ in range(2000)),
        *(999999999.9999999, 999999999.999999, 1e9, 9999999999999.99, 9999999999999.998, 1e13),
        *(1e22, 1e23, 1e-7, 0.001, 9999999.0, 1e7, 0.1, 123456.789, 1.7976931348623157e308, 2.2250738585072014e-308),
        *(2.0**53 - 1, 2.0**53, 9007199254740993.0, 9007199254740994.0, 2e-3, 2e23, 4.9e-324, 9.9e-323),
    ]
    return [v for d in positive for v in (d, -d)]


def singles() -> list[float]:
    """Return floats of every size: edges, and random ones that are always the same."""
    r = random.Random(4)
    return [
        *(single(e << 23) for e in range(1, 255)),
        *(single(n) for n in range(1, 200)),
        *(single(e << 23 | r.getrandbits(23)) for e in range(255) for _ in range(10)),
    ]
