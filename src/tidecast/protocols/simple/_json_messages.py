"""Simple messages in JSON: what they say beside their rows, and their rows as columns. Source: Simple protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from types import NoneType
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Column, Kind, Reason, TableSchema
from tidecast.protocols._decoded import CHECKSUM, TAG
from tidecast.protocols.simple._heads import KINDS, NO_KIND, SIDES, Cells, Heads, Side
from tidecast.protocols.simple._times import utc_of
from tidecast.values import INTEGERS, TEXT, bytes_of_base64, from_text, nulls, valid

Members = dict[str, Any]

_INT32, _INT64, _BOOL = pa.int32(), pa.int64(), pa.bool_()
_TYPES: dict[pa.DataType, type[Any]] = {_INT32: int, _INT64: int, _BOOL: bool, TAG: str}
_MEMBERS = {
    "type": TAG,
    "version": _INT32,
    "database": TAG,
    "table": TAG,
    "tableID": _INT64,
    "commitTs": _INT64,
    "buildTs": _INT64,
    "schemaVersion": _INT64,
    "claimCheckLocation": TAG,
    "handleKeyOnly": _BOOL,
}
"""The members of messages beside rows and schemas, and what they are; in another one is no message."""


class JsonMessages:
    """Messages in JSON. In: their values (large_binary), and the places of those that are in JSON."""

    unreadable = Reason.BAD_JSON

    def __init__(self, contents: pa.Array, at: np.ndarray) -> None:
        self._values = contents.take(pa.array(at)).to_pylist()
        read = [_object(value) for value in self._values]
        sound = np.array([members is not None for members in read], bool)
        self._read: list[Members] = [members or {} for members in read]
        said = {}
        for name, kind in _MEMBERS.items():
            said[name] = _column(_member(self._read, name), kind, sound)
        self.checksum = _checksums(_member(self._read, "checksum"), sound)
        sql = _member(self._read, "sql")
        self.heads = Heads(
            sound,
            valid(said["type"]) & valid(said["version"]),
            np.array([KINDS.get(kind, NO_KIND) for kind in said["type"].to_pylist()], np.int8),
            said["commitTs"],
            said["tableID"],
            said["schemaVersion"],
            said["database"],
            said["table"],
            np.asarray(pc.fill_null(pc.not_equal(said["claimCheckLocation"], ""), False))
            | np.asarray(said["handleKeyOnly"].fill_null(False)),
            np.array([not (text and type(text) is str) for text in sql], bool),
        )

    def sides(self, chosen: np.ndarray, schema: TableSchema, zone: str) -> tuple[dict[str, Side], np.ndarray]:
        """See `Messages.sides`. A message whose head could be read has a row that can be, if it has no column twice.

        The checksum of such a row may be that of one in which another column has the value. Rows that lack no column,
        and those without a checksum, are not looked at.
        """
        kinds = self.heads.kind[chosen]
        sides = {}
        for name, types in SIDES.items():
            mine = np.isin(kinds, [KINDS[kind] for kind in types])
            if mine.any():
                sides[name] = self._side(name, chosen, mine, schema, zone)
        lacks = np.zeros(len(chosen), bool)
        for side in sides.values():
            for cells in side.columns:
                if cells.named is not None:
                    lacks |= side.there & ~cells.named
        lacks &= valid(self.checksum)[chosen]
        twice = [lack and _has_twice(self._values[n]) for n, lack in zip(chosen, lacks.tolist(), strict=True)]
        return sides, np.array(twice, bool)

    def _side(self, name: str, chosen: np.ndarray, mine: np.ndarray, schema: TableSchema, zone: str) -> Side:
        shown = [self._read[n].get(name) if m else None for n, m in zip(chosen, mine, strict=True)]
        there = np.array([type(row) is dict for row in shown], bool)
        rows: list[Members] = [row if type(row) is dict else {} for row in shown]
        try:
            return Side(there, [_cells(column, rows, zone) for column in schema.columns])
        except _InexactNumber:
            for n, row in enumerate(rows):
                if row:
                    rows[n] = _with_digits(self._values[chosen[n]], name, row)
            return Side(there, [_cells(column, rows, zone) for column in schema.columns])


class _InexactNumber(Exception):
    """Rows show a number that need not be the one that was written."""


def _object(value: bytes | None) -> Members | None:
    """Return the members of a message, None where it is not one JSON object."""
    try:
        members = orjson.loads(value or b"")
    except ValueError:
        return None
    return members if type(members) is dict else None


def _has_twice(value: bytes | None) -> bool:
    """Tell whether an object in a message has two members of one name, of which the last one counts elsewhere."""
    found = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        found.append(len(pairs) > len(dict(pairs)))

    try:
        json.loads(value or b"", object_pairs_hook=note)
    except RecursionError:
        return False
    return any(found)


def _with_digits(value: bytes | None, side: str, row: Members) -> Members:
    """Return a row with its numbers as they are written."""
    try:
        exact: Members = json.loads(value or b"", parse_float=str, parse_int=str)[side]
    except RecursionError:  # which counts as no value of any type
        return {name: [] if type(value) is float else value for name, value in row.items()}
    return exact


def _member(rows: list[Members], name: str) -> list[Any]:
    """Return a member of all rows, None where one has none."""
    try:
        return [*map(itemgetter(name), rows)]
    except KeyError:
        return [row.get(name) for row in rows]


def _column(values: list[Any], kind: pa.DataType, sound: np.ndarray) -> pa.Array:
    """Return a member of messages as a column; a message in which it is of another type is not `sound`."""
    wanted, within = _TYPES[kind], INTEGERS.get(kind)
    if {*map(type, values)} <= {wanted, NoneType}:
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, OverflowError):  # a number beyond the type's
            pass
    good: list[Any] = []
    for n, value in enumerate(values):
        fits = value is None or (type(value) is wanted and (within is None or value in within))
        sound[n] &= fits
        good.append(value if fits else None)
    return pa.array(good, kind)


def _checksums(values: list[Any], sound: np.ndarray) -> pa.StructArray:
    """Return the checksums of messages as a column; a message in which one is of another type is not `sound`."""
    if {*map(type, values)} == {NoneType}:
        return nulls(len(values), CHECKSUM)
    shown = [value if type(value) is dict else {} for value in values]
    there = np.array([type(value) is dict for value in values], bool)
    sound &= there | np.array([value is None for value in values], bool)
    parts = [_column([value.get(f.name) for value in shown], f.type, sound) for f in CHECKSUM]
    return pa.StructArray.from_arrays(parts, fields=[*CHECKSUM], mask=pa.array(~there))


def _cells(column: Column, rows: list[Members], zone: str) -> Cells:
    """Return the values of a column of rows."""
    raw = _member(rows, column.name)
    missing = None in raw
    present = np.array([value is not None for value in raw], bool) if missing else np.ones(len(raw), bool)
    match column.data_type.kind:
        case Kind.BINARY:
            values = bytes_of_base64(_texts(raw))
        case Kind.TIMESTAMP:
            values = _timestamps(raw, zone)
        case _:
            values = from_text(column.data_type, _texts(raw))
    wrong = present & ~valid(values) if values.null_count else None
    named = np.array([column.name in row for row in rows], bool) if missing else None
    return Cells(values, wrong if wrong is not None and wrong.any() else None, named)


def _texts(values: Sequence[Any]) -> pa.Array:
    """Return texts, numbers and truth values as text; null for what is none of these."""
    try:
        return pa.array(values, TEXT)
    except pa.ArrowTypeError:
        if float in {*map(type, values)}:
            raise _InexactNumber from None
        return pa.array(map(_text, values), TEXT)


def _text(value: Any) -> str | None:
    if type(value) is bool:
        return str(value).lower()
    return str(value) if type(value) in (str, int) else None


def _timestamps(raw: list[Any], zone: str) -> pa.Array:
    """Read objects of a value and its zone; old messages have the value alone."""
    values = [value.get("value") if type(value) is dict else value for value in raw]
    zones = [value.get("location") if type(value) is dict else None for value in raw]
    if not {*map(type, zones)} <= {str, NoneType}:
        zones = [zone if zone is None or type(zone) is str else _NO_ZONE for zone in zones]
    return utc_of(_texts(values), pa.array(zones, TEXT), zone)


_NO_ZONE = "none"
