"""Where the whole of a large message lies. Source: Simple protocol, large messages."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.protocols.simple import _read_avro

_MEMBER = "claimCheckLocation"


def claim_check_location(value: Column) -> Column:
    """Return the location that a message in JSON or Avro names (binary to string), null where it is whole."""
    text = value.cast("string")
    in_json = F.when(text.contains(f'"{_MEMBER}"'), F.get_json_object(text, f"$.{_MEMBER}"))
    in_avro = _read_avro.fields(_read_avro.head(value), value)[_MEMBER]
    return F.when(_read_avro.is_avro(value), in_avro).otherwise(in_json)
