"""Simple messages in Avro: what they say beside their rows, and their rows as columns.

All messages are read at once, a field at a time. Source: Simple protocol, Avro schema, row values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidecast.model import Reason, TableSchema
from tidecast.protocols._avro_reader import Reader
from tidecast.protocols._decoded import CHECKSUM
from tidecast.protocols.simple._avro import BOOTSTRAP, DDL, DML, WATERMARK, beginning
from tidecast.protocols.simple._avro_values import read_values
from tidecast.protocols.simple._heads import KINDS, NO_KIND, SIDES, Heads, Side
from tidecast.protocols.simple._message import DDL_TYPES, ROW_OPS
from tidecast.values import content_of, gather, numbers, spread, text_of_bytes

_HEAD = len(beginning(DML))


class AvroMessages:
    """Messages in Avro. In: all values (large_binary), and the places of those that are in Avro.

    `locations` tell where the whole of a message lies, null where it is here.
    """

    unreadable = Reason.UNDECODABLE

    def __init__(self, contents: pa.Array, at: np.ndarray) -> None:
        self._data, offsets = content_of(contents)
        self._start, self._end = offsets[at], offsets[at + 1]
        self._count = len(at)
        self._sound = np.zeros(self._count, bool)
        self._kind = np.full(self._count, NO_KIND, np.int8)
        self._commit_ts = np.zeros(self._count, np.int64)
        self._timed = np.zeros(self._count, bool)
        begins = self._data.take(self._start[:, None] + np.arange(_HEAD), mode="clip")
        for record, read in ((WATERMARK, self._watermarks), (BOOTSTRAP, self._bootstraps), (DDL, self._changes)):
            read(*self._beginning(begins, beginning(record)))
        rows, reader = self._beginning(begins, beginning(DML))
        self._row = np.full(self._count, -1)
        self._row[rows] = np.arange(len(rows))
        self._reader = reader
        self._rows(rows, reader)

    def _beginning(self, begins: np.ndarray, mark: bytes) -> tuple[np.ndarray, Reader]:
        """Return the messages that begin so, and a reader behind that."""
        mine = (begins == np.frombuffer(mark, np.uint8)).all(axis=1) & (self._end - self._start >= _HEAD)
        rows = np.flatnonzero(mine)
        return rows, Reader(self._data, self._start[rows] + _HEAD, self._end[rows])

    def _watermarks(self, rows: np.ndarray, reader: Reader) -> None:
        reader.integer()
        self._commit_ts[rows] = reader.long()
        reader.long()
        self._take(rows, reader, np.full(len(rows), KINDS["WATERMARK"]), timed=True)

    def _bootstraps(self, rows: np.ndarray, reader: Reader) -> None:
        reader.integer()
        reader.long()
        self._take(rows, reader, np.full(len(rows), KINDS["BOOTSTRAP"]), timed=False)

    def _changes(self, rows: np.ndarray, reader: Reader) -> None:
        reader.integer()
        kind = _symbol(reader, DDL_TYPES)
        reader.span()
        self._commit_ts[rows] = reader.long()
        reader.long()
        self._take(rows, reader, kind, timed=True)

    def _rows(self, rows: np.ndarray, reader: Reader) -> None:
        reader.integer()
        database, table = (text_of_bytes(gather(self._data, *reader.span(), None)) for _ in range(2))
        table_id = reader.long()
        kind = _symbol(reader, tuple(ROW_OPS))
        self._commit_ts[rows] = reader.long()
        reader.long()
        version = reader.long()
        claimed = _optional(reader)
        location = spread(text_of_bytes(gather(self._data, *reader.span(claimed), None)), claimed, reader.count)
        only_keys = _optional(reader)
        reduced = np.zeros(reader.count, bool)
        reduced[claimed] = True
        reduced[only_keys] |= reader.boolean(only_keys)
        summed = _optional(reader)
        parts = [
            pa.array(reader.integer(summed).astype(np.int32)),
            pa.array(reader.boolean(summed)),
            pa.array(reader.long(summed)),
            pa.array(reader.long(summed)),
        ]
        self._take(rows, reader, kind, timed=True)
        checksum = spread(pa.StructArray.from_arrays(parts, fields=[*CHECKSUM]), summed, reader.count)
        self.checksum = spread(checksum, rows, self._count)
        self.locations = spread(location, rows, self._count)
        whole = np.zeros(self._count, bool)
        whole[rows] = reduced
        self.heads = Heads(
            self._sound,
            self._sound,
            self._kind,
            numbers(self._commit_ts, self._timed, pa.int64()),
            spread(pa.array(table_id), rows, self._count),
            spread(pa.array(version), rows, self._count),
            spread(database, rows, self._count),
            spread(table, rows, self._count),
            whole,
            np.zeros(self._count, bool),  # which the driver finds when it reads them
        )

    def _take(self, rows: np.ndarray, reader: Reader, kind: np.ndarray, *, timed: bool) -> None:
        self._sound[rows] = ~reader.bad
        self._kind[rows] = kind
        self._timed[rows] = timed

    def sides(self, chosen: np.ndarray, schema: TableSchema, zone: str) -> tuple[dict[str, Side], np.ndarray]:
        """See `Messages.sides`."""
        rows = self._row[chosen]
        reader = Reader(self._data, self._reader.at[rows], self._reader.end[rows])
        kinds = self.heads.kind[chosen]
        sides = {}
        for side in ("data", "old"):
            shown = _optional(reader)
            mine = np.zeros(reader.count, bool)
            mine[shown] = True
            mine &= np.isin(kinds, [KINDS[kind] for kind in SIDES[side]])
            columns = read_values(reader, shown, mine, schema, zone)
            if mine.any():
                sides[side] = Side(mine, columns)
        return sides, reader.bad | (reader.at != reader.end)


def _symbol(reader: Reader, symbols: tuple[str, ...]) -> np.ndarray:
    """Read an enum: the numbers of its symbols among `KINDS`."""
    number = reader.integer()
    wrong = (number < 0) | (number >= len(symbols))
    reader.bad |= wrong
    kinds: np.ndarray = np.array([KINDS[symbol] for symbol in symbols], np.int8)[np.where(wrong, 0, number)]
    return kinds


def _optional(reader: Reader) -> np.ndarray:
    """Read the branch of a union of null and one type: the rows with a value."""
    rows = reader.branch(0)
    return np.arange(reader.count) if rows is None else rows
