"""The checksums of rows, and the verdict on each.

Source: Avro protocol, row checksum, corrupted rows, consumers compared.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.checksum._pieces import pieces
from tidecast.model import Column, Op, TableSchema
from tidecast.values import BYTES, field, joined, null_where, to_numpy, valid


class Verdict(enum.StrEnum):
    """The result of a row's check."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"
    ZERO = "zero"
    DELETE = "delete"
    UNREADABLE = "unreadable"


_CODE = {verdict: number for number, verdict in enumerate(Verdict)}
_NAMES = pa.array([*map(str, Verdict)], pa.string())


def taking_part(schema: TableSchema) -> list[Column]:
    """Return the columns that take part, in the checksum's order: by column id, or as the schema has them."""
    stored = [c for c in schema.columns if not c.virtual]
    return sorted(stored, key=lambda c: c.id or 0) if all(c.id is not None for c in stored) else stored


def row_checksums(schema: TableSchema, rows: pa.StructArray) -> pa.Array:
    """Return TiCDC's column-level checksum of each row: CRC-32 (IEEE) over the bytes of its columns by ascending id.

    In: rows of the model (see `tidecast.values.row_type`). Out: int64 0 … 2^32 - 1, null for a null row. NULL gives
    no bytes; virtual columns take no part. A value outside of its column's type, such as an unknown ENUM element, gives
    bytes that no valid value gives. Where column ids are unknown, columns count in the order of the schema.
    """
    parts = [piece for column in taking_part(schema) for piece in pieces(column.data_type, field(rows, column.name))]
    content = joined(parts).to_pylist() if parts else [b""] * len(rows)
    sums = np.fromiter(map(zlib.crc32, content), np.int64, len(content))
    return null_where(pa.array(sums), ~valid(rows))


def explained(schema: TableSchema, rows: pa.StructArray) -> dict[str, pa.Array]:
    """Return the bytes that each column of rows gives to the checksum, in the checksum's order; null for NULL."""
    return {
        c.name: null_where(joined(parts), ~valid(field(rows, c.name)))
        if (parts := pieces(c.data_type, field(rows, c.name)))
        else pa.nulls(len(rows), BYTES)
        for c in taking_part(schema)
    }


@dataclass(frozen=True)
class Verdicts:
    """The verdict on each row: `verdict` text (see `Verdict`), `expected`, `actual` int64 and `corrupted` boolean.

    `expected` is null where there is no checksum, or its text is no number; `actual` where there is no row.
    `corrupted` tells that the source itself found the row damaged, which says nothing about the verdict.
    """

    verdict: pa.Array
    expected: pa.Array
    actual: pa.Array
    corrupted: pa.Array


@dataclass(frozen=True)
class _OneSide:
    code: np.ndarray
    expected: pa.Array
    actual: pa.Array


def verdicts(
    schema: TableSchema,
    *,
    op: pa.Array,
    old: pa.StructArray,
    data: pa.StructArray,
    checksum: pa.StructArray,
    reason: pa.Array,
) -> Verdicts:
    """Return the verdict on each row change; the columns are those of `tidecast.protocols.Rows`.

    The row before a change counts where the source carried a checksum of it, and a row does not match if either does
    not. A delete is called one unless it carries a checksum that its row does not fit. A row without a checksum, or
    with 0, is not checked.
    """
    there, current, previous = valid(checksum), field(checksum, "current"), field(checksum, "previous")
    after = _judged(schema, data, null_where(current, ~there))
    before = _judged(schema, old, null_where(previous, ~there))
    match, mismatch = _CODE[Verdict.MATCH], _CODE[Verdict.MISMATCH]
    use_before = (before.code == mismatch) & (after.code != mismatch)
    use_before |= (before.code == match) & (after.code != mismatch) & (after.code != match)
    code = np.where(use_before, before.code, after.code)
    deletes = np.asarray(pc.fill_null(pc.equal(op, Op.DELETE.value), False))
    code = np.where(deletes & (code != mismatch), _CODE[Verdict.DELETE], code)
    code = np.where(valid(reason), _CODE[Verdict.UNREADABLE], code)
    chosen = pa.array(use_before)
    return Verdicts(
        _NAMES.take(pa.array(code)),
        pc.if_else(chosen, before.expected, after.expected),
        pc.if_else(chosen, before.actual, after.actual),
        pc.fill_null(null_where(field(checksum, "corrupted"), ~there), False),
    )


def _judged(schema: TableSchema, rows: pa.StructArray, expected: pa.Array) -> _OneSide:
    if rows.null_count == len(rows):
        nothing = pa.nulls(len(rows), pa.int64())
        return _OneSide(np.full(len(rows), _CODE[Verdict.NONE]), _shown(expected), nothing)
    actual = row_checksums(schema, rows)
    numbers = to_numpy(expected)
    none = ~(valid(expected) & valid(rows))
    code = np.where(numbers == to_numpy(actual), _CODE[Verdict.MATCH], _CODE[Verdict.MISMATCH])
    code = np.where(numbers == 0, _CODE[Verdict.ZERO], code)
    return _OneSide(np.where(none, _CODE[Verdict.NONE], code), _shown(expected), actual)


def _shown(expected: pa.Array) -> pa.Array:
    return null_where(expected, valid(expected) & (to_numpy(expected) < 0))
