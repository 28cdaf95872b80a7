"""What Canal-JSON messages are made of. Source: Canal-JSON protocol, members."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import Op

ROW_OPS = {"INSERT": Op.CREATE, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
DDL_TYPES = ("CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY")
WATERMARK = "TIDB_WATERMARK"

_TEXTS = T.MapType(T.StringType(), T.StringType())
_TIDB = T.StructType(
    [
        T.StructField("commitTs", T.LongType()),
        T.StructField("watermarkTs", T.LongType()),
        T.StructField("onlyHandleKey", T.BooleanType()),
        T.StructField("claimCheckLocation", T.StringType()),
    ]
)
MEMBERS = T.StructType(
    [
        T.StructField("database", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("pkNames", T.ArrayType(T.StringType())),
        T.StructField("isDdl", T.BooleanType()),
        T.StructField("type", T.StringType()),
        T.StructField("es", T.LongType()),
        T.StructField("sql", T.StringType()),
        T.StructField("sqlType", _TEXTS),
        T.StructField("mysqlType", _TEXTS),
        T.StructField("data", T.ArrayType(_TEXTS)),
        T.StructField("old", T.ArrayType(_TEXTS)),
        T.StructField("_tidb", _TIDB),
    ]
)
"""The members that are read. Rows are maps, which keep the order of their columns, and every column."""


def claim_check_location(value: Column) -> Column:
    """Return the location that a message names (binary to string), null where it is whole."""
    text, member = value.cast("string"), "claimCheckLocation"
    return F.when(text.contains(f'"{member}"'), F.get_json_object(text, f"$._tidb.{member}"))
