"""Schema changes and watermarks as Canal-JSON messages. Source: Canal-JSON protocol, members."""

from __future__ import annotations

from typing import Any

from tidecast.model import Ddl, physical_ms
from tidecast.protocols._codec import Message
from tidecast.protocols.canal_json._json import dumps
from tidecast.protocols.canal_json._message import DDL_TYPES, WATERMARK
from tidecast.protocols.canal_json._options import CanalOptions

_OTHER = "QUERY"


def encode_ddl(ddl: Ddl, options: CanalOptions, build_ts: int) -> bytes:
    """Return the message of a schema change; `build_ts` are milliseconds since the epoch.

    That a partition is exchanged with a table is no change of one here, as it is for Simple.
    """
    kind = ddl.type if ddl.type in DDL_TYPES and not ddl.exchanged else _OTHER
    message = _message(kind, ddl.commit_ts, build_ts, *ddl.shown_as, ddl.sql)
    return dumps(message | _tidb("commitTs", ddl.commit_ts, options)).encode()


def encode_watermark(commit_ts: int, options: CanalOptions, build_ts: int) -> Message:
    """Return the message of a watermark, from its TSO and the milliseconds since the epoch."""
    message = _message(WATERMARK, commit_ts, build_ts)
    return None, dumps(message | _tidb("watermarkTs", commit_ts, options)).encode()


def _message(
    kind: str, commit_ts: int, build_ts: int, database: str = "", table: str = "", sql: str = ""
) -> dict[str, Any]:
    return {
        "id": 0,
        "database": database,
        "table": table,
        "pkNames": None,
        "isDdl": kind != WATERMARK,
        "type": kind,
        "es": physical_ms(commit_ts),
        "ts": build_ts,
        "sql": sql,
        "sqlType": None,
        "mysqlType": None,
        "data": None,
        "old": None,
    }


def _tidb(member: str, commit_ts: int, options: CanalOptions) -> dict[str, Any]:
    return {"_tidb": {member: commit_ts}} if options.enable_tidb_extension else {}
