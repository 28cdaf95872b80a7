"""Deletes that show the key alone: whether their key is the table's, and how wide it has become."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidecast._policy import DdlKind
from tidecast.model import TableSchema
from tidecast.replica.plan._evolution import Evolution
from tidecast.replica.plan._shapes import OnNewKey, hashed_otherwise, laid_out_anew, widened
from tidecast.replica.tables import Shape, holds, table_type


def with_wider_key(evolution: Evolution, deletes: Iterable[TableSchema]) -> Evolution:
    """Return the evolution after versions that only deletes show: a key that became wider may come in those first."""
    shape = evolution.shape
    if evolution.refused or shape.key is None:
        return evolution
    for version in map(evolution.lineage.current, deletes):
        keys = {name: table_type(version.column(name).data_type) for name in version.handle_key}
        there = {name: shape.columns.get(name) for name in keys}
        if set(keys) == set(shape.key) and all(here and holds(keys[name], here) for name, here in there.items()):
            shape = widened(shape, Shape(keys))
    if shape.columns == evolution.shape.columns:
        return evolution
    wider = (DdlKind.ALTER_COLUMN_TYPE, "its key became wider")
    return replace(evolution, shape=shape, news=[*evolution.news, wider])


def delete_objection(evolution: Evolution, version: TableSchema, on_new_key: OnNewKey = OnNewKey.REFUSE) -> str | None:
    """Return why deletes of a version cannot be applied, None where they can. They may show the key alone.

    In a log they delete nothing, so that any key will do that its columns can hold.
    """
    version = evolution.lineage.current(version)
    shape, key, log = evolution.shape, version.handle_key, on_new_key is OnNewKey.NO_KEY
    if evolution.clash:
        return evolution.clash
    if log:
        key = tuple(name for name in key if name in shape.columns)
    elif shape.key is not None and set(key) != set(shape.key):
        return "deletes by another key than the table's"
    last = evolution.memory.newest
    newest = {c.name: c.data_type for c in last.columns} if last else {}
    for name in key if shape.columns else ():
        here, there = shape.columns.get(name), table_type(version.column(name).data_type)
        # A cast would make another key of it, and delete another row.
        if here is None or not holds(here, there):
            return f"deletes by a key of another type: {name} is {there.simpleString()}"
        if log or name not in newest:
            continue
        kinds = newest[name], version.column(name).data_type
        if hashed_otherwise(*kinds):
            return f"deletes by a key of another type, which has other hashes: {name}"
        older, newer = reversed(kinds) if last and version.version < last.version else kinds
        if how := laid_out_anew(older, newer):
            return f"deletes by a key of another type: {name} {how}"
    return None
