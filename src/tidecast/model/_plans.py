"""Shapes of Spark plans."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def evaluated_once(column: Column) -> Column:
    """Return a column whose expression Spark evaluates once a row, however often later steps speak of it.

    Spark otherwise copies an expression into every filter and projection that reads it. A generator stops that;
    a `select` may hold one.
    """
    return F.explode(F.array(column))


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of some frames with the same columns, matched by name.

    Spark checks a plan anew with each step, so that a chain of many unions takes the square of their number; halves
    of halves do not.
    """
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return union(frames[:half]).unionByName(union(frames[half:]))
