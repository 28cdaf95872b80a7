"""Rows in Avro, maps of columns to unions, as columns. Source: Simple protocol, Avro schema, row values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind, TableSchema
from tidecast.protocols._avro_reader import Reader, Spans
from tidecast.protocols.simple._heads import Cells
from tidecast.protocols.simple._times import utc_of
from tidecast.values import arrow_type, bit_bytes, enum_element, from_text, gather, null_where, numbers, set_elements
from tidecast.values import text_of_bytes as text

_MOST_COLUMNS = 4096
"""How many columns a table of TiDB may have; a map with more entries is no row."""
_UNKNOWN = -1
_NOTHING, _NULL, _LONG, _FLOAT, _DOUBLE, _STRING, _BYTES, _TIMESTAMP, _UNSIGNED = range(-1, 8)
"""The branches of a value's union, and no entry at all."""


@dataclass(frozen=True)
class _Entries:
    """Entries of maps: the row and the column of each, and its value: a branch and two numbers (see `_BRANCHES`)."""

    row: np.ndarray
    column: np.ndarray
    branch: np.ndarray
    first: np.ndarray
    second: np.ndarray


def read_maps(reader: Reader, rows: np.ndarray, columns: Mapping[bytes, int]) -> _Entries:
    """Read the maps of some rows, an entry of all of them at a time, as most have equally many."""
    left = np.zeros(reader.count, np.int64)
    found: list[tuple[np.ndarray, ...]] = []
    while (rows := _begun(reader, rows, left)).size:
        if len(found) == _MOST_COLUMNS:
            reader.bad[rows] = True
            break
        column = _columns(reader, rows, columns)
        branch = reader.long(rows)
        reader.bad[rows] |= (branch < 0) | (branch >= len(_BRANCHES))
        first, second = np.zeros((2, len(rows)), np.int64)
        for number, read in enumerate(_BRANCHES):
            mine = np.flatnonzero(branch == number) if read else ()
            if read and len(mine):
                first[mine], second[mine] = read(reader, rows[mine])
        found.append((rows, column, branch, first, second))
        left[rows] -= 1
    empty = (np.zeros(0, np.int64),) * 5
    return _Entries(*map(np.concatenate, zip(*(found or [empty]), strict=True)))


def _begun(reader: Reader, rows: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the rows whose map has another entry; at the end of a block its successor's length is read."""
    over = rows[(left[rows] == 0) & ~reader.bad[rows]]
    if over.size:
        count = reader.long(over)
        sized = over[count < 0]
        if sized.size:
            reader.long(sized)
        left[over] = np.abs(count)
        reader.bad[over] |= left[over] < 0  # the least of all numbers has no opposite
    begun: np.ndarray = rows[(left[rows] > 0) & ~reader.bad[rows]]
    return begun


def _columns(reader: Reader, rows: np.ndarray, columns: Mapping[bytes, int]) -> np.ndarray:
    """Read the names of entries: the columns' numbers."""
    names = gather(reader.data, *reader.span(rows), None).dictionary_encode()
    numbers = np.array([columns.get(name, _UNKNOWN) for name in names.dictionary.to_pylist()], np.int64)
    found: np.ndarray = numbers[np.asarray(names.indices)]
    return found


def _long(reader: Reader, rows: np.ndarray) -> Spans:
    return reader.long(rows), np.zeros(len(rows), np.int64)


def _single(reader: Reader, rows: np.ndarray) -> Spans:
    return reader.single(rows).view(np.int32), np.zeros(len(rows), np.int64)


def _double(reader: Reader, rows: np.ndarray) -> Spans:
    return reader.double(rows).view(np.int64), np.zeros(len(rows), np.int64)


def _timestamp(reader: Reader, rows: np.ndarray) -> Spans:
    start = reader.at[rows]
    reader.span(rows)
    reader.span(rows)
    return start, reader.at[rows] - start


_BRANCHES: tuple[Callable[[Reader, np.ndarray], Spans] | None, ...] = (
    None,
    _long,
    _single,
    _double,
    Reader.span,
    Reader.span,
    _timestamp,
    _long,
)
"""How the branches of a value's union are read: a number or its bits, or where the value lies and how long it is."""


@dataclass(frozen=True)
class _Column:
    """The values of one column before they are typed: for each row a branch and two numbers, and where it begins."""

    data: np.ndarray
    start: np.ndarray
    branch: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def has(self, branch: int) -> np.ndarray:
        """Return which rows have a value of a branch."""
        there: np.ndarray = self.branch == branch
        return there

    def longs(self, branch: int, kind: pa.DataType) -> pa.Array:
        """Return the numbers of a branch: int64, or uint64 of the same bits."""
        return numbers(self.first, self.has(branch), kind)

    def bytes(self, branch: int) -> pa.Array:
        """Return the bytes of a branch."""
        there = self.has(branch)
        # A row without a value has an empty span where it begins, so that the spans stay in order.
        return gather(self.data, np.where(there, self.first, self.start), np.where(there, self.second, 0), there)


def read_values(reader: Reader, rows: np.ndarray, mine: np.ndarray, schema: TableSchema, zone: str) -> list[Cells]:
    """Read the maps of some rows, and return those that are `mine` as columns, one for each of the table's.

    A map that has a column twice is none: its checksum may be that of a row in which another column has the value.
    """
    start = reader.at.copy()
    entries = read_maps(reader, rows, {c.name.encode(): n for n, c in enumerate(schema.columns)})
    order = np.argsort(entries.column, kind="stable")
    bounds = np.searchsorted(entries.column[order], np.arange(len(schema.columns) + 1))
    cells = []
    for number, column in enumerate(schema.columns):
        chosen = order[bounds[number] : bounds[number + 1]]
        chosen = chosen[mine[entries.row[chosen]]]
        row = entries.row[chosen]
        nothing, zeros = np.full(reader.count, _NOTHING), np.zeros(reader.count, np.int64)
        raw = _Column(reader.data, start, nothing, start.copy(), zeros)
        raw.branch[row], raw.first[row], raw.second[row] = (
            part[chosen] for part in (entries.branch, entries.first, entries.second)
        )
        if np.count_nonzero(raw.branch != _NOTHING) < len(row):
            reader.bad |= np.bincount(row, minlength=reader.count) > 1
        cells.append(_cells(column.data_type, raw, zone))
    return cells


def _cells(data_type: DataType, raw: _Column, zone: str) -> Cells:
    read, branches = _READERS.get(data_type.kind, (_text, (_STRING,)))
    if data_type.mysql_type == "bigint" and data_type.unsigned:
        read, branches = _unsigned, (_UNSIGNED, _LONG, _STRING)
    first = np.where(np.isin(raw.branch, branches), raw.first, raw.start)
    values = read(data_type, replace(raw, first=first), zone)
    wrong = (raw.branch > _NULL) & np.asarray(values.is_null()) if values.null_count else None
    named = raw.branch != _NOTHING
    return Cells(values, wrong if wrong is not None and wrong.any() else None, None if named.all() else named)


def _text(data_type: DataType, raw: _Column, zone: str) -> pa.Array:
    return from_text(data_type, text(raw.bytes(_STRING)))


def _integer(data_type: DataType, raw: _Column, zone: str) -> pa.Array:
    kind, value = arrow_type(data_type), raw.longs(_LONG, pa.int64())
    if kind == pa.int64():
        return value
    return null_where(value, raw.first != raw.first.astype(np.int32)).cast(kind)


def _unsigned(data_type: DataType, raw: _Column, zone: str) -> pa.Array:
    """Read values of BIGINT UNSIGNED; TiCDC's own documentation has them as numbers, and large ones as text."""
    known = (raw.longs(branch, pa.uint64()) for branch in (_UNSIGNED, _LONG))
    return pc.coalesce(*known, _text(data_type, raw, zone))


def _bit(data_type: DataType, raw: _Column, zone: str) -> pa.Array:
    """Read values that are digits; TiCDC's own documentation, and its code of 2025, has them as numbers."""
    return pc.coalesce(bit_bytes(data_type, raw.longs(_LONG, pa.uint64())), _text(data_type, raw, zone))


def _real(data_type: DataType, raw: _Column, zone: str) -> pa.Array:
    if data_type.kind is Kind.FLOAT:
        return numbers(raw.first.astype(np.int32).view(np.float32), raw.has(_FLOAT), pa.float32())
    return numbers(raw.first.view(np.float64), raw.has(_DOUBLE), pa.float64())


def _time(data_type: DataType, raw: _Column, zone: str) -> pa.Array:
    """Read values that name their zone; old messages have the value alone."""
    rows = np.flatnonzero(raw.has(_TIMESTAMP))
    parts = Reader(raw.data, raw.first[rows], raw.first[rows] + raw.second[rows])
    start = [raw.first.copy() for _ in range(2)]
    length = [np.zeros(len(raw.first), np.int64), np.where(raw.has(_STRING), raw.second, 0)]
    for n in range(2):
        start[n][rows], length[n][rows] = parts.span()
    named = raw.has(_TIMESTAMP)
    location, value = (
        text(gather(raw.data, start[n], length[n], there)) for n, there in enumerate((named, named | raw.has(_STRING)))
    )
    return null_where(utc_of(value, location, zone), named & np.asarray(location.is_null()))


_READERS: dict[Kind, tuple[Callable[[DataType, _Column, str], pa.Array], tuple[int, ...]]] = {
    Kind.INTEGER: (_integer, (_LONG,)),
    Kind.YEAR: (_integer, (_LONG,)),
    Kind.FLOAT: (_real, (_FLOAT,)),
    Kind.DOUBLE: (_real, (_DOUBLE,)),
    Kind.BIT: (_bit, (_LONG, _STRING)),
    Kind.BINARY: (lambda data_type, raw, zone: raw.bytes(_BYTES), (_BYTES,)),
    Kind.ENUM: (lambda data_type, raw, zone: enum_element(data_type, raw.longs(_LONG, pa.uint64())), (_LONG,)),
    Kind.SET: (lambda data_type, raw, zone: set_elements(data_type, raw.longs(_LONG, pa.uint64())), (_LONG,)),
    Kind.TIMESTAMP: (_time, (_TIMESTAMP, _STRING)),
}
"""How values of each kind are typed, and the branches that they come in. All others are texts."""
