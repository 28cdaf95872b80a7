"""Messages parsed one by one, and why one cannot be used. Source: Canal-JSON protocol, members, rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import NoneType
from typing import Any, NamedTuple

import orjson

from tidecast.model import Op, Reason, compose, latest_tso, physical_ms
from tidecast.protocols.canal_json._message import DDL_TYPES, ROW_OPS, WATERMARK

Texts = Mapping[str, Any]
"""A row: the text of each column, or None; see `text_of`."""
Problem = tuple[Reason, str | None]
"""Why a message cannot be used: a reason and a detail."""

_LAST_MS = physical_ms((1 << 63) - 1)
_MEMBERS: Mapping[str, type] = {
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
_TIDB: Mapping[str, type] = {"commitTs": int, "watermarkTs": int, "onlyHandleKey": bool, "claimCheckLocation": str}
_TEXTS, _OBJECTS = {str, NoneType}, {dict, NoneType}
_OWN = {"es", "ts", "old", "data", "_tidb"}
"""The members by which rows of one kind and table version differ."""


@dataclass(frozen=True)
class Shape:
    """The members that all rows of a table version share: `columns` in its order, `types` sorted by column."""

    database: str
    table: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    types: tuple[tuple[str, str | None], ...]

    @cached_property
    def problem(self) -> str | None:
        """The reason why no row can be of it, None where one can."""
        if not self.types:
            return "it names no types: mysqlType is missing or null"
        typed = {name for name, _ in self.types}
        if len(self.columns) != len(self.types) or not typed.issuperset(self.columns):
            return "the columns of sqlType are not those of mysqlType"
        return None


class Said(NamedTuple):
    """The content of a message. `op` is None for a watermark and for a schema change, which has `sql`.

    `since` is when it happened: the commit-ts, or the first one of its millisecond. A message of TiCDC's has one of
    `rows`; `old` are what an update shows of the rows before it, none where it does not.
    """

    kind: str
    op: Op | None
    commit_ts: int | None
    since: int
    sql: str | None
    shape: Shape
    rows: Sequence[Texts | None]
    old: Sequence[Texts | None]


def parse(value: bytes | None) -> Said | Problem:
    """Return what a message says, or why it cannot be used."""
    value = value or b""
    if said := _in_parts(value):
        return said
    members = _members(value)
    if members is None:
        return Reason.BAD_JSON, "no JSON object of Canal's form"
    said = _said(members)
    return next(_problems(members, said), said)


def _in_parts(value: bytes) -> Said | None:
    """Return what a sound row says that is written just as TiCDC writes it, but for the first ones of its kind.

    The members that rows share are parsed once for all, and a pattern takes a row's own apart.
    """
    times = value.find(b',"es":')
    sql = value.find(b',"sql":', times)
    old = value.find(b',"old":', sql)
    if times < 0 or sql < 0 or old < 0:
        return None
    shared = _shared(value[:times], value[sql:old])
    return shared.said_by(value[times:sql] + value[old:]) if shared else None


_TEXT = r'(?:"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"|null)'
"""Whose repetitions are possessive: else each escape would keep a place to come back to."""
_NUMBER = "(?:0|[1-9][0-9]{0,18})"
_FREQUENT = 100
"""How many rows take as long as a pattern takes to be made."""


@dataclass
class _Shared:
    """The members that rows of one kind and table version share, and the form that TiCDC gives their own."""

    said: Said
    met: int = 0

    def said_by(self, own: bytes) -> Said | None:
        """Return what a row with these members of its own says, None where their form does not show that."""
        self.met += 1
        if self.met <= _FREQUENT:
            return None
        try:
            found = self._form.fullmatch(own.decode())
            if found is None:
                return None
            texts = tuple(map(_unescaped, found.groups())) if b"\\" in own else found.groups()
        except ValueError:  # no UTF-8, or an escape that JSON lacks
            return None
        kind, op, _, _, sql, shape, _, _ = self.said
        es, shows_old, commit_ts, columns = texts[0], texts[1] is not None, texts[-1], shape.columns
        at, since = _times(None if commit_ts is None else int(commit_ts), int(es))
        if not 0 <= since < latest_tso():
            return None
        middle = 2 + len(columns)
        old = [dict(zip(columns, texts[2:middle], strict=True))] if shows_old and kind == "UPDATE" else []
        return Said(kind, op, at, since, sql, shape, [dict(zip(columns, texts[middle:-1], strict=True))], old)

    @cached_property
    def _form(self) -> re.Pattern[str]:
        """The pattern of a row's own members: all of them, in TiCDC's order, their columns in that of the types."""
        names = (re.escape(json.dumps(name, ensure_ascii=False)) for name in self.said.shape.columns)
        row = rf"\[\{{{','.join(f'{name}:{_TEXT}' for name in names)}\}}\]"
        tidb = rf',"_tidb":\{{"commitTs":({_NUMBER})\}}'
        return re.compile(rf',"es":({_NUMBER}),"ts":{_NUMBER},"old":(?:null|(){row}),"data":{row}(?:{tidb})?\}}')


def _unescaped(text: Any) -> Any:
    return orjson.loads(f'"{text}"') if text and "\\" in text else text


@lru_cache(1024)
def _shared(begin: bytes, types: bytes) -> _Shared | None:
    """Return what the members say that begin a message, and those of its types, None where rows may say something else.

    Each of the two, and a row's own members, are whole members by themselves: together they are the message, as long as
    none names a member of another one.
    """
    first, both = _members(begin + b"}"), _members(begin + types + b"}")
    if first is None or both is None or both.get("sqlType") is None or not _OWN.isdisjoint(both):
        return None
    said = _said(both)
    is_row = said.op is not None and said.sql is None
    shared = said.shape.database and said.shape.table and not said.shape.problem
    return _Shared(said) if is_row and shared else None


def _members(value: bytes) -> dict[str, Any] | None:
    """Return the members of a message, None where it is not one JSON object of Canal's form."""
    try:
        members = orjson.loads(value)
        if type(members) is not dict or not _fits(members):
            return None
        if (tidb := members.get("_tidb")) and not _fits(tidb, inside=True):
            return None
        rows = [*(members.get("data") or ()), *(members.get("old") or ())]
        if not (_TEXTS.issuperset(map(type, members.get("pkNames") or ())) and _OBJECTS.issuperset(map(type, rows))):
            return None
        return _shown_exactly(value, members, [*filter(None, rows)])
    except (ValueError, RecursionError):
        return None


def _fits(members: Mapping[str, Any], *, inside: bool = False) -> bool:
    """Tell whether members are of their types: those of a message, or those `inside` of its `_tidb`."""
    return _are((*members,), (*map(type, members.values()),), inside)


@lru_cache(1024)
def _are(names: Sequence[str], found: Sequence[type], inside: bool) -> bool:
    kinds = _TIDB if inside else _MEMBERS
    return all(kind in (kinds.get(name, kind), NoneType) for name, kind in zip(names, found, strict=True))


def _shown_exactly(value: bytes, members: dict[str, Any], rows: Sequence[Texts]) -> dict[str, Any]:
    """Return members with rows as they are written: numbers with all their digits, and no column twice."""
    shown = sum(map(len, rows)) + sum(len(members.get(name) or ()) for name in ("sqlType", "mysqlType", "_tidb"))
    texts = all(_TEXTS.issuperset(map(type, row.values())) for row in rows)
    if texts and value.count(b'":') == shown + len(members):
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
    kind = members.get("type") or ""
    change = bool(members.get("isDdl")) or kind in DDL_TYPES
    commit_ts = (members.get("_tidb") or {}).get("watermarkTs" if kind == WATERMARK else "commitTs")
    rows = members.get("data") or []
    shown = members.get("sqlType")
    columns = shown if shown is not None else (rows[0] if rows else None) or {}
    types = members.get("mysqlType") or {}
    return Said(
        kind,
        None if change else ROW_OPS.get(kind),
        *_times(commit_ts, members.get("es")),
        members.get("sql") or "" if change else None,
        _shape(
            members.get("database") or "",
            members.get("table") or "",
            (*(members.get("pkNames") or ()),),
            (*columns,),
            (*types,),
            (*(types.values() if _TEXTS.issuperset(map(type, types.values())) else map(text_of, types.values())),),
        ),
        rows,
        members.get("old") or [] if kind == "UPDATE" else [],
    )


def _times(commit_ts: int | None, es: int | None) -> tuple[int | None, int]:
    """Return the commit-ts of a message, and since when it holds; see `Said`."""
    if commit_ts is not None:
        return commit_ts, commit_ts
    return None, es * compose(1) if es is not None and 0 <= es <= _LAST_MS else -1


@lru_cache(4096)
def _shape(
    database: str,
    table: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    typed: tuple[str, ...],
    types: tuple[str | None, ...],
) -> Shape:
    return Shape(database, table, keys, columns, tuple(sorted(zip(typed, types, strict=True))))


def _problems(members: Mapping[str, Any], said: Said) -> Iterator[Problem]:
    """Yield what is wrong with a message, its cause first."""
    row, change, watermark = said.op is not None, said.sql is not None, said.kind == WATERMARK
    if not (row or change or watermark):
        yield Reason.BAD_MESSAGE, f"unknown type {said.kind[:20]!r}"
    if watermark and not change and said.commit_ts is None:
        yield Reason.BAD_MESSAGE, "a watermark without watermarkTs"
    if not 0 <= said.since < latest_tso():
        yield Reason.BAD_VALUE, "es is no time" if said.commit_ts is None else f"commitTs {said.commit_ts} is no time"
    if change and not said.sql:
        yield Reason.BAD_MESSAGE, "a schema change without sql"
    if row:
        yield from _problems_of_row(members, said)


def _problems_of_row(members: Mapping[str, Any], said: Said) -> Iterator[Problem]:
    tidb = members.get("_tidb")
    if tidb is not None and (tidb.get("onlyHandleKey") or tidb.get("claimCheckLocation")):
        yield Reason.INCOMPLETE, "only the handle key, or the place where the whole message lies"
    # One that was damaged there would leave its whole batch without commit-ts.
    if tidb is not None and tidb.get("commitTs") is None:
        yield Reason.BAD_MESSAGE, "_tidb without commitTs"
    if not (said.shape.database and said.shape.table):
        yield Reason.BAD_MESSAGE, "a row without its database and table"
    if not said.rows:
        yield Reason.BAD_MESSAGE, "the row is missing"
    if said.op is Op.UPDATE and members.get("old") is not None and len(said.old) != len(said.rows):
        yield Reason.BAD_MESSAGE, "an old row is missing"
    if said.shape.problem:
        yield Reason.BAD_MESSAGE, said.shape.problem
    if len(said.rows) > 1 and not _are_different(said):
        yield Reason.BAD_MESSAGE, "several rows that may be the same one"


def _are_different(said: Said) -> bool:
    """Tell whether no change of a message follows another one of the same row: their order does not last.

    Rows have different keys, before and after it. Where no key is named they differ somewhere, and no row looks like
    what another one became. Then they are different rows whatever the key is, as a statement changes a row once.
    """
    names = said.shape.keys or said.shape.columns
    rows = [{name: text_of((row or {}).get(name)) for name in names} for row in said.rows]
    if len({tuple(row.values()) for row in rows}) < len(rows):
        return False
    olds = [{name: text_of((old or {})[name]) for name in names if name in (old or {})} for old in said.old]
    if said.shape.keys:
        return not any(old[name] != row[name] for row, old in zip(rows, olds, strict=False) for name in old)
    became = {(name, text) for row, old in zip(rows, olds, strict=False) for name, text in row.items() if name in old}
    return not any(old and became.issuperset(old.items()) for old in olds)
