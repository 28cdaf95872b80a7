"""Schema changes and watermarks as `avro-enable-watermark` sends them.

Source: Avro protocol, DDL and watermark messages.
"""

from __future__ import annotations

import json

from tidecast.model import Ddl, ddl_action, ddl_type, read_statement
from tidecast.protocols._codec import Message
from tidecast.protocols._json_text import Json
from tidecast.protocols.avro._json import dumps

DDL, WATERMARK = b"\x01", b"\x02"
WATERMARK_LENGTH = 9


def encode_ddl(ddl: Ddl) -> bytes:
    """Return the message of a schema change: a byte 1 and a JSON object.

    Its `type` is the number of TiDB's action, as far as the statement tells it, else 0.
    """
    message: Json = {
        "query": ddl.sql,
        "type": ddl_action(ddl.sql).number,
        "schema": ddl.database,
        "table": ddl.table,
        "commitTs": ddl.commit_ts,
    }
    return DDL + dumps(message).encode()


def encode_watermark(commit_ts: int) -> Message:
    """Return the message of a watermark: a byte 2 and eight bytes, the highest first."""
    return None, WATERMARK + commit_ts.to_bytes(WATERMARK_LENGTH - 1, "big")


def schema_change(value: bytes) -> Ddl | None:
    """Return the schema change of a message: a byte 1 and a JSON object; None for one that tells no commit-ts."""
    try:
        members = json.loads(value[len(DDL) :])
        commit_ts, sql = members["commitTs"], members.get("query") or ""
        named = (members.get("schema"), members.get("table"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    texts = (sql, *(name for name in named if name is not None))
    if type(commit_ts) is not int or not 0 <= commit_ts < 1 << 63 or not all(isinstance(t, str) for t in texts):
        return None
    statement = read_statement(sql)
    kind = ddl_type(statement) if statement else "QUERY"  # the message has TiDB's number of it
    return Ddl(kind, sql, commit_ts, named=named if all(named) else None)
