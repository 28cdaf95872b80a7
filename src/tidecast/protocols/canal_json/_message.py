"""The types and operations of Canal-JSON messages. Source: Canal-JSON protocol, members."""

from __future__ import annotations

from tidecast.model import Op

ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY")
WATERMARK = "TIDB_WATERMARK"
