"""The parts of a message as text, before Spark reads it. Source: Debezium protocol, messages."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions import LONG_TEXTS, MAX_LENGTH
from tidecast.protocols import _json_object as json_object

END = "\x01"
"""What follows a comma after a row's text: no JSON has it, neither in a text nor outside."""

_PAYLOAD, _COMPACT, _SCHEMA = '{"payload":', '{"payload":{', ',"schema":{'
_SCHEMA_FIRST, _PAYLOAD_LAST = '{"schema":{', ',"payload":'
_OP = ',"op":"'
_AFTER_HEAD = (
    f'{_OP}c","before":null,"after":{{',
    f'{_OP}u","before":{{',
    f'{_OP}u","after":{{',
    f'{_OP}d","after":null,"before":{{',
)
"""What comes after the head of TiCDC's messages, and has the row in it."""
_HEAD_FIRST = '{"payload":{"source":{'
_PARTS = T.StructType([*(T.StructField(name, T.StringType()) for name in ("payload", "schema")), json_object.END])


def text(name: str) -> Column:
    """Return a column of bytes as text."""
    return F.col(name).cast("string")


def _is_schema_first(whole: Column) -> Column:
    """Tell whether a message has its schema first, and no second member `payload`, as a column may be called."""
    once = F.substring_index(whole, _PAYLOAD_LAST, 2) == whole
    return whole.startswith(_SCHEMA_FIRST) & whole.contains(_PAYLOAD_LAST) & once


def payload(name: str) -> Column:
    """Return a message without its schema, as text that begins with `{"payload":` and has the mark of `marked`.

    The mark does not come out where more follows the message's end; where it ends with its schema, that tells.
    """
    whole, marked = text(name), json_object.marked(F.col(name))
    parts, closing = F.from_json(marked, _PARTS, LONG_TEXTS), F.lit(json_object.CLOSING)
    after_schema = F.concat(F.lit(_PAYLOAD), F.substring_index(marked, _PAYLOAD_LAST, -1))
    before_schema = F.concat(F.substring_index(whole, _SCHEMA, 1), closing)
    end = F.when(json_object.is_closed(parts), closing).otherwise("}")
    return (
        F.when(whole.startswith(_COMPACT), F.when(whole.contains(_SCHEMA), before_schema).otherwise(marked))
        .when(_is_schema_first(whole), after_schema)
        .otherwise(F.concat(F.lit(_PAYLOAD), F.coalesce(parts["payload"], whole), end))
    )


def members(name: str) -> Column:
    """Return the names of a payload's members, null where it is no object."""
    whole = payload(name)
    names = F.json_object_keys(F.substring(whole, len(_PAYLOAD) + 1, MAX_LENGTH))
    return F.when(F.json_object_keys(whole).isNotNull(), names)


def schema(name: str) -> Column:
    """Return the schema of a message as bytes without the first bracket, and with one more after its last.

    That is the message's; what else follows there is no part of a sound message. Null where there is no schema.
    """
    whole, end = text(name), F.lit("}")
    parts = F.from_json(whole, _PARTS, LONG_TEXTS)
    start = F.octet_length(F.substring_index(whole, _SCHEMA, 1)) + len(_SCHEMA) + 1
    first = F.substring_index(whole, _PAYLOAD_LAST, 1)
    return (
        F.when(
            whole.startswith(_COMPACT),
            F.when(whole.contains(_SCHEMA), F.substring(F.col(name), start, F.lit(MAX_LENGTH))),
        )
        .when(
            _is_schema_first(whole),
            F.concat(F.substring(first, len(_SCHEMA_FIRST) + 1, MAX_LENGTH), end).cast("binary"),
        )
        .otherwise(F.concat(F.substring(parts["schema"], 2, MAX_LENGTH), end).cast("binary"))
    )


def head_length(name: str) -> Column:
    """Return how many bytes come before the operation in a message of TiCDC's."""
    return F.octet_length(F.substring_index(text(name), _OP, 1))


def has_head(name: str, length: int) -> Column:
    """Tell whether a message has a head of that length, and then the whole row, as TiCDC writes both.

    The head has no object but `source`, and so no side of the row. One search for a bracket tells it: to look for the
    names of the sides would cost what the head's cutting gains.
    """
    begin = F.substring(name, length + 1, max(map(len, _AFTER_HEAD))).cast("string")
    rest = F.substring(name, len(_HEAD_FIRST) + 1, length - len(_HEAD_FIRST)).cast("string")
    is_head = text(name).startswith(_HEAD_FIRST) & ~rest.contains("{")
    return is_head & reduce(or_, map(begin.startswith, _AFTER_HEAD))


def without_head(name: str, length: int, schema: bytes | None) -> Column:
    """Return a message without its schema as text, and where it `has_head`, without that, and with `END` at its end.

    The head, up to `op`, is the longer half of a small row's message, and has been read already: 1.0 to 1.7 times as
    fast as to read it again. It can go when Spark reads a message's head and, by what that says, its row in one pass.
    `schema` is what `schema()` returns of the message: it need not be looked for again.
    """
    after = 0 if schema is None else len(_SCHEMA) + len(schema)
    rest = F.substring(F.col(name), F.lit(length + 1 + len(",")), F.octet_length(name) - (length + len(",") + after))
    short = F.concat(F.lit(_COMPACT), rest.cast("string"), F.lit(f",{END}" if schema is None else "}"))
    whole = payload(name)
    if schema is None:
        whole = F.when(text(name).startswith(_COMPACT), text(name)).otherwise(whole)
    return F.when(has_head(name, length), short).otherwise(whole)


def side(message: Column, name: str) -> Column:
    """Return what follows the name of a side of a row in a message, from its first bracket on."""
    member = f',"{name}":'
    before = F.octet_length(F.substring_index(message, member, 1))
    return F.substring(message.cast("binary"), before + len(member) + 1, F.lit(MAX_LENGTH)).cast("string")
