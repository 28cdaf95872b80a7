"""The partition of each row. Source: Changefeed configuration, partitions."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Column, DataType, Kind
from tidecast.values import (
    BYTES,
    TEXT,
    bit_number,
    decimal_text,
    enum_number,
    field,
    set_mask,
    shift_zone,
    shortest_text,
    to_numpy,
    valid,
)


@dataclass(frozen=True)
class Partitions:
    """How the rows of a table go to the partitions of its topic, of which there are `count`.

    By the hash of the table's name and of `columns`, or of its name alone; where `columns` is None by commit-ts. `zone`
    is the time zone in which TIMESTAMP values are hashed: TiCDC's server zone.
    """

    count: int
    table: str
    columns: Sequence[Column] | None
    zone: str = "UTC"

    def of(self, image: pa.StructArray, commit_ts: pa.Array) -> np.ndarray:
        """Return the partition of each row: int32.

        In: rows as they are after the change, or were before their deletion, and their commit-ts as int64.
        """
        if self.columns is None:
            # A row without commit-ts leaves with 0, as messages have it.
            return (to_numpy(commit_ts) % self.count).astype(np.int32)
        hashes = np.full(len(image), zlib.crc32(self.table.encode()), np.int64)
        for column in self.columns:
            hashes ^= _hashes(column, field(image, column.name), self.zone)
        partitions: np.ndarray = (hashes % self.count).astype(np.int32)
        return partitions


def _hashes(column: Column, value: pa.Array, zone: str) -> np.ndarray:
    """Return the hash of a column's name and each value; null has no part in the row's."""
    make = _HASHED.get(column.data_type.kind)
    hashed = make(column.data_type, value, zone) if make else value
    if hashed.type != BYTES:
        hashed = hashed.cast(TEXT).cast(BYTES)
    start, content = zlib.crc32(column.name.encode()), pc.fill_null(hashed, b"").to_pylist()
    found = np.fromiter(map(zlib.crc32, content, repeat(start)), np.int64, len(content))
    return np.where(valid(value), found, 0)


def _real(data_type: DataType, value: pa.Array, zone: str) -> pa.Array:
    return shortest_text(pc.if_else(pc.is_finite(value), value, pa.scalar(0, value.type)))


_HASHED: dict[Kind, Callable[[DataType, pa.Array, str], pa.Array]] = {
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.DECIMAL: lambda data_type, value, zone: decimal_text(value),
    Kind.BIT: lambda data_type, value, zone: bit_number(value),
    Kind.ENUM: lambda data_type, value, zone: pc.fill_null(enum_number(data_type, value), 0),
    Kind.SET: lambda data_type, value, zone: pc.fill_null(set_mask(data_type, value), 0),
    Kind.TIMESTAMP: lambda data_type, value, zone: shift_zone(value, "UTC", zone),
}
"""What TiCDC hashes of values, by kind: a number as its text. Values of any other kind are hashed as they are."""
