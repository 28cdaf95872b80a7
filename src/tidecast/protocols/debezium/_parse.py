"""Messages parsed but for their rows' values, and why one cannot be used. Source: Debezium protocol, messages.

A message holds its schema, which is longer than its row, and the same in thousands of messages. So the schema is cut
off as bytes where the message is spelled as TiCDC or Kafka Connect spell it, and read once.
"""

from __future__ import annotations

from functools import lru_cache
from types import NoneType
from typing import Any, NamedTuple

import orjson

from tidecast.model import Op, Reason, latest_tso
from tidecast.protocols._description import Description
from tidecast.protocols.debezium._encode import CONNECTOR, WATERMARK

SNAPSHOT = "r"
"""The operation of a row that Debezium's own connector read before it began to follow changes."""
Problem = tuple[Reason, str | None]
"""Why a message cannot be used: a reason and a detail."""
Json = dict[str, Any]

OPS = frozenset([*map(str, Op), SNAPSHOT])
"""The operations of rows."""
_COMPACT, _SCHEMA = b'{"payload":{', b',"schema":{'
_SCHEMA_FIRST, _PAYLOAD_LAST = b'{"schema":{', b',"payload":'
_INT64 = 1 << 63
_HEARTBEAT, _TRANSACTION, _TRUNCATE = {"ts_ms"}, {"status", "id"}, "t"
_SOURCE = ("db", "table", "connector")


class Said(NamedTuple):
    """The content of a message. `op` is that of a row or of a watermark, None for a schema change.

    `keys` are the names that its key shows, None without a key. `shape` is the schema in the message as `read_block`
    takes it, None without one. `payload` has the rows before and after a change, or the schema change.
    """

    op: str | None
    database: str
    table: str | None
    commit_ts: int | None
    keys: tuple[str, ...] | None
    shape: bytes | None
    payload: Json

    @property
    def is_row(self) -> bool:
        """Tell whether it is a row."""
        return self.op is not None and self.op != WATERMARK


def parse(key: bytes | None, value: bytes | None) -> Said | Problem | None:
    """Return what a message says, or why it cannot be used; None for one that says nothing of a table.

    That are tombstones, which repeat a delete, and of Debezium's own connector heartbeats and the beginning and end of
    transactions. Its `op` t is a schema change, TRUNCATE TABLE.
    """
    if not value and key is not None:
        return None
    whole = _cut(value or b"")
    keys, sound = _names(key)
    if whole is None or not sound:
        return Reason.BAD_JSON, "its key is no JSON object" if whole else "its value is no JSON object"
    payload, shape = whole
    return said_of(payload, keys, shape)


def said_of(payload: Json, keys: tuple[str, ...] | None, shape: bytes | None = None) -> Said | Problem | None:
    """Return what a payload says; see `parse`."""
    if payload.keys() == _HEARTBEAT or (payload.keys() >= _TRANSACTION and payload["status"] in ("BEGIN", "END")):
        return None
    source = payload.get("source")
    origin = {} if source is None else source
    op, ddl = payload.get("op"), payload.get("ddl")
    if type(origin) is not dict or not _are_texts(op, ddl, *map(origin.get, _SOURCE)):
        return Reason.BAD_JSON, "source, op or ddl is of another type than Debezium's"
    commit_ts = origin.get("commit_ts")
    if commit_ts is not None and (type(commit_ts) is not int or not -_INT64 <= commit_ts < _INT64):
        return Reason.BAD_JSON, "commit_ts is no whole number of 64 bits"
    database, table, connector = map(origin.get, _SOURCE)
    if op in (_TRUNCATE, WATERMARK) and not (payload.get("before") is None and payload.get("after") is None):
        return Reason.BAD_MESSAGE, f"op {op!r} with a row"  # whose op was damaged: t is one bit from d
    if op == _TRUNCATE and database and table:
        op, ddl = None, f"TRUNCATE TABLE {_quoted(database)}.{_quoted(table)}"
        payload = {**payload, "ddl": ddl}
    timeless = commit_ts is not None and not 0 <= commit_ts < latest_tso()
    if op == WATERMARK:
        if commit_ts is None:
            return Reason.BAD_MESSAGE, "a watermark without commit_ts"
        return _TIMELESS if timeless else Said(op, "", None, commit_ts, None, None, {})
    is_row = op in OPS
    if not is_row and (op is not None or ddl is None):
        return Reason.BAD_MESSAGE, "neither op nor ddl" if op is None else f"unknown op {op[:20]!r}"
    # One that was damaged there, taken for another connector's, would leave its whole batch without commit-ts.
    if connector == CONNECTOR and commit_ts is None:
        return Reason.BAD_MESSAGE, "of TiCDC, and without commit_ts"
    if timeless:
        return _TIMELESS
    if database is None or (is_row and table is None):
        return Reason.BAD_MESSAGE, f"source without {'db' if database is None else 'table'}"
    return Said(op, database, table, commit_ts, keys, shape, payload)


_TIMELESS: Problem = (Reason.BAD_VALUE, "commit_ts is no time")


_TYPES = {WATERMARK: "WATERMARK", Op.CREATE: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}


def describe_payload(payload: Json) -> Description:
    """Return the description of a message: a schema change, a watermark, or a row. In: its payload, of any form."""
    try:
        source = payload.get("source") or {}
        return Description(
            "DDL" if "ddl" in payload else _TYPES.get(str(payload.get("op")), ""),
            ".".join(filter(None, (source.get("db"), source.get("table")))),
            source.get("commit_ts"),
            payload.get("ddl"),
        )
    except (TypeError, AttributeError):
        return Description()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _are_texts(*values: Any) -> bool:
    return {str, NoneType}.issuperset(map(type, values))


def _names(key: bytes | None) -> tuple[tuple[str, ...] | None, bool]:
    """Return the names that a key shows, None without one, and whether it is sound."""
    if not key:
        return None, True
    whole = _cut(key)
    return (None, False) if whole is None else ((*whole[0],), True)


def _cut(message: bytes) -> tuple[Json, bytes | None] | None:
    """Return the payload of a message and its schema, None for one that is no JSON object.

    The schema is without the first bracket, and with one more after its last: that is the message's, and what else
    follows there is no part of a sound message.
    """
    if message.startswith(_COMPACT):
        at = message.find(_SCHEMA)
        if at < 0:
            return _parsed(message)
        payload, shape = _loaded(message[:at] + b"}"), message[at + len(_SCHEMA) :]
    elif message.startswith(_SCHEMA_FIRST) and message.count(_PAYLOAD_LAST) == 1:
        first, _, last = message.partition(_PAYLOAD_LAST)
        payload, shape = _loaded(b'{"payload":' + last), first[len(_SCHEMA_FIRST) :] + b"}"
    else:
        return _parsed(message)
    if payload is None:
        return _parsed(message)
    found = payload.get("payload")
    return (found, shape) if type(found) is dict and _is_text(shape) else None


def _parsed(message: bytes) -> tuple[Json, bytes | None] | None:
    """Return payload and schema of a message that is spelled in another way; it may be the payload itself."""
    members = _loaded(message)
    if members is None:
        return None
    schema, payload = members.get("schema"), members.get("payload")
    found = members if payload is None else payload
    if type(found) is not dict:
        return None
    return found, _shape(schema) if type(schema) is dict else None


def _shape(schema: Json) -> bytes:
    try:
        return orjson.dumps(schema)[1:] + b"}"
    except TypeError:  # nested too deep to be one of Debezium's
        return b"}}"


def _loaded(text: bytes) -> Json | None:
    try:
        members = orjson.loads(text)
    except ValueError:
        return None
    return members if type(members) is dict else None


@lru_cache(1024)
def _is_text(shape: bytes) -> bool:
    try:
        return shape.decode() is not None
    except UnicodeDecodeError:
        return False
