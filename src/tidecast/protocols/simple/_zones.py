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
    name = F.coalesce(location, F.lit(zone))
    is_zone = F.concat(F.lit(_SOME_TIME), name).try_cast("timestamp").isNotNull() & (F.trim(name) != "")
    real = (name == zone) | is_zone
    return F.when(name == _UTC, value).when(real, shift_zone(value, name, _UTC))
