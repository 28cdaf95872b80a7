"""One Debezium message described for people. Source: Debezium protocol, messages."""

from __future__ import annotations

import json

from tidecast.model import Op
from tidecast.protocols._protocol import Description
from tidecast.protocols.debezium._encode import WATERMARK

_TYPES = {WATERMARK: "WATERMARK", Op.CREATE: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}
_BEGINNINGS = (b'{"payload"', b'{"schema"')


def describe(key: bytes | None, value: bytes | None) -> Description:
    """Return what a message says: a schema change, a watermark, or a row."""
    try:
        payload = json.loads(value or b"").get("payload") or {}
        source = payload.get("source") or {}
        return Description(
            "DDL" if "ddl" in payload else _TYPES.get(str(payload.get("op")), ""),
            ".".join(filter(None, (source.get("db"), source.get("table")))),
            source.get("commit_ts"),
            payload.get("ddl"),
        )
    except (ValueError, TypeError, AttributeError):
        return Description()


def looks_like(value: bytes) -> bool:
    """Tell whether a value begins as those of TiCDC and of Debezium's own connectors do."""
    return value.startswith(_BEGINNINGS)
