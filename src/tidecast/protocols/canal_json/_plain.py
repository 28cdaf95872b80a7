"""One Canal-JSON message read in Python, the twin of `_parse` and `_rows`. Source: Canal-JSON protocol."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidecast.model import DataType, InvalidSchema, Kind, Op, Reason, compose
from tidecast.plain import (
    PlainMessage,
    PlainRow,
    Problem,
    Value,
    check_commit_ts,
    from_text,
    in_utc,
    member,
    need,
    object_of,
    takes_spark,
    zone_named,
)
from tidecast.protocols._protocol import DecodeOptions
from tidecast.protocols.canal_json._message import DDL_TYPES, ROW_OPS, WATERMARK
from tidecast.protocols.canal_json._schema import table_schema

_PLAIN = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")
_LONGEST_SCALE = 30

_Texts = Mapping[str, str | None]


def read_plain(value: bytes, options: DecodeOptions) -> PlainMessage:
    """Return what one message says. Raises TakesSpark for one that is not surely sound, or has several rows."""
    zone, message = zone_named(options.zone), object_of(value)
    kind, sql = member(message, "type", str), member(message, "sql", str)
    changes_schema = member(message, "isDdl", bool) or kind in DDL_TYPES
    extension = member(message, "_tidb", dict)
    tidb = extension or {}
    reduced = member(tidb, "onlyHandleKey", bool) or member(tidb, "claimCheckLocation", str) is not None
    times = [member(tidb, name, int) for name in ("commitTs", "watermarkTs")]
    commit_ts = times[kind == WATERMARK]
    since = _since(commit_ts, member(message, "es", int))
    database, table = (member(message, name, str) for name in ("database", "table"))
    parts = {name: member(message, name, list) for name in ("pkNames", "data", "old")}
    parts |= {name: member(message, name, dict) for name in ("sqlType", "mysqlType")}
    if kind == WATERMARK:
        need(commit_ts is not None and not changes_schema, "no watermark")
        return None
    if changes_schema:
        need(bool(sql), "a schema change without sql")
        return None
    need(kind in ROW_OPS, "another kind of message")
    if reduced:
        return Problem(Reason.INCOMPLETE)
    need(extension is None or commit_ts is not None, "_tidb without commitTs")
    need(bool(database and table), "a row without its database and table")
    row, types, keys = _single(parts["data"]), _texts(parts["mysqlType"]), parts["pkNames"] or ()
    columns = list(row if parts["sqlType"] is None else parts["sqlType"])
    need(bool(types) and {*types} == {*columns} == {*row}, "columns without a type or a value")
    need(all(isinstance(key, str) for key in keys), "a key that is no name")
    try:
        schema = table_schema((database, table), since, columns, types, keys)
    except InvalidSchema as error:
        return Problem(Reason.FOREIGN_SCHEMA, str(error))

    def values(texts: _Texts) -> dict[str, Value]:
        return {c.name: _value(c.data_type, texts[c.name], zone) for c in schema.columns}

    match op := ROW_OPS[kind]:
        case Op.DELETE:
            return PlainRow(schema, op, commit_ts, values(row), None)
        case Op.UPDATE:
            before = _single(parts["old"])
            need({*row}.issuperset(before), "a column without a type")
            return PlainRow(schema, op, commit_ts, values({**row, **before}), values(row))
    return PlainRow(schema, op, commit_ts, None, values(row))


def _since(commit_ts: int | None, es: int | None) -> int:
    """Return when a message's change happened: its commit-ts, or the first one of its millisecond."""
    if commit_ts is None and es is None:
        takes_spark("no time")
    since = (es or 0) * compose(1) if commit_ts is None else commit_ts
    check_commit_ts(since)
    return since


def _single(rows: Sequence[Any] | None) -> _Texts:
    if rows is None or len(rows) != 1:
        takes_spark("no single row")
    return _texts(rows[0])


def _texts(row: object) -> _Texts:
    if not isinstance(row, dict) or not all(text is None or isinstance(text, str) for text in row.values()):
        takes_spark("a value that is no text")
    return row


def _value(data_type: DataType, text: str | None, zone: dt.tzinfo) -> Value:
    """Return a value of the model from its text."""
    if text is None:
        return None
    match data_type.kind:
        case Kind.BINARY:
            try:
                return text.encode("iso-8859-1")
            except UnicodeEncodeError:
                takes_spark("a character that is no byte")
        case Kind.TIMESTAMP:
            return in_utc(text, zone)
        case Kind.DECIMAL:
            found = _PLAIN.fullmatch(text)
            scale = data_type.decimal if data_type.length else _LONGEST_SCALE
            need(found is not None and len(found[1] or "") <= scale, "no decimal number")
    return from_text(data_type, text)
