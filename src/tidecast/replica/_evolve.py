"""From the versions of a table to one shape that holds the rows of all of them.

Applicable are added columns and wider types. A column that is gone or renamed, a type that cannot hold the old
values, values that MySQL changed without saying so, and another key are not, yet: from such a version on, a
table's rows are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import types as T

from tidecast import model
from tidecast.expressions import bit_width
from tidecast.model import DataType, Kind, TableSchema
from tidecast.replica._applied_versions import AppliedVersions
from tidecast.replica._columns import table_type

_NOTHING = AppliedVersions()
_TOO_OLD = "a version from before those in the table, which does not fit them"

_ROUNDED = (Kind.DECIMAL, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_EXACT = (*_ROUNDED, Kind.INTEGER)

_KEPT = {
    (Kind.YEAR, Kind.INTEGER),
    (Kind.YEAR, Kind.DECIMAL),
    (Kind.INTEGER, Kind.DECIMAL),
    (Kind.DECIMAL, Kind.INTEGER),
    (Kind.FLOAT, Kind.DOUBLE),
    *((kind, Kind.TEXT) for kind in (Kind.ENUM, Kind.SET, Kind.JSON, Kind.TIME, Kind.VECTOR, Kind.DECIMAL)),
}
"""Changes of a kind after which a table's old values are still MySQL's."""


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

    `shape` is the one that it must have, without columns where there is nothing to put into a table; `memory` is what
    it shall remember. `defined` has each column as the version defines it where it came first. `refused` has, for each
    version whose rows cannot be applied, the cause; `clash` is the cause where the present table takes nothing at all.
    `changes` tells that the present table must be rewritten.
    """

    shape: Shape
    defined: Mapping[str, model.Column] = field(default_factory=dict)
    refused: Mapping[TableSchema, str] = field(default_factory=dict)
    memory: AppliedVersions = _NOTHING
    clash: str | None = None
    changes: bool = False


def reconcile(
    versions: Iterable[TableSchema],
    present: Shape | None,
    memory: AppliedVersions = _NOTHING,
    *,
    has_commit_ts: bool = True,
) -> Evolution:
    """Return the shape that holds the rows of all versions of a table, and which versions it cannot hold.

    `versions`, in the order in which they came, may hold versions without rows: schema changes tell them, and only they
    show when a column was first there. `present` is the table as it lies there, None where there is none, and `memory`
    what it remembers. A version that it knows, or that lacks columns which come later in the batch, is an older one, so
    that a topic may be applied again from its start. `has_commit_ts` tells that versions are numbered by time; else
    they are so mostly, and the order in which they came counts where it fits better.
    """
    given = list(dict.fromkeys(versions))
    fresh = [v for v in given if not memory.knows(v, has_commit_ts=has_commit_ts)]
    last = [memory.newest] if memory.newest else []
    numbered = sorted([*last, *fresh], key=lambda v: v.version)
    after = numbered[numbered.index(last[0]) :] if last else numbered
    lines = [_line(numbered), _line(after if has_commit_ts else [*last, *fresh])]
    line = max(lines, key=lambda one: (set(last) <= set(one.accepted), len(one.accepted)))
    refused = {v: line.refused.get(v, _TOO_OLD) for v in fresh if v not in line.accepted}
    if present is not None and (cause := _clash(present, line.shape)):
        return Evolution(present, {}, dict.fromkeys(given, cause), memory, clash=cause)
    first = {c.name: c for version in reversed(line.accepted) for c in version.columns}
    # Columns may be added FIRST or AFTER others: the newest version has the order.
    shape = replace(line.shape, columns={c.name: line.shape.columns[c.name] for c in line.accepted[-1].columns})
    taken = memory.after(line.accepted) if set(line.accepted) - set(last) else memory
    if present is None:
        return Evolution(shape, first, refused, taken)
    merged = _widened(present, shape)
    return Evolution(merged, first, refused, taken, changes=merged.columns != present.columns)


@dataclass(frozen=True)
class _Line:
    """The versions of a table in order: those whose rows one shape can hold, and why it cannot hold the others."""

    accepted: Sequence[TableSchema]
    refused: Mapping[TableSchema, str]
    shape: Shape


def _line(versions: Sequence[TableSchema]) -> _Line:
    accepted, refused = list(versions[:1]), dict[TableSchema, str]()
    shape = _shape_of(versions[0])
    for version in versions[1:]:
        cause = next(iter(refused.values()), None) or _objection(shape, accepted[-1], version)
        if cause:
            refused[version] = cause
        else:
            accepted.append(version)
            shape = _widened(shape, _shape_of(version))
    return _Line(accepted, refused, shape)


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
    """Return why deletes of a version cannot be applied, None where they can. They may show the key alone."""
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
        how = _alters(old.data_type, version.column(old.name).data_type)
        if how:
            return f"column {old.name} {how}, in rows too that no message shows"
    return None


def _alters(old: DataType, new: DataType) -> str | None:
    """Return what a change of type does to values that it does not make another column of."""
    if old.kind in _EXACT and new.kind in _EXACT and new.decimal < old.decimal:
        return "lost digits after the point"
    if old.kind is not new.kind and (old.kind, new.kind) not in _KEPT:
        return f"changed from {old} to {new}"
    if _stored(old) != _stored(new):
        return f"is {_stored(new)} bytes long now, not {_stored(old)}"
    if new.kind is Kind.SET and [e for e in new.elements if e in old.elements] != [
        e for e in old.elements if e in new.elements
    ]:
        return "has its elements in another order"
    return None


def _stored(data_type: DataType) -> int:
    """Return how many bytes every value of a BIT has."""
    return bit_width(data_type) if data_type.kind is Kind.BIT else 0


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
