"""Messages parsed one by one, and why one cannot be used. Source: Canal-JSON protocol, members, rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tidecast.model import Op, Reason, compose, latest_tso, physical_ms
from tidecast.protocols.canal_json._message import DDL_TYPES, ROW_OPS, WATERMARK

Texts = Mapping[str, Any]
"""A row: the text of each column, or None; see `texts_of`."""
Problem = tuple[Reason, str | None]
"""Why a message cannot be used: a reason and a detail."""

_LAST_MS = physical_ms((1 << 63) - 1)
_INT64 = range(-(1 << 63), 1 << 63)
_MEMBERS: dict[str, type] = {
    "database": str,
    "table": str,
    "pkNames": list,
    "isDdl": bool,
    "type": str,
    "es": int,
    "sql": str,
    "sqlType": dict,
    "mysqlType": dict,
    "data": list,
    "old": list,
    "_tidb": dict,
}
_TIDB: dict[str, type] = {"commitTs": int, "watermarkTs": int, "onlyHandleKey": bool, "claimCheckLocation": str}
_LISTED = {"pkNames": str, "data": dict, "old": dict}
"""What lists hold, beside null."""


@dataclass(frozen=True)
class Said:
    """The content of a message. `op` is None for a watermark and for a schema change, which has `sql`.

    `since` is when it happened: the commit-ts, or the first one of its millisecond. `columns` are in the table's order,
    `types` by column, sorted by name. A message of TiCDC's has one of `rows`; `old` are what an update shows of the
    rows before it, none where it does not.
    """

    kind: str
    op: Op | None
    database: str
    table: str
    commit_ts: int | None
    since: int
    sql: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    types: tuple[tuple[str, str | None], ...] = ()
    rows: Sequence[Texts | None] = ()
    old: Sequence[Texts | None] = ()

    @property
    def version(self) -> tuple[object, ...]:
        """The members that all rows of a table version share."""
        return self.database, self.table, self.keys, self.columns, self.types


def parse(value: bytes | None) -> Said | Problem:
    """Return what a message says, or why it cannot be used."""
    members = _members(value or b"")
    if members is None:
        return Reason.BAD_JSON, "no JSON object of Canal's form"
    said = _said(members)
    return next((problem for wrong, *problem in _problems(members, said) if wrong), said)  # type: ignore[return-value]


def _members(value: bytes) -> dict[str, Any] | None:
    """Return the members of a message, None where it is not one JSON object of Canal's form."""
    try:
        members = orjson.loads(value)
        if type(members) is not dict or not _fits(members, _MEMBERS):
            return None
        tidb = members.get("_tidb")
        if tidb is not None and not _fits(tidb, _TIDB):
            return None
        for name, kind in _LISTED.items():
            if not {type(one) for one in members.get(name) or ()} <= {kind, type(None)}:
                return None
        exact = _shown_exactly(value, members)
    except (ValueError, RecursionError):
        return None
    return exact


def _fits(members: Mapping[str, Any], kinds: Mapping[str, type]) -> bool:
    return all(
        (found := members.get(name)) is None or (type(found) is kind and (kind is not int or found in _INT64))
        for name, kind in kinds.items()
    )


def _shown_exactly(value: bytes, members: dict[str, Any]) -> dict[str, Any]:
    """Return members with rows as they are written: numbers with all their digits, and no column twice."""
    rows = [row for name in ("data", "old") for row in members.get(name) or () if row]
    objects = (members, members.get("sqlType"), members.get("mysqlType"), members.get("_tidb"), *rows)
    odd = any(not {*map(type, row.values())} <= {str, type(None)} for row in rows)
    if not odd and value.count(b'":') == sum(map(len, filter(None, objects))):
        return members
    read: dict[str, Any] = json.loads(value, parse_float=_Number, parse_int=_Number, object_pairs_hook=_object)
    return members | {name: read[name] for name in ("data", "old", "sqlType", "mysqlType") if name in read}


class _Number(str):
    """The text of a number."""


class _Object(dict[str, Any]):
    """An object that may show a column twice."""

    twice = False


def _object(pairs: Sequence[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    found.twice = len(found) < len(pairs)
    return found


def shows_twice(row: Texts) -> bool:
    """Tell whether a row shows a column twice."""
    return isinstance(row, _Object) and row.twice


def text_of(value: Any) -> str | None:
    """Return the text that a row shows of a value: a text as it is, anything else as JSON writes it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _said(members: Mapping[str, Any]) -> Said:
    kind, tidb = members.get("type") or "", members.get("_tidb") or {}
    change = bool(members.get("isDdl")) or kind in DDL_TYPES
    commit_ts, es = tidb.get("watermarkTs" if kind == WATERMARK else "commitTs"), members.get("es")
    since = commit_ts if commit_ts is not None else es * compose(1) if es is not None and 0 <= es <= _LAST_MS else -1
    data = members.get("data") or []
    shown = members.get("sqlType")
    columns = shown if shown is not None else (data[0] if data else None) or {}
    types = members.get("mysqlType") or {}
    return Said(
        kind,
        None if change else ROW_OPS.get(kind),
        members.get("database") or "",
        members.get("table") or "",
        commit_ts,
        since,
        members.get("sql") or "" if change else None,
        tuple(members.get("pkNames") or ()),
        (*columns,),
        tuple(sorted((name, text_of(text)) for name, text in types.items())),
        data,
        members.get("old") or [] if kind == "UPDATE" else [],
    )


def _problems(members: Mapping[str, Any], said: Said) -> Iterator[tuple[bool, Reason, str | None]]:
    """Yield what may be wrong with a message, the first of which is its cause."""
    row, change, watermark = said.op is not None, said.sql is not None, said.kind == WATERMARK
    tidb = members.get("_tidb")
    yield not (row or change or watermark), Reason.BAD_MESSAGE, f"unknown type {said.kind[:20]!r}"
    watermark = watermark and not change
    yield watermark and said.commit_ts is None, Reason.BAD_MESSAGE, "a watermark without watermarkTs"
    yield (
        said.commit_ts is not None and not 0 <= said.commit_ts < latest_tso(),
        Reason.BAD_VALUE,
        f"commitTs {said.commit_ts} is no time",
    )
    yield not 0 <= said.since < latest_tso(), Reason.BAD_VALUE, "es is no time"
    yield change and not said.sql, Reason.BAD_MESSAGE, "a schema change without sql"
    if not row:
        return
    reduced = tidb is not None and (tidb.get("onlyHandleKey") or tidb.get("claimCheckLocation") is not None)
    yield bool(reduced), Reason.INCOMPLETE, "only the handle key, or the place where the whole message lies"
    # One that was damaged there would leave its whole batch without commit-ts.
    yield tidb is not None and tidb.get("commitTs") is None, Reason.BAD_MESSAGE, "_tidb without commitTs"
    yield not (said.database and said.table), Reason.BAD_MESSAGE, "a row without its database and table"
    yield not said.rows, Reason.BAD_MESSAGE, "the row is missing"
    yield (
        said.op is Op.UPDATE and members.get("old") is not None and len(said.old) != len(said.rows),
        Reason.BAD_MESSAGE,
        "an old row is missing",
    )
    typed = {name for name, _ in said.types}
    yield not said.types, Reason.BAD_MESSAGE, "it names no types: mysqlType is missing or null"
    yield (
        len(said.columns) != len(said.types) or not typed.issuperset(said.columns),
        Reason.BAD_MESSAGE,
        "the columns of sqlType are not those of mysqlType",
    )
    yield len(said.rows) > 1 and not _are_different(said), Reason.BAD_MESSAGE, "several rows that may be the same one"


def _are_different(said: Said) -> bool:
    """Tell whether no change of a message follows another one of the same row: their order does not last.

    Rows have different keys, before and after it. Where no key is named they differ somewhere, and no row looks like
    what another one became. Then they are different rows whatever the key is, as a statement changes a row once.
    """
    names = said.keys or said.columns
    rows = [{name: text_of((row or {}).get(name)) for name in names} for row in said.rows]
    if len({tuple(row.values()) for row in rows}) < len(rows):
        return False
    olds = [{name: text_of((old or {})[name]) for name in names if name in (old or {})} for old in said.old]
    if said.keys:
        return not any(old[name] != row[name] for row, old in zip(rows, olds, strict=False) for name in old)
    became = {(name, text) for row, old in zip(rows, olds, strict=False) for name, text in row.items() if name in old}
    return not any(old and became.issuperset(old.items()) for old in olds)
