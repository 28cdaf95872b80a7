"""Simple messages as JSON, to the byte as Go writes it.

Source: Simple protocol, JSON text; Other documents, Go's encoding/json.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._go import MARKUP, to_json
from tidecast.expressions import bit_number, decimal_text, enum_number, has_any, set_number, shift_zone, shortest_text
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, spark_type
from tidecast.protocols.simple._message import VERSION, WATERMARK, RowMessage
from tidecast.spark import active_java, called, reused, sql_text

_LOST = "\ufffd"
_LOST_ESCAPED = "\\ufffd"
_HALVES = dict.fromkeys(range(0xD800, 0xE000), _LOST_ESCAPED)  # halves of a pair, which are no text

_LETTERED = {f"\\u{n:04X}": f"\\u{n:04x}" for n in (0x0B, 0x0E, 0x0F, *range(0x1A, 0x20))}
_ODD = {*"\x0b\x0e\x0f", *map(chr, range(0x1A, 0x20)), *MARKUP}
"""What Spark writes otherwise than Go does, beside bytes that are no UTF-8."""

_PAIR, _MARK = "\\\\", "\x01"  # an escaped backslash, and a character that JSON text never shows

_BETWEEN = " "  # keeps a text that ends within a character apart from one that begins within it
_FREE_TEXT = (Kind.TEXT, Kind.JSON, Kind.UNKNOWN)
_SAFE = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.ENUM, Kind.SET, Kind.BIT, Kind.BINARY)
"""Kinds whose texts need no escapes, whatever the source wrote."""
_UNSAFE = {*map(chr, range(0x20)), '"', "\\", *MARKUP}
"""What text cannot stand between quotation marks as it is."""


def message(members: dict[str, Any]) -> bytes:
    """Return an object as the text that Go's encoding/json gives it, members in their order."""
    return _go(members).encode()


def _go(value: Any) -> str:
    return to_json(value).translate(_HALVES)


def row_message(row: RowMessage, zone: str) -> Column:
    """Return the message of a row: binary."""
    names = {"database": row.database, "table": row.table}
    head = {"version": VERSION} | {name: value for name, value in names.items() if value}
    tail = {"schemaVersion": row.schema_version} if row.schema_version else {}
    pieces = [
        F.lit(_go(head)[:-1]),
        F.when(row.table_id != 0, F.concat(F.lit(',"tableID":'), row.table_id.cast("string"))),
        F.lit(',"type":"'),
        row.type,
        F.lit('","commitTs":'),
        row.commit_ts.cast("string"),
        F.lit(',"buildTs":'),
        row.build_ts.cast("string"),
        F.lit("," + _go(tail)[1:-1] if tail else ""),
    ]
    if row.claim_check is not None:
        location = F.struct(row.claim_check.alias("claimCheckLocation"))
        claim = _object(location, [row.claim_check])
        members = F.concat(F.lit(","), F.substr(claim, F.lit(2), F.length(claim) - 2))
        pieces.append(F.when(row.claim_check != "", members))
    if row.handle_key_only:
        pieces.append(F.lit(',"handleKeyOnly":true'))
    pieces.append(F.concat(F.lit(',"checksum":'), F.to_json(row.checksum)))
    if row.columns:
        pieces += (_row(row.columns, name, present, f',"{name}":', zone) for name, present in row.sides.items())
    pieces.append(F.lit("}"))
    return F.concat_ws("", *pieces).cast("binary")


def watermark_message(commit_ts: Column, build_ts: Column) -> Column:
    """Return the message of a watermark: binary."""
    head = _go({"version": VERSION, "type": WATERMARK})[:-1]
    numbers = (F.lit(',"commitTs":'), commit_ts.cast("string"), F.lit(',"buildTs":'), build_ts.cast("string"))
    return F.concat(F.lit(head), *numbers, F.lit("}")).cast("binary")


def _row(columns: Sequence[TableColumn], side: str, present: Column, before: str, zone: str) -> Column:
    """Return the JSON object of a row, with what stands before it; null where it is not present.

    Rows without a character to escape, which are most, are put together from their texts: `to_json` takes longer
    (see `bench.tricks`). It can go when `to_json` is as fast and writes what Go does.
    """
    plain, quick, any_row = _row_texts(tuple(columns), side, before, zone)
    # In one condition, and that the first, so that Spark puts the texts together once.
    return F.when(plain & present, quick).when(present, any_row)


@reused(active_java)
def _row_texts(columns: tuple[TableColumn, ...], side: str, before: str, zone: str) -> tuple[Column, Column, Column]:
    """Return whether a row shows no character to escape, its text in that case, and that of any row."""
    free = (c for c in columns if c.data_type.kind not in _SAFE and isinstance(spark_type(c.data_type), T.StringType))
    shown = F.concat_ws(_BETWEEN, *(F.col(side)[c.name] for c in free))
    values = [_value(c.data_type, F.col(side)[c.name], zone) for c in columns]
    begins = (before + "{", *"," * (len(columns) - 1))
    members = map(_member, columns, values, begins, repeat(zone))
    quick = F.concat_ws("", *members, F.lit("}"))
    plain = ~has_any(shown, _UNSAFE) & F.is_valid_utf8(shown)
    return plain, quick, F.concat(F.lit(before), _any_row(columns, values, side, zone))


def _member(column: TableColumn, value: Column, begin: str, zone: str) -> Column:
    """Return a member of a row's object whose text needs no escapes, with what stands before it."""
    kind, name = column.data_type.kind, begin + _go(column.name)
    before, after = f'{name}:"', '"'
    if kind is Kind.BINARY:
        value = F.translate(F.base64(value), "\r\n", "")
    elif kind is Kind.TIMESTAMP:
        before, after = f'{name}:{{"location":{_go(zone)},"value":"', '"}'
    return F.coalesce(F.concat(F.lit(before), value, F.lit(after)), F.lit(f"{name}:null"))


def _any_row(columns: Sequence[TableColumn], values: Sequence[Column], side: str, zone: str) -> Column:
    members = [
        (_with_zone(value, zone) if column.data_type.kind is Kind.TIMESTAMP else value).alias(column.name)
        for column, value in zip(columns, values, strict=True)
    ]
    texts = [F.col(side)[c.name] for c in columns if c.data_type.kind in _FREE_TEXT]
    odd_names = any(_ODD.intersection(c.name) for c in columns)
    return _object(F.struct(*members), texts, odd_names=odd_names)


def _object(values: Column, texts: Sequence[Column], *, odd_names: bool = False) -> Column:
    """Return the JSON object of a struct; `texts` are what it shows of free text.

    Spark writes it, and rows with characters that Go writes otherwise are corrected: there are few.
    """
    text = F.to_json(values, {"ignoreNullFields": "false"})
    if not (texts or odd_names):
        return text
    shown = F.concat_ws(_BETWEEN, *texts)
    whole = F.is_valid_utf8(shown)
    parts = {
        "text": text,
        "odd": F.lit(odd_names) | has_any(shown, _ODD) | ~whole,
        "lost": F.when(whole, F.lit(_MARK)).otherwise(F.lit(_LOST)),
    }
    # Spark plans an expression for each time that it stands somewhere, and what shows a row is long.
    return called(_CORRECTED, F.struct(*(column.alias(name) for name, column in parts.items())))


def _corrected(row: str) -> str:
    """Return SQL for the text as Go writes it.

    In: a struct of Spark's `text`, `odd` where Go's differs, and `lost`, what stands for bytes that are no UTF-8.
    """
    text = f"{row}.text"
    for before, after in [(_PAIR, _MARK), *(_LETTERED | MARKUP).items(), (_MARK, _PAIR)]:
        text = f"replace({text}, {sql_text(before)}, {sql_text(after)})"
    return f"IF({row}.odd, replace({text}, {row}.lost, {sql_text(_LOST_ESCAPED)}), {row}.text)"


_CORRECTED = f"row -> {_corrected('row')}"


def _value(data_type: DataType, value: Column, zone: str) -> Column:
    """Return a value of the model as the text that Simple shows, but binary as it is.

    Source: Simple protocol, row values.
    """
    return _WRITERS.get(data_type.kind, _as_is)(data_type, value, zone)


def _as_is(data_type: DataType, value: Column, zone: str) -> Column:
    return value  # `to_json` writes binary as Base64 in one line


def _number(data_type: DataType, value: Column, zone: str) -> Column:
    return value.cast("string")


def _real(data_type: DataType, value: Column, zone: str) -> Column:
    return shortest_text(value, data_type.kind is Kind.FLOAT)


def _decimal(data_type: DataType, value: Column, zone: str) -> Column:
    return decimal_text(value, data_type.length, data_type.decimal)


def _timestamp(data_type: DataType, value: Column, zone: str) -> Column:
    return shift_zone(value, "UTC", zone)


def _with_zone(value: Column, zone: str) -> Column:
    return F.when(value.isNotNull(), F.struct(F.lit(zone).alias("location"), value.alias("value")))


_WRITERS: dict[Kind, Callable[[DataType, Column, str], Column]] = {
    Kind.INTEGER: _number,
    Kind.YEAR: _number,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.DECIMAL: _decimal,
    Kind.ENUM: lambda data_type, value, zone: enum_number(data_type, value).cast("string"),
    Kind.SET: lambda data_type, value, zone: set_number(data_type, value),
    Kind.BIT: lambda data_type, value, zone: bit_number(value),
    Kind.TIMESTAMP: _timestamp,
}
