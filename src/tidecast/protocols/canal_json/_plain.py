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
    kind = member(message, "type", str)
    tidb = member(message, "_tidb", dict) or {}
    times = {name: member(tidb, name, int) for name in ("commitTs", "watermarkTs")}
    member(tidb, "onlyHandleKey", bool)
    member(tidb, "claimCheckLocation", str)
    commit_ts = times["watermarkTs" if kind == WATERMARK else "commitTs"]
    es = member(message, "es", int)
    since = commit_ts if commit_ts is not None else None if es is None else es * compose(1)
    need(since is not None, "no time")
    assert since is not None
    check_commit_ts(since)
    names = [member(message, name, str) for name in ("database", "table")]
    sql = member(message, "sql", str)
    columns, types = _texts_of(message, "sqlType"), _texts_of(message, "mysqlType")
    keys, rows, old = (_list_of(message, name) for name in ("pkNames", "data", "old"))
    if kind == WATERMARK:
        need(commit_ts is not None and not member(message, "isDdl", bool), "no watermark")
        return None
    if member(message, "isDdl", bool) or kind in DDL_TYPES:
        need(bool(sql), "a schema change without sql")
        return None
    need(kind in ROW_OPS and all(names), "no row of a table")
    if tidb.get("onlyHandleKey") or tidb.get("claimCheckLocation") is not None:
        return Problem(Reason.INCOMPLETE)
    need(rows is not None and len(rows) == 1 and types is not None, "no single row")
    assert rows is not None
    assert types is not None
    row = _texts(rows[0])
    shown = list(row if columns is None else columns)
    need(bool(types) and {*types} == {*shown} == {*row}, "columns without a type or a value")
    need(all(isinstance(key, str) for key in keys or ()), "a key that is no name")
    try:
        schema = table_schema((names[0], names[1]), since, shown, _texts(types), keys or ())
    except InvalidSchema as error:
        return Problem(Reason.FOREIGN_SCHEMA, str(error))
    op = ROW_OPS[kind]
    before: _Texts | None = row if op == Op.DELETE else None
    if op == Op.UPDATE:
        need(old is not None and len(old) == 1, "no single row before")
        assert old is not None
        shown_before = _texts(old[0])
        need({*row}.issuperset(shown_before), "a column without a type")
        before = {**row, **shown_before}

    def values(texts: _Texts | None) -> dict[str, Value] | None:
        if texts is None:
            return None
        return {c.name: _value(c.data_type, texts[c.name], zone) for c in schema.columns}

    return PlainRow(schema, op, commit_ts, values(before), values(None if op == Op.DELETE else row))


def _list_of(message: Mapping[str, Any], name: str) -> Sequence[Any] | None:
    found = message.get(name)
    need(found is None or isinstance(found, list), f"{name} is no list")
    return found


def _texts_of(message: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = message.get(name)
    need(found is None or isinstance(found, dict), f"{name} is no object")
    return found


def _texts(row: object) -> _Texts:
    need(isinstance(row, dict), "no row")
    assert isinstance(row, dict)
    need(all(text is None or isinstance(text, str) for text in row.values()), "a value that is no text")
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
