"""TSOs in columns."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast._tso import latest_tso


def is_tso(tso: Column) -> Column:
    """Tell whether a number (bigint) can be a commit-ts: neither negative nor ahead of this machine's clock by days.

    One flipped bit would otherwise make a row the newest for good, or a watermark that all rows to come lie below.
    """
    return (tso >= 0) & (tso < F.lit(latest_tso()))
