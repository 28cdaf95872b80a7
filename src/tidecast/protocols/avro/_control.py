"""Schema changes and watermarks as `avro-enable-watermark` sends them.

Source: Avro protocol, DDL and watermark messages.
"""

from __future__ import annotations

from tidecast.model import Ddl, ddl_action
from tidecast.protocols._codec import Message
from tidecast.protocols.avro._json import Json, dumps

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
