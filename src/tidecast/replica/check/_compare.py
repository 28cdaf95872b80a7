"""The rows of two tables against each other: counts and hashes first, and the rows alone where these differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError
from tidecast._policy import TableMode
from tidecast.replica.state import RowSum, row_hash, row_sum
from tidecast.replica.tables import DELETED, Contents, holds
from tidecast.spark import evaluated_once, parallel_map, sql_column, sql_name

_BUCKETS = 1024
"""So many parts of a table, by a hash of the key, are compared as wholes before any row is."""

_METADATA = {*Contents.parse(TableMode.LOG).columns, DELETED}
_IN_A, _KEY, _ROW, _HASH, _BUCKET = "in_a", "key", "row", "hash", "bucket"
_GROUPED = ("times_a", "times_b", "row_a", "row_b")

Text = str | None


@dataclass(frozen=True)
class RowDifference:
    """A row that differs: its key, the whole row where there is none, and how often each side has it.

    `columns` are those whose values differ, with both values, for a row that both sides have. Values are texts, binary
    ones hexadecimal, None for null.
    """

    key: Mapping[str, Text]
    times_a: int
    times_b: int
    columns: Mapping[str, tuple[Text, Text]]


@dataclass(frozen=True)
class ComparedTable:
    """The comparison of one table: the rows on each side, and how many differ.

    `only_a` and `only_b` count the keys that one side alone has, `changed` those that both have, with other values or
    another number of times. `rows` are the first of all these. `remarks` tell what differs beside rows: a table that
    one side lacks or that cannot be read, columns that it lacks or has in another type.
    """

    table: str
    rows_a: int | None = None
    rows_b: int | None = None
    only_a: int = 0
    only_b: int = 0
    changed: int = 0
    rows: tuple[RowDifference, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def different(self) -> int:
        """Return how many keys differ."""
        return self.only_a + self.only_b + self.changed

    @property
    def ok(self) -> bool:
        """Tell whether both sides are the same."""
        return not self.different and not self.remarks


@dataclass(frozen=True)
class TableRows:
    """The rows of a table on one side, and the key that tells one from another, empty where there is none."""

    rows: DataFrame
    key: tuple[str, ...] = ()

    @property
    def marks_deleted(self) -> bool:
        """Tell whether rows may be marked as deleted."""
        return DELETED in self.rows.columns


def compare_rows(table: str, a: TableRows, b: TableRows, *, key: Sequence[str] = (), limit: int) -> ComparedTable:
    """Compare two tables, and name at most `limit` of the rows that differ.

    Rows belong together by `key`, else by the key that one of the tables knows, else as wholes. Metadata columns that
    one side lacks are left out, and rows that are marked as deleted where the other side has no such mark.

    Raises ConfigError where a column of `key` is missing.
    """
    a, b = _without_deleted(a, b), _without_deleted(b, a)
    columns, remarks = _columns(a, b)
    if not columns:
        return ComparedTable(table, a.rows.count(), b.rows.count(), remarks=remarks)
    both = [_selected(side.rows, columns, n) for n, side in enumerate((a, b))]
    by = _key(key or (a.key or b.key), columns, asked=bool(key)) or list(columns)
    sums_a, sums_b = parallel_map(lambda rows: _sums(rows, by), both)
    rows_a, rows_b = (sum(one.rows for one in sums.values()) for sums in (sums_a, sums_b))
    differ = [bucket for bucket in {*sums_a, *sums_b} if sums_a.get(bucket) != sums_b.get(bucket)]
    if not differ:
        return ComparedTable(table, rows_a, rows_b, remarks=remarks)
    different = _different(both, by, differ).persist()
    try:
        (counts,) = different.agg(
            F.count_if(F.col("times_b") == 0).alias("only_a"),
            F.count_if(F.col("times_a") == 0).alias("only_b"),
            F.count("*").alias("all"),
        ).collect()
        shown = different.orderBy(_KEY).limit(limit).select(_shown(columns, by)).collect()
    finally:
        different.unpersist()
    only_a, only_b = counts["only_a"], counts["only_b"]
    rows = tuple(map(_row_difference, shown))
    return ComparedTable(table, rows_a, rows_b, only_a, only_b, counts["all"] - only_a - only_b, rows, remarks)


def _without_deleted(side: TableRows, other: TableRows) -> TableRows:
    if not side.marks_deleted or other.marks_deleted:
        return side
    return TableRows(side.rows.where(~F.coalesce(DELETED, F.lit(False))), side.key)


@dataclass(frozen=True)
class _Both:
    """A column that both sides have: its names there, and the type in which it is compared."""

    names: tuple[str, str]
    kind: T.DataType


def _columns(a: TableRows, b: TableRows) -> tuple[dict[str, _Both], tuple[str, ...]]:
    """Return the columns that can be compared, and remarks on the others."""
    fields_a, fields_b = ({f.name.lower(): f for f in side.rows.schema.fields} for side in (a, b))
    found, remarks = dict[str, _Both](), list[str]()
    for name, here in fields_a.items():
        there = fields_b.get(name)
        if there is None:
            continue
        kinds = here.dataType, there.dataType
        wide = next((wide for wide, narrow in (kinds, kinds[::-1]) if holds(wide, narrow)), None)
        if wide is None:
            texts = [kind.simpleString() for kind in kinds]
            remarks.append(f"column {here.name} is {texts[0]} in A and {texts[1]} in B")
        else:
            found[here.name] = _Both((here.name, there.name), wide)
    for side, fields, others in (("A", fields_a, fields_b), ("B", fields_b, fields_a)):
        alone = [f.name for name, f in fields.items() if name not in others and f.name not in _METADATA]
        remarks += [f"column {name} is only in {side}" for name in alone]
    return found, tuple(remarks)


def _selected(rows: DataFrame, columns: Mapping[str, _Both], side: int) -> DataFrame:
    return rows.select(*(F.col(sql_name(both.names[side])).cast(both.kind).alias(n) for n, both in columns.items()))


def _key(names: Sequence[str], columns: Mapping[str, _Both], *, asked: bool) -> list[str]:
    """Return the columns of a key, none where one of them cannot be compared."""
    by_lower = {name.lower(): name for name in columns}
    missing = [name for name in names if name.lower() not in by_lower]
    if missing and asked:
        hint = f"the columns that can be compared are {', '.join(columns)}"
        raise ConfigError(f"--key: there is no column {missing[0]} on both sides", hint=hint)
    return [] if missing else [by_lower[name.lower()] for name in names]


def _hashed(rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add the bucket of each row, and its hash."""
    key, row = (row_hash({name: sql_column(name) for name in names}) for names in (by, rows.columns))
    columns = ", ".join(map(sql_column, by)), ", ".join(map(sql_column, rows.columns))
    hashed = evaluated_once(F.expr(row))
    return rows.select(
        F.expr(f"struct({columns[0]})").alias(_KEY),
        F.expr(f"struct({columns[1]})").alias(_ROW),
        evaluated_once(F.expr(f"pmod({key}, {_BUCKETS})")).alias(_BUCKET),
        hashed.alias(_HASH),
    )


def _sums(rows: DataFrame, by: Sequence[str]) -> dict[int, RowSum]:
    """Return the row count and hash of each bucket."""
    summed = _hashed(rows, by).groupBy(_BUCKET).agg(*row_sum("count(1)", _HASH)).collect()
    return {row[_BUCKET]: RowSum.of(row) for row in summed}


def _different(both: Sequence[DataFrame], by: Sequence[str], buckets: Sequence[int]) -> DataFrame:
    """Return the keys that differ, of those in some buckets: `key` and `_GROUPED`."""
    sides = []
    for rows, in_a in zip(both, (True, False), strict=True):
        hashed = _hashed(rows, by)
        hashed = hashed if len(buckets) == _BUCKETS else hashed.where(f"{_BUCKET} IN ({', '.join(map(str, buckets))})")
        sides.append(hashed.select(F.lit(in_a).alias(_IN_A), _KEY, _ROW, _HASH))
    grouped = (
        sides[0]
        .unionAll(sides[1])
        .groupBy(_KEY)
        .agg(
            F.count_if(_IN_A).alias("times_a"),
            F.count_if(~F.col(_IN_A)).alias("times_b"),
            F.expr(f"any_value(if({_IN_A}, {_ROW}, NULL), true)").alias("row_a"),
            F.expr(f"any_value(if({_IN_A}, NULL, {_ROW}), true)").alias("row_b"),
            *(sums := row_sum("count(1)", f"if({_IN_A}, {_HASH}, NULL)", f"if({_IN_A}, NULL, {_HASH})")),
        )
    )
    high, low = grouped.columns[-len(sums) + 1 :]
    unequal = (F.col("times_a") != F.col("times_b")) | (F.col(high) != 0) | (F.col(low) != 0)
    return grouped.where(unequal).select(_KEY, *_GROUPED)


def _shown(columns: Mapping[str, _Both], by: Sequence[str]) -> list[Column]:
    """Return what is shown of a row, with all values as texts, those of the key's columns once."""

    def texts(struct: str, names: Sequence[str]) -> Column:
        values = (_text(F.col(struct)[name], columns[name].kind).alias(name) for name in names)
        there = F.struct(*values) if names else F.struct(F.lit(None).cast("string"))
        return F.when(F.col(struct).isNotNull(), there).alias(struct)

    others = [name for name in columns if name not in by]
    return [F.col("times_a"), F.col("times_b"), texts(_KEY, by), texts("row_a", others), texts("row_b", others)]


def _text(value: Column, kind: T.DataType) -> Column:
    return F.hex(value) if isinstance(kind, T.BinaryType) else value.cast("string")


def _row_difference(row: Row) -> RowDifference:
    a, b = (value.asDict() if value is not None else {} for value in (row["row_a"], row["row_b"]))
    in_both = row["times_a"] and row["times_b"]
    columns = {name: (value, b[name]) for name, value in a.items() if value != b[name]} if in_both else {}
    return RowDifference(row[_KEY].asDict(), row["times_a"], row["times_b"], columns)
