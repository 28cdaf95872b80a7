"""A message that is one JSON object, read by Spark without what Spark forgives in silence."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_UNREADABLE = "unreadable"
_END, _CLOSED = "end", "T"
_CLOSING = f',"{_END}":"{_CLOSED}"}}'.encode()


def parse_object(value: Column, members: T.StructType) -> Column:
    """Return the struct of a message's members (binary), which `is_sound` tells to be one JSON object or not.

    A mark is put before the message's last brace and must come out again: Spark takes trailing text in silence.
    """
    spaced = F.octet_length(F.rtrim(value.cast("string"), F.lit(" \t\r\n")))
    length = F.when(F.substring(value, -1, 1) == F.lit(b"}"), F.octet_length(value)).otherwise(spaced)
    marked = F.concat(F.substring(value, F.lit(1), length - 1), F.lit(_CLOSING)).cast("string")
    kind = T.StructType([*members.fields, *(T.StructField(name, T.StringType()) for name in (_END, _UNREADABLE))])
    return F.from_json(marked, kind, {"columnNameOfCorruptRecord": _UNREADABLE, "allowSingleQuotes": "false"})


def is_sound(parsed: Column, value: Column) -> Column:
    """Tell whether a message that `parse_object` has read is one object, whole, in UTF-8, and of the members' types."""
    return (
        parsed[_UNREADABLE].isNull()
        & F.coalesce(parsed[_END] == _CLOSED, F.lit(False))
        & F.is_valid_utf8(value.cast("string"))
    )
