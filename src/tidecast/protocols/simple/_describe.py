"""What one message says of itself, for people. Source: Simple protocol, messages."""

from __future__ import annotations

import json
from typing import Any

from tidecast.protocols.simple._avro import MARK, read_message


def describe(value: bytes) -> dict[str, Any]:
    """Return the members of one message, in JSON or Avro, by their names in JSON.

    Raises ValueError for a message that is neither.
    """
    avro = value.startswith(MARK)
    said = read_message(value) if avro else json.loads(value)
    if not isinstance(said, dict):
        raise ValueError("not a JSON object")
    table = said.get("tableSchema")
    if avro and table:
        said["tableSchema"] = {"schema": table["database"], **table}
    return said
