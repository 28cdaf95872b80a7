"""Columns that the rows of several tables share, so that one plan has them all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import types as T

from tidecast.replica.tables import arrow_type_of
from tidecast.spark import sql_text
from tidecast.values import nulls, valid


@dataclass(frozen=True)
class Slots:
    """Columns by their types, of each type as many as the table with the most columns of it has.

    A table has its columns of a type in the first slots of it; the other slots of its rows are null.
    """

    types: tuple[T.DataType, ...]

    @classmethod
    def of(cls, tables: Iterable[Iterable[T.DataType]]) -> Slots:
        """Return slots for tables with columns of these types."""
        most: Counter[T.DataType] = reduce(or_, (Counter(types) for types in tables), Counter())
        return cls(tuple(most.elements()))

    @property
    def struct(self) -> T.StructType:
        """The slots as a type of Spark."""
        return T.StructType([T.StructField(f"s{n}", kind) for n, kind in enumerate(self.types)])

    def places(self, types: Iterable[T.DataType]) -> tuple[int, ...]:
        """Return the slot of each column of a table."""
        free = defaultdict[T.DataType, list[int]](list)
        for n, kind in enumerate(self.types):
            free[kind].append(n)
        return tuple(free[kind].pop() for kind in types)

    def filled(self, rows: pa.StructArray, places: Sequence[int]) -> pa.StructArray:
        """Return rows of a table in the slots; null where there is no row."""
        here = dict(zip(places, (rows.field(n) for n in range(len(places))), strict=True))
        parts = [here[n] if n in here else nulls(len(rows), arrow_type_of(kind)) for n, kind in enumerate(self.types)]
        names = self.struct.names
        return pa.StructArray.from_arrays(parts, names=names, mask=pa.array(~valid(rows)))


def out_of_slots(path: str, columns: Mapping[str, int]) -> str:
    """Return the row of a table, by the slots of its columns, as an expression of SQL."""
    return f"named_struct({', '.join(f'{sql_text(name)}, {path}.s{n}' for name, n in columns.items())})"
