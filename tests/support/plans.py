"""How Spark means to run a query."""

from __future__ import annotations

import contextlib
import io

from pyspark.sql import DataFrame

_LIMITS = ("spark.sql.maxPlanStringLength", "spark.sql.debug.maxToStringFields")  # nothing in the run's session


def explained(frame: DataFrame, mode: str = "simple") -> str:
    """Return the physical plan of a DataFrame as text, or what else `DataFrame.explain` has in a mode."""
    conf = frame.sparkSession.conf
    before, text = {name: str(conf.get(name)) for name in _LIMITS}, io.StringIO()
    for name in _LIMITS:
        conf.unset(name)
    try:
        with contextlib.redirect_stdout(text):
            frame.explain(mode=mode)
    finally:
        for name, value in before.items():
            conf.set(name, value)
    return text.getvalue()
