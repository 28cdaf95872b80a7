"""Shapes of Spark plans."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def evaluated_once(column: Column) -> Column:
    """Return a column whose expression Spark evaluates once a row, however often later steps speak of it.

    Spark otherwise copies an expression into every filter and projection that reads it. A generator stops that;
    a `select` may hold one.
    """
    return F.explode(F.array(column))
