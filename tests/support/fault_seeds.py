"""How many faults of a kind a run of the tests has: few of each, or what `python -m tests.faults` says."""

from __future__ import annotations

import os

import pytest
from full import FULL

FIRST = int(os.environ.get("TIDECAST_SEED", "0"))
"""The first seed."""


def wanted(kind: str) -> int | None:
    """Return how many of a kind (`kills`, …) are asked for; None in a run of all tests."""
    number = os.environ.get(f"TIDECAST_{kind.upper()}")
    return int(number) if number else None


def seeds(kind: str, default: int, each: int = 1) -> range:
    """Return the seeds of a kind's tests, each of which has so many of it."""
    return range(FIRST, FIRST - (-(wanted(kind) or default) // each))


def command(kind: str, number: int, seed: int) -> str:
    """Return what runs one seed alone."""
    return f"python -m tests.faults --{kind} {number} --seed {seed}"


def where_asked(kind: str) -> pytest.MarkDecorator:
    """Mark tests for which a run of all has no time."""
    reason = f"only with TIDECAST_FULL=1, or by python -m tests.faults --{kind}"
    return pytest.mark.skipif(not (FULL or wanted(kind)), reason=reason)
