"""Schema changes, watermarks and the values of deletes as `avro-enable-watermark` sends them.

Source: Avro protocol, DDL and watermark messages.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tidecast.model import Ddl, ddl_action, ddl_type
from tidecast.protocols._codec import Message
from tidecast.protocols._json_text import Json
from tidecast.protocols.avro._json import dumps
from tidecast.values import content_of, fixed_bytes, joined

DDL, WATERMARK, DELETE = b"\x01", b"\x02", b"\x03"
TIMED_LENGTH = 9
"""The length of a watermark and of a delete's value: a byte, and the commit-ts in eight, the highest first."""


def encode_ddl(ddl: Ddl) -> bytes:
    """Return the message of a schema change: a byte 1 and a JSON object.

    Its `type` is the number of TiDB's action, as far as the statement tells it, else 0.
    """
    database, table = ddl.shown_as
    message: Json = {
        "query": ddl.sql,
        "type": ddl_action(ddl.sql, ddl.type).number,
        "schema": database,
        "table": table,
        "commitTs": ddl.commit_ts,
    }
    return DDL + dumps(message).encode()


def encode_watermark(commit_ts: int) -> Message:
    """Return the message of a watermark: a byte 2 and the commit-ts."""
    return None, WATERMARK + commit_ts.to_bytes(TIMED_LENGTH - 1, "big")


def encode_deletes(commit_ts: np.ndarray) -> pa.Array:
    """Return the values of deletes: a byte 3 and the commit-ts."""
    return joined([DELETE, fixed_bytes(commit_ts.astype(">i8"), None)])


def times_of(values: pa.Array, at: np.ndarray) -> np.ndarray:
    """Return the commit-ts of watermarks and of deletes, which stand at `at`."""
    data, offsets = content_of(values)
    digits: np.ndarray = data.take(offsets[at][:, None] + np.arange(1, TIMED_LENGTH), mode="clip")
    return digits.reshape(-1, TIMED_LENGTH - 1).copy().view(">i8").ravel().astype(np.int64, copy=False)


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
    return Ddl(ddl_type(sql, members.get("type")), sql, commit_ts, named=named if all(named) else None)
