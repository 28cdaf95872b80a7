"""Simple in the register of protocols, and a message described for people. Source: Simple protocol, messages."""

from __future__ import annotations

import json
from typing import Any

from tidecast.protocols._description import Description
from tidecast.protocols._protocol import WireProtocol
from tidecast.protocols.simple._avro import MARK, read_message
from tidecast.protocols.simple._claim import claim_check_locations
from tidecast.protocols.simple._codec import SimpleCodec, wrong_options
from tidecast.protocols.simple._read import SimpleReader


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return what a message in JSON or Avro says: a schema change, a bootstrap, a watermark, or a row."""
    try:
        message = _members(value or b"")
        table = message.get("tableSchema") or {}
        names = (table["schema"], table["table"]) if table else (message.get("database"), message.get("table"))
        return Description(
            str(message["type"]),
            ".".join(filter(None, names)),
            message.get("commitTs"),
            message.get("sql"),
            [(c["name"], c["dataType"]["mysqlType"]) for c in table.get("columns", [])],
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Description()


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as those of TiCDC do."""
    return value.startswith((MARK, b'{"version"'))


def _members(value: bytes) -> dict[str, Any]:
    """Return the members of a message by their names in JSON. Raises ValueError for one that is neither form."""
    avro = value.startswith(MARK)
    payload = read_message(value) if avro else json.loads(value)
    if not isinstance(payload, dict):
        raise ValueError("not a JSON object")
    table = payload.get("tableSchema")
    if avro and table:
        payload["tableSchema"] = {"schema": table["database"], **table}
    return payload


PROTOCOL = WireProtocol(
    "simple",
    "Simple",
    reader=SimpleReader,
    codec=SimpleCodec,
    describe=describe,
    looks_like=looks_like,
    wrong_options=wrong_options,
    watermarks=True,
    bootstraps=True,
    compressed=("value",),
    large_messages=lambda options: True,
    claim_check_locations=claim_check_locations,
)
