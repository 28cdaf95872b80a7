"""Updates of a key become a delete and an insert. Source: Changefeeds, UPDATE split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Op, TableSchema
from tidecast.protocols import Rows
from tidecast.values import alike, field, null_where, valid


def split_key_updates(rows: Rows, schema: TableSchema) -> tuple[Rows, np.ndarray]:
    """Return rows with each update of a primary or unique key's column as a delete and an insert.

    Out: besides, which rows are the insert of a split update: they leave at the end of their table's transaction. An
    update whose old row is not known stays one.
    """
    split = _moves_key(rows, schema)
    count = len(split)
    if not split.any():
        return rows, split
    places = np.repeat(np.arange(count), 1 + split)
    halves = split[places]
    inserts = halves & np.concatenate([[False], places[1:] == places[:-1]])
    deletes = halves & ~inserts
    both = rows.at_places(places)
    op = pc.if_else(pa.array(deletes), Op.DELETE.value, pc.if_else(pa.array(inserts), Op.CREATE.value, both.op))
    return (
        replace(
            both,
            op=op,
            old=null_where(both.old, inserts),
            data=null_where(both.data, deletes),
            checksum=_without(both.checksum, {"current": deletes, "previous": inserts}),
        ),
        inserts,
    )


def _moves_key(rows: Rows, schema: TableSchema) -> np.ndarray:
    split = np.zeros(len(rows.at), bool)
    if rows.old.null_count == len(rows.old) or rows.data.null_count == len(rows.data):
        return split
    for column in schema.columns:
        if column.name in schema.unique_columns and not column.virtual:
            split |= ~alike(field(rows.old, column.name), field(rows.data, column.name))
    updates: np.ndarray = split & valid(rows.old) & valid(rows.data) & np.asarray(pc.equal(rows.op, Op.UPDATE.value))
    return updates


def _without(checksum: pa.StructArray, sides: dict[str, np.ndarray]) -> pa.StructArray:
    """Return checksums that are 0 for the sides that rows do not have."""
    parts = [
        pc.if_else(pa.array(sides[f.name]), pa.scalar(0, f.type), field(checksum, f.name))
        if f.name in sides
        else field(checksum, f.name)
        for f in checksum.type
    ]
    there = pa.array(~valid(checksum)) if checksum.null_count else None
    return pa.StructArray.from_arrays(parts, fields=[*checksum.type], mask=there)
