"""A table's columns and key, and which of Spark's types hold each other's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import types as T


@dataclass(frozen=True)
class Shape:
    """A table's columns in order, with their types, and its key. `key` is None where nobody knows it."""

    columns: Mapping[str, T.DataType] = field(default_factory=dict)
    key: tuple[str, ...] | None = None

    @property
    def struct(self) -> T.StructType:
        """The columns as Spark's type; everything is nullable."""
        return T.StructType([T.StructField(name, kind) for name, kind in self.columns.items()])


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
