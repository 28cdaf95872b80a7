"""A message that is one JSON object, read by Spark without what Spark forgives in silence."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions import LONG_TEXTS

_UNREADABLE = "unreadable"
_END, _CLOSED = "end", "T"
CLOSING = f',"{_END}":"{_CLOSED}"}}'
"""What closes an object that `marked` has marked."""
END = T.StructField(_END, T.StringType())
"""The member that `is_closed` reads."""


def marked(value: Column) -> Column:
    """Return a message (binary) as text with a mark before its last brace, which must come out again.

    Spark takes trailing text in silence.
    """
    spaced = F.octet_length(F.rtrim(value.cast("string"), F.lit(" \t\r\n")))
    length = F.when(F.substring(value, -1, 1) == F.lit(b"}"), F.octet_length(value)).otherwise(spaced)
    return F.concat(F.substring(value, F.lit(1), length - 1), F.lit(CLOSING.encode())).cast("string")


def is_closed(parsed: Column) -> Column:
    """Tell whether the mark came out of a marked message whose members were read, `END` among them."""
    return F.coalesce(parsed[_END] == _CLOSED, F.lit(False))


def parse_object(value: Column, members: T.StructType) -> Column:
    """Return the struct of a message's members (binary), which `is_sound` tells to be one JSON object or not."""
    kind = T.StructType([*members.fields, END, T.StructField(_UNREADABLE, T.StringType())])
    options = {"columnNameOfCorruptRecord": _UNREADABLE, "allowSingleQuotes": "false", **LONG_TEXTS}
    return F.from_json(marked(value), kind, options)


def is_sound(parsed: Column, value: Column) -> Column:
    """Tell whether a message that `parse_object` has read is one object, whole, in UTF-8, and of the members' types."""
    return parsed[_UNREADABLE].isNull() & is_closed(parsed) & F.is_valid_utf8(value.cast("string"))
