"""Where the whole of a large message lies. Source: Simple protocol, large messages."""

from __future__ import annotations

import json

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from tidecast.protocols.simple._avro import DML, MARK, beginning
from tidecast.spark import MAX_LENGTH

_MEMBER = "claimCheckLocation"
_FIELDS = [field["name"] for field in DML["fields"]]
_HEAD = json.dumps(DML | {"fields": DML["fields"][: _FIELDS.index(_MEMBER) + 1]})
"""A row's message up to the location; to read that, Spark need not see the rest."""


def claim_check_location(value: Column) -> Column:
    """Return the location that a message in JSON or Avro names (binary to string), null where it is whole."""
    text, head = value.cast("string"), beginning(DML)
    in_json = F.when(text.contains(f'"{_MEMBER}"'), F.get_json_object(text, f"$.{_MEMBER}"))
    record = from_avro(F.substring(value, len(head) + 1, MAX_LENGTH), _HEAD, {"mode": "PERMISSIVE"})
    in_avro = F.when(value.startswith(F.lit(head)), record[_MEMBER])
    return F.when(value.startswith(F.lit(MARK)), in_avro).otherwise(in_json)
