"""What Simple messages are, whichever their encoding. Source: Simple protocol, messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column

from tidecast.model import Column as TableColumn
from tidecast.model import Op

VERSION = 1
ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
BOOTSTRAP, WATERMARK = "BOOTSTRAP", "WATERMARK"


@dataclass(frozen=True)
class RowMessage:
    """A row's message before it is written.

    `columns` are those that it shows, by the bytes of their names; `sides` tells of the frame's columns `data` and
    `old` whether the message has them. `type` is a key of `ROW_OPS`. `checksum` (see `tidecast.model.CHECKSUM`) is
    null where it has none.
    """

    database: str
    table: str
    schema_version: int
    columns: Sequence[TableColumn]
    handle_key_only: bool
    type: Column
    table_id: Column
    commit_ts: Column
    build_ts: Column
    claim_check: Column | None
    checksum: Column
    sides: Mapping[str, Column]
