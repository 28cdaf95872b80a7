"""From the versions of a table to one shape that holds the rows of all of them.

Applicable are added columns and wider types. A column that is gone or renamed, a type that cannot hold the old
values, values that MySQL changed without saying so, and another key are not, yet: from such a version on, a
table's rows are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import types as T

from tidecast import model
from tidecast.model import Kind, TableSchema
from tidecast.replica._columns import table_type

_ROUNDED = (Kind.DECIMAL, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


@dataclass(frozen=True)
class Shape:
    """A table's columns in order, with their types, and its key. `key` is None where nobody knows it."""

    columns: Mapping[str, T.DataType] = field(default_factory=dict)
    key: tuple[str, ...] | None = None

    @property
    def struct(self) -> T.StructType:
        """The columns as Spark's type; everything is nullable."""
        return T.StructType([T.StructField(name, kind) for name, kind in self.columns.items()])


@dataclass(frozen=True)
class Evolution:
    """What a batch makes of a table.

    `shape` is the one that it must have, without columns where there is nothing to put into a table. `defined` has
    each column as the version defines it where it came first. `refused` has, for each version whose rows cannot
    be applied, the cause; `clash` is the cause where the present table takes nothing at all. `changes` tells that the
    present table must be rewritten.
    """

    shape: Shape
    defined: Mapping[str, model.Column] = field(default_factory=dict)
    refused: Mapping[TableSchema, str] = field(default_factory=dict)
    clash: str | None = None
    changes: bool = False


def reconcile(versions: Iterable[TableSchema], present: Shape | None) -> Evolution:
    """Return the shape that holds the rows of all versions of a table, and which versions it cannot hold.

    `versions` may hold versions without rows: schema changes tell them, and only they show when a column was first
    there. `present` is the table as it lies there, None where there is none. A version that lacks columns which come
    later in the batch is an older one, so that a topic may be applied again from its start.
    """
    ordered = sorted(dict.fromkeys(versions), key=lambda v: v.version)
    accepted, refused = ordered[:1], dict[TableSchema, str]()
    shape = _shape_of(ordered[0])
    for version in ordered[1:]:
        cause = next(iter(refused.values()), None) or _objection(shape, accepted[-1], version)
        if cause:
            refused[version] = cause
        else:
            accepted.append(version)
            shape = _widened(shape, _shape_of(version))
    first = {c.name: c for version in reversed(accepted) for c in version.columns}
    # Columns may be added FIRST or AFTER others: the newest version has the order.
    shape = replace(shape, columns={c.name: shape.columns[c.name] for c in accepted[-1].columns})
    if present is None:
        return Evolution(shape, first, refused)
    cause = _clash(present, shape)
    if cause:
        return Evolution(present, {}, dict.fromkeys(ordered, cause), clash=cause)
    merged = _widened(present, shape)
    return Evolution(merged, first, refused, changes=merged.columns != present.columns)


def with_wider_key(evolution: Evolution, deletes: Iterable[TableSchema]) -> Evolution:
    """Return the evolution after versions that only deletes show: a key that became wider may come in those first."""
    shape = evolution.shape
    if evolution.refused or shape.key is None:
        return evolution
    for version in deletes:
        keys = {name: table_type(version.column(name).data_type) for name in version.handle_key}
        there = {name: shape.columns.get(name) for name in keys}
        if set(keys) == set(shape.key) and all(here and holds(keys[name], here) for name, here in there.items()):
            shape = _widened(shape, Shape(keys))
    return replace(evolution, shape=shape, changes=evolution.changes or shape.columns != evolution.shape.columns)


def delete_objection(evolution: Evolution, version: TableSchema) -> str | None:
    """Return why deletes of a version, which may show nothing but its key, cannot be applied."""
    shape, key = evolution.shape, version.handle_key
    if evolution.clash:
        return evolution.clash
    if shape.key is not None and set(key) != set(shape.key):
        return "deletes by another key than the table's"
    for name in key if shape.columns else ():
        here, there = shape.columns.get(name), table_type(version.column(name).data_type)
        # A cast would make another key of it, and delete another row.
        if here is None or not holds(here, there):
            return f"deletes by a key of another type: {name} is {there.simpleString()}"
    return None


def holds(wide: T.DataType, narrow: T.DataType) -> bool:
    """Tell whether a table's column of one type holds every value of another."""
    if wide == narrow or (isinstance(wide, T.DoubleType) and isinstance(narrow, T.FloatType)):
        return True
    return all(has >= need for has, need in zip(_room(wide), _need(narrow), strict=True))


def _room(kind: T.DataType) -> tuple[int, int]:
    """Return the digits before and after the point that a type always has room for."""
    if isinstance(kind, T.DecimalType):
        return kind.precision - kind.scale, kind.scale
    return _INTEGERS.get(kind, (-1, -1))[0], 0


def _need(kind: T.DataType) -> tuple[int, int]:
    """Return the digits before and after the point that a type's longest values have."""
    if isinstance(kind, T.DecimalType):
        return kind.precision - kind.scale, kind.scale
    return _INTEGERS.get(kind, (99, 99))[1], 0


_INTEGERS: dict[T.DataType, tuple[int, int]] = {T.IntegerType(): (9, 10), T.LongType(): (18, 19)}


def _shape_of(version: TableSchema) -> Shape:
    return Shape({c.name: table_type(c.data_type) for c in version.columns}, version.handle_key)


def _widened(shape: Shape, by: Shape) -> Shape:
    def wider(name: str) -> T.DataType:
        here, there = shape.columns.get(name), by.columns.get(name)
        if here is None or there is None:
            return here or there or T.NullType()
        return here if holds(here, there) else there

    names = dict.fromkeys([*shape.columns, *by.columns])
    return Shape({name: wider(name) for name in names}, by.key if shape.key is None else shape.key)


def _objection(shape: Shape, before: TableSchema, version: TableSchema) -> str | None:
    """Return why a version's rows cannot be put beside those of the version before it."""
    cause = _clash(shape, _shape_of(version))
    if cause:
        return cause
    for old in before.columns:
        new = version.column(old.name)
        if new.data_type.kind in _ROUNDED and new.data_type.decimal < old.data_type.decimal:
            return f"column {old.name} lost digits after the point, in rows too that no message shows"
    return None


def _clash(shape: Shape, by: Shape) -> str | None:
    """Return why a table of one shape cannot become one that holds rows of another shape."""
    if shape.key is not None and set(shape.key) != set(by.key or ()):
        return f"the key changed from {_key(shape.key)} to {_key(by.key)}"
    for name, here in shape.columns.items():
        there = by.columns.get(name)
        if there is None:
            return f"column {name} is gone or was renamed"
        if not (holds(here, there) or holds(there, here)):
            return f"column {name} changed from {here.simpleString()} to {there.simpleString()}"
    return None


def _key(key: tuple[str, ...] | None) -> str:
    return f"({', '.join(key)})" if key else "none"
