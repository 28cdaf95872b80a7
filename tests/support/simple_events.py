"""Simple messages in a DataFrame, decoded."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidecast.model import Events
from tidecast.sources import decode_records
from tidecast.topics import Records


def decode_simple(records: DataFrame, *, ordered: bool = False, zone: str = "UTC") -> Events:
    """Return the events of messages: the columns of `RECORD`."""
    return decode_records(Records(records, ordered=ordered), "simple", zone=zone)
