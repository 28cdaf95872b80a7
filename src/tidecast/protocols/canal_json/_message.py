"""The types and operations of Canal-JSON messages. Source: Canal-JSON protocol, members."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import Op

ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY")
WATERMARK = "TIDB_WATERMARK"


def claim_check_location(value: Column) -> Column:
    """Return the location that a message names (binary to string), null where it is whole."""
    text, member = value.cast("string"), "claimCheckLocation"
    return F.when(text.contains(f'"{member}"'), F.get_json_object(text, f"$._tidb.{member}"))
