"""Columns in the types that Spark has, and back: BIGINT UNSIGNED is decimal(20, 0) there. Imports no Spark."""

from __future__ import annotations

import pyarrow as pa

from tidecast.values._arrow import BYTES, TEXT, nulls, valid

_CAST = {pa.uint64(): pa.decimal128(20, 0), pa.string(): TEXT, pa.binary(): BYTES}


def for_spark(column: pa.Array) -> pa.Array:
    """Return a column, or rows, in types that Spark has; text and bytes with 64-bit offsets.

    Spark takes no two batches of a task whose Arrow types differ, and either kind of offsets may have come.
    """
    if column.type in _CAST:
        return column.cast(_CAST[column.type])
    if pa.types.is_struct(column.type):
        parts = [for_spark(column.field(n)) for n in range(column.type.num_fields)]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in column.type], mask=_missing(column))
    return column


def from_spark(rows: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    """Return rows that Spark had in the types of the model (see `row_type`); a column that is not there is null."""
    places = {f.name: n for n, f in enumerate(rows.type)}
    parts = [rows.field(places[f.name]).cast(f.type) if f.name in places else nulls(len(rows), f.type) for f in kind]
    return pa.StructArray.from_arrays(parts, fields=[*kind], mask=_missing(rows))


def _missing(rows: pa.StructArray) -> pa.Array | None:
    return pa.array(~valid(rows)) if rows.null_count else None
