"""The members of Simple messages, in either encoding. Source: Simple protocol, messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidecast.model import Column, Op

VERSION = 1
ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY")
BOOTSTRAP, WATERMARK = "BOOTSTRAP", "WATERMARK"


@dataclass(frozen=True)
class RowMessages:
    """The messages of some rows of a table version before they are written, each column with a value per row.

    `columns` are those that they show, by the bytes of their names. `op` is text (see `tidecast.model.Op`); `table_id`
    and `commit_ts` are int64, `build_ts` is in milliseconds since the epoch, one for all rows or one per row.
    `checksum` (see `tidecast.protocols.CHECKSUM`) is null where a message has none, `location`, text, where it is
    whole; None for no message that is not. `sides` are the rows `data` and `old`, null where a message does not show
    one.
    """

    database: str
    table: str
    schema_version: int
    columns: Sequence[Column]
    handle_key_only: bool
    op: pa.Array
    table_id: np.ndarray
    commit_ts: np.ndarray
    build_ts: int | np.ndarray
    location: pa.Array | None
    checksum: pa.StructArray
    sides: Mapping[str, pa.StructArray]
