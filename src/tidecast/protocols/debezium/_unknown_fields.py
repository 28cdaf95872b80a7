"""Members of a row that are no columns of its table: what nobody reads would be lost.

Spark skips them in silence, and to list a row's members it has to read the row once more. Most rows can do without:
one that shows every column, in a message that has no more members than it must, has no others. To count commas is
2.0 times as fast as to list the members; it can go when `from_json` tells which members it skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import Op
from tidecast.protocols.debezium import _json
from tidecast.protocols.debezium._decode_envelope import END, side
from tidecast.protocols.debezium._decode_schema import Field
from tidecast.protocols.debezium._decode_values import json_type

_ESCAPED_COMMA = "\\u002"


def unknown_fields(message: Column, headed: Column, sides: Mapping[str, Column], fields: Sequence[Field]) -> Column:
    """Return what is wrong with a row that has a member which is no column of its table, else null.

    In: a message as `without_head` returns it, whether it had a head, and its sides as Spark has read them. `op`, the
    row's operation, is a column of the frame.
    """
    none = F.when(headed, _has_no_more(message, sides, fields))
    return F.when(none, None).otherwise(F.coalesce(*_listed(message, sides, fields)))


def _has_no_more(message: Column, sides: Mapping[str, Column], fields: Sequence[Field]) -> Column:
    """Return true of a message that has all columns of its table and no other member in its row.

    Else false or null, also of some messages that have no other: those with texts that may hold an escaped comma, and
    those with NULLs that are not side by side, in the first column, or beside texts with commas.

    A comma comes before each member but an object's first, or is within a text. So where each column is there, the
    number of commas tells whether there is more. A column is there if its value is not NULL, or if `"name":null` is
    somewhere after a comma: where that is not in the row, but in an object within it, its comma is one too many.
    """
    shown = [f for f in fields if not f.column.virtual]
    names, texts = [f.column.name for f in shown], [f.column.name for f in shown if json_type(f) == T.StringType()]
    one_side = F.when(F.col("op") != Op.UPDATE, len(names) + 1).when(sides["before"].isNull(), len(names))
    least, commas = one_side.otherwise(2 * len(names)), _commas(message)
    within = F.concat_ws("", *(there[name] for there in sides.values() for name in texts), F.lit(f",{END}"))
    absent = F.concat_ws(
        "",
        *(
            F.when(there.isNotNull() & there[name].isNull(), f",{_json.dumps(name)}:null")
            for there in sides.values()
            for name in names
        ),
    )
    # Only the empty text is in an empty text.
    place = F.when(commas == least, message).when(
        (commas - _commas(within) == least) & ~message.contains(_ESCAPED_COMMA), ""
    )
    return place.contains(absent)


def _commas(text: Column) -> Column:
    """Return the number of commas in a text, without the last one, which `END` follows: the fastest way in Spark."""
    return F.find_in_set(F.lit(END), text) - 2


def _listed(message: Column, sides: Mapping[str, Column], fields: Sequence[Field]) -> Iterator[Column]:
    """Yield for each side of a row which member is no column, null for none."""
    names = [f.column.name for f in fields]
    usual = F.array(*(F.lit(f.column.name) for f in fields if not f.column.virtual)).cast("array<string>")
    for name, there in sides.items():
        keys = F.json_object_keys(F.get_json_object(message, f"$.payload.{name}"))
        if not sides.keys() & names:
            # The text from the row on has its keys first; what comes after its end does not count.
            row = side(message, name)
            keys = F.when(row.startswith("{"), F.json_object_keys(row)).otherwise(keys)
        strange = F.get(F.array_except(keys, F.array(*map(F.lit, names)).cast("array<string>")), F.lit(0))
        words = F.concat(F.lit("column "), strange, F.lit(" is not in the table"))
        yield F.when(there.isNotNull() & (keys != usual), words)
