"""Messages in a DataFrame, decoded."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidecast.model import Events
from tidecast.sources import decode_records
from tidecast.topics import Records


def decoded(records: DataFrame, protocol: str, *, ordered: bool = False, zone: str = "UTC") -> Events:
    """Return the events of messages of a protocol; in: the columns of `RECORD`."""
    return decode_records(Records(records, ordered=ordered), protocol, zone=zone)


def decode_simple(records: DataFrame, *, ordered: bool = False, zone: str = "UTC") -> Events:
    """Return the events of Simple messages."""
    return decoded(records, "simple", ordered=ordered, zone=zone)
