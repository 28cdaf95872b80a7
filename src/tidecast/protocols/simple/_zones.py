"""TIMESTAMP values of messages, which name their time zone. Source: Simple protocol, row values."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.expressions import shift_zone

_UTC = "UTC"
_SOME_TIME = "2000-01-01 00:00:00 "


def to_utc(value: Column, location: Column, zone: str) -> Column:
    """Return TIMESTAMP text of the time zone `location`, `zone` where that is null, as UTC shows it.

    Null for a location that is no time zone, over which Spark would fall.
    """
    known = F.coalesce(location, F.lit(zone))
    told = F.concat(F.lit(_SOME_TIME), known).try_cast("timestamp").isNotNull() & (F.trim(known) != "")
    real = (known == zone) | told
    return F.when(known == _UTC, value).when(real, shift_zone(value, known, _UTC))
