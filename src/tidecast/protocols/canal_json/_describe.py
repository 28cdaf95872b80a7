"""One Canal-JSON message described for people. Source: Canal-JSON protocol, members."""

from __future__ import annotations

import json

from tidecast.protocols._protocol import Description
from tidecast.protocols.canal_json._message import WATERMARK


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return what a message says: a row, a schema change, or a watermark."""
    try:
        message = json.loads(value or b"")
        tidb, types = message.get("_tidb") or {}, message.get("mysqlType") or {}
        return Description(
            "WATERMARK" if message["type"] == WATERMARK else str(message["type"]),
            ".".join(filter(None, (message.get("database"), message.get("table")))),
            tidb.get("watermarkTs") or tidb.get("commitTs"),
            message.get("sql") or None,
            [(name, types[name]) for name in message.get("sqlType") or types],
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return Description()


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as those of TiCDC and of Canal do."""
    return value.startswith((b'{"id":0,"database"', b'{"data":'))
