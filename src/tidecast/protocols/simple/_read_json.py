"""Simple messages in JSON as Spark reads them. Source: Simple protocol."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._go import to_json
from tidecast.expressions import LONG_TEXTS, MAX_LENGTH, from_text, is_parsed
from tidecast.model import CHECKSUM, DataType, Kind, TableSchema
from tidecast.model import Column as TableColumn
from tidecast.protocols._json_object import is_sound, parse_object
from tidecast.protocols.simple._message import VERSION
from tidecast.protocols.simple._zones import to_utc

_UNREADABLE = "unreadable"
_HEADER = T.StructType(
    [
        T.StructField("version", T.IntegerType()),
        T.StructField("database", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("tableID", T.LongType()),
        T.StructField("type", T.StringType()),
        T.StructField("commitTs", T.LongType()),
        T.StructField("buildTs", T.LongType()),
        T.StructField("schemaVersion", T.LongType()),
        T.StructField("claimCheckLocation", T.StringType()),
        T.StructField("handleKeyOnly", T.BooleanType()),
        T.StructField("checksum", CHECKSUM),
    ]
)
"""A message without its row and without schemas, which Spark then skips."""

_MIDDLE = {"type": "INSERT", "commitTs": 10**17, "buildTs": 10**12}
"""Members that are this long in this century's messages of rows, whatever their type."""

_TIMESTAMP = T.StructType([T.StructField("location", T.StringType()), T.StructField("value", T.StringType())])


def head(value: Column) -> Column:
    """Return what `fields` reads of a message."""
    return parse_object(value, _HEADER)


def fields(header: Column, value: Column) -> dict[str, Column]:
    """Return a message's members by name (see `tidecast.protocols.simple._decode`); `readable` first of all."""
    return {"readable": is_sound(header, value), **{name: header[name] for name in _HEADER.fieldNames()}}


def without_build_ts(value: Column, build_ts: Column) -> Column:
    """Return a message with 0 for its `buildTs`: those that repeat each other differ in nothing else."""
    member = '"buildTs":'
    written = F.concat(F.lit(member), build_ts.cast("string"))
    return F.replace(value.cast("string"), written, F.lit(member + "0")).cast("binary")


def body(schema: TableSchema, value: Column) -> Column:
    """Return a row's message as text, but without its head where that is TiCDC's and as long as usual.

    The head is half of a small row's message, and `fields` has read it already. In rows of long
    texts that gains nothing (0.7 times as fast in `bench.tricks`): it can go where short rows gain nothing either.
    """
    begin = to_json({"version": VERSION, "database": schema.database, "table": schema.table})[:-1]
    middle = "," + to_json({"tableID": schema.table_id} | _MIDDLE)[1:-1]
    end = f',"schemaVersion":{schema.version},'
    before = len(begin.encode())
    text = value.cast("string")
    head = F.substring(value, before + 1, len(middle + end)).cast("string")
    # Without an object of its own, a head has no row in it.
    usual = text.startswith(begin) & head.endswith(end) & ~head.contains("{")
    short = F.concat(F.lit("{"), F.substring(value, before + len(middle + end) + 1, F.lit(MAX_LENGTH)).cast("string"))
    return F.when(usual, short).otherwise(text)


def row(schema: TableSchema, sides: Sequence[str], body: Column) -> Column:
    """Return the struct of a row's sides, `old` and `data`, by column name, and whether it could read all of them."""
    kind = T.StructType([*_members(schema, sides, _TIMESTAMP), T.StructField(_UNREADABLE, T.StringType())])
    return F.from_json(body, kind, {"columnNameOfCorruptRecord": _UNREADABLE, **LONG_TEXTS})


def rest(schema: TableSchema, sides: Sequence[str], message: Column, value: Column) -> Column | None:
    """Return what `row` could not read, of the few messages that show a TIMESTAMP as plain text; None for no column."""
    if all(c.data_type.kind is not Kind.TIMESTAMP for c in schema.columns):
        return None
    plain = T.StructType(_members(schema, sides, T.StringType()))
    return F.when(uneven(message), F.from_json(value.cast("string"), plain, LONG_TEXTS))


def uneven(message: Column) -> Column:
    """Tell whether a message that `row` has read may show values which it could not read."""
    return message[_UNREADABLE].isNotNull()


def _members(schema: TableSchema, sides: Sequence[str], timestamp: T.DataType) -> list[T.StructField]:
    kinds = {c.name: timestamp if c.data_type.kind is Kind.TIMESTAMP else T.StringType() for c in schema.columns}
    columns = T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    return [T.StructField(side, columns) for side in sides]


def names(message: Column, value: Column) -> Column:
    """Return the names that `old` shows, of a message that `row` has read."""
    return F.json_object_keys(F.get_json_object(value.cast("string"), "$.old"))


def whole(message: Column) -> Column:
    """Tell whether a message that `row` has read was whole: `fields` has checked it already."""
    return F.lit(True)


def read_value(column: TableColumn, side: str, message: Column, more: Column, zone: str) -> Column:
    """Return a value of a row's side from what `row` and `rest` have read; null where it is not of its type.

    Out: see `tidecast.model.spark_type`. `zone` is that of TIMESTAMP values which name none.
    Source: Simple protocol, row values.
    """
    text, kind = message[side][column.name], column.data_type.kind
    if kind is Kind.TIMESTAMP:
        read = F.when(text.isNull(), more[side][column.name]).otherwise(text["value"])
        return to_utc(read, text["location"], zone)
    return F.try_to_binary(text, F.lit("base64")) if kind is Kind.BINARY else from_text(column.data_type, text)


def fallible(data_type: DataType) -> bool:
    """Tell whether a text may fail to be a value of a type."""
    return is_parsed(data_type) or data_type.kind in (Kind.BINARY, Kind.TIMESTAMP)
