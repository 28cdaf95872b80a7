"""Hypothesis strategies for values of columns, as all protocols have them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

T = TypeVar("T")


def drawn(strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """Return examples of a strategy: they go to Spark together, as a job for each would take hours."""
    found: list[T] = []

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(example: T) -> None:
        found.append(example)

    collect()
    return found


def fixed(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of so many digits, so many of them behind the point."""
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


def plain(number: Decimal) -> str:
    """Return all digits of a decimal, without an exponent."""
    return format(number, "f")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
moments = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2037, 12, 31))
utc_texts = moments.map(lambda m: m.strftime("%Y-%m-%d %H:%M:%S.%f")) | st.just("0000-00-00 00:00:00.000000")
