"""Messages in a DataFrame, decoded."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import TypeAdapter
from pyspark.sql import DataFrame

from tidecast.model import Events, SchemaHistory, TableSchema
from tidecast.sources import decode_records
from tidecast.topics import Records

_STATE = TypeAdapter(list[tuple[TableSchema, int]])


def decoded(
    records: DataFrame,
    protocol: str,
    *,
    ordered: bool = False,
    zone: str = "UTC",
    schemas: Iterable[TableSchema] = (),
) -> Events:
    """Return the events of messages of a protocol; in: the columns of `RECORD`, and the tables that are known."""
    history = SchemaHistory(_STATE.dump_json([(s, max([0, *(c.id or 0 for c in s.columns)])) for s in schemas]))
    return decode_records(Records(records, ordered=ordered), protocol, zone=zone, history=history)


def decode_simple(records: DataFrame, *, ordered: bool = False, zone: str = "UTC") -> Events:
    """Return the events of Simple messages."""
    return decoded(records, "simple", ordered=ordered, zone=zone)
