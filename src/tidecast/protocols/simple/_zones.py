"""TIMESTAMP values of messages, which name their time zone. Source: Simple protocol, row values."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import shift_zone

_UTC = "UTC"


def to_utc(value: Column, location: Column, zone: str) -> Column:
    """Return TIMESTAMP text of the time zone `location`, `zone` where that is null, as UTC shows it."""
    known = F.coalesce(location, F.lit(zone))
    return F.when(known == _UTC, value).otherwise(shift_zone(value, known, _UTC))
