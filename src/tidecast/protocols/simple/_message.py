"""The members of Simple messages, in either encoding. Source: Simple protocol, messages."""

from __future__ import annotations

from tidecast.model import Op

VERSION = 1
ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
BOOTSTRAP, WATERMARK = "BOOTSTRAP", "WATERMARK"
