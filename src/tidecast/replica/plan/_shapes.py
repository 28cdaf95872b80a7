"""Shapes of tables: the columns of a version there, and the changes of types, keys and names that can be followed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from enum import Enum, auto

from pyspark.sql import types as T

from tidecast.model import DataType, Kind, TableSchema, bit_width
from tidecast.replica.plan._applied_versions import Move
from tidecast.replica.tables import Shape, hashed, holds, is_text, source_type, table_type

KEY_CHANGED = "the key changed from"

_CHAR = "char"
_OTHER_DIGITS = "has another number of digits after the point in its text"

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


class OnNewKey(Enum):
    """The effect of another key: rows are refused, the table gets it, or none, as in a log."""

    REFUSE = auto()
    FOLLOW = auto()
    NO_KEY = auto()


def shape_of(version: TableSchema) -> Shape:
    return Shape({c.name: table_type(c.data_type) for c in version.columns}, version.handle_key)


def widened(shape: Shape, by: Shape) -> Shape:
    def wider(name: str) -> T.DataType:
        here, there = shape.columns.get(name), by.columns.get(name)
        if here is None or there is None:
            return here or there or T.NullType()
        return here if holds(here, there) else there

    names = dict.fromkeys([*shape.columns, *by.columns])
    return Shape({name: wider(name) for name in names}, by.key if shape.key is None else shape.key)


def following(shape: Shape, moves: Iterable[Move]) -> Shape:
    """Return a shape after its columns were dropped and renamed."""
    for move in moves:
        now = {old: new for new, old in move.renamed}
        columns = {now.get(n, n): kind for n, kind in shape.columns.items() if n not in move.dropped}
        shape = Shape(columns, shape.key and tuple(now.get(n, n) for n in shape.key))
    return shape


def objection(
    shape: Shape, before: TableSchema, version: TableSchema, move: Move, kept: Set[str], on_new_key: OnNewKey
) -> str | None:
    """Return why a version's rows cannot be put beside those of the version before it."""
    taken = {name for name, _ in move.renamed} & ({*shape.columns, *kept} - {c.name for c in before.columns})
    if taken:
        return f"column {min(taken)} was renamed to what a column is called that the table keeps"
    there = {name.lower(): name for name in (*following(shape, [move]).columns, *kept, *move.kept)}
    if alike := [c.name for c in version.columns if there.get(c.name.lower(), c.name) != c.name]:
        return f"column {alike[0]} is called like column {there[alike[0].lower()]}, which the table keeps"
    cause = clash(following(shape, [move]), shape_of(version), kept | {*move.kept}, on_new_key)
    if cause:
        return cause
    now = {old: new for new, old in move.renamed}
    for old in before.columns:
        name = now.get(old.name, old.name)
        if name not in {c.name for c in version.columns}:
            continue
        how = alters(old.data_type, version.column(name).data_type)
        if how:
            return f"column {name} {how}, in rows too that no message shows"
    return None


def clash(shape: Shape, by: Shape, kept: Set[str] = frozenset(), on_new_key: OnNewKey = OnNewKey.REFUSE) -> str | None:
    """Return why a table of one shape, with columns `kept` for itself, cannot become one that holds another's rows."""
    other_key = shape.key is not None and set(shape.key) != set(by.key or ())
    if other_key and on_new_key is not OnNewKey.NO_KEY:
        return f"{KEY_CHANGED} {key_text(shape.key)} to {key_text(by.key)}"
    for name, here in shape.columns.items():
        there = by.columns.get(name)
        if there is None and name in kept:
            continue
        if there is None:
            return f"column {name} is gone or was renamed"
        if not (holds(here, there) or holds(there, here)):
            return f"column {name} changed from {here.simpleString()} to {there.simpleString()}"
    return None


def wider(shape: Shape, by: Shape) -> str | None:
    """Return which column's type has become wider than a table's."""
    here, there = shape.columns, by.columns
    return next(
        (
            f"column {n} changed from {here[n].simpleString()} to {kind.simpleString()}"
            for n, kind in there.items()
            if n in here and not holds(here[n], kind)
        ),
        None,
    )


def alters(old: DataType, new: DataType) -> str | None:
    """Return what a change of type does to values that it does not make another column of."""
    if is_text(old) and is_text(new) and old.decimal != new.decimal:
        return _OTHER_DIGITS
    if hashed(new):  # of a table of an older version nothing tells what was hashed
        return f"is hashed from {hashed(new)}, and was from {hashed(old)}" if hashed_otherwise(old, new) else None
    old, new = source_type(old), source_type(new)
    if old.kind in _EXACT and new.kind in _EXACT and new.decimal < old.decimal:
        return "lost digits after the point"
    if old.kind is not new.kind and (old.kind, new.kind) not in _KEPT:
        return f"changed from {old} to {new}"
    if None not in (digits := [_digits_in_text(old), _digits_in_text(new)]) and digits[0] != digits[1]:
        return _OTHER_DIGITS
    if how := laid_out_anew(old, new):
        return how
    if new.kind is Kind.SET and [e for e in new.elements if e in old.elements] != [
        e for e in old.elements if e in new.elements
    ]:
        return "has its elements in another order"
    return None


def hashed_otherwise(old: DataType, new: DataType) -> bool:
    """Tell whether equal values of two types have other hashes in the table."""
    return None not in (hashed(old), hashed(new)) and hashed(old) != hashed(new)


def _digits_in_text(data_type: DataType) -> int | None:
    """Return how many digits after the point each value has of a DECIMAL or TIME that a table keeps as text.

    None for other types, and where nobody knows.
    """
    kept = data_type.kind in (Kind.DECIMAL, Kind.TIME) and isinstance(table_type(data_type), T.StringType)
    return data_type.decimal if kept and (data_type.length > 0 or data_type.decimal > 0) else None


def laid_out_anew(old: DataType, new: DataType) -> str | None:
    """Return how another type of their kind alters stored bytes and texts.

    Values of BINARY are filled up, those of CHAR have no blanks at their ends. Where a length is unknown, the source
    may have told any type of the kind, so that nothing follows.
    """
    before, now = _stored(old), _stored(new)
    if before and now and before != now:
        return f"is {now} bytes long now, not {before}"
    if min(old.length, new.length) <= 0:
        return None
    if new.kind is Kind.BINARY and now and not before:
        return f"is always {now} bytes long now"
    if new.kind is old.kind is Kind.TEXT and new.mysql_type == _CHAR != old.mysql_type:
        return "lost the blanks at the ends of its texts"
    return None


def _stored(data_type: DataType) -> int:
    """Return how many bytes every value has of a BIT or a BINARY; 0 where they differ, or nobody knows."""
    if data_type.kind is Kind.BIT:
        return bit_width(data_type)
    fixed = data_type.kind is Kind.BINARY and data_type.mysql_type in ("binary", _CHAR)
    return max(data_type.length, 0) if fixed else 0


def key_text(key: Sequence[str] | None) -> str:
    """Return a key in words."""
    return f"({', '.join(key)})" if key else "none"
