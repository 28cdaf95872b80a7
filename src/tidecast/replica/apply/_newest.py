"""Each key's newest change, or its versions: one aggregate for all tables that have a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import TableChanges
from tidecast.replica.apply._changes import at_the_door
from tidecast.replica.apply._history import moments
from tidecast.replica.apply._lookup import is_ranged
from tidecast.replica.apply._rows import count_unrepresentable, has_key, keep, key_type, topics_of_keys
from tidecast.replica.plan import Plan, ended
from tidecast.replica.settle import Slots, columns_in, newest, out_of_slots, sums_of_tallies, tallies
from tidecast.replica.state import AppliedKeys
from tidecast.replica.tables import COMMIT_TS, DELETED, Name
from tidecast.sources import columns_of, in_one_pass, then
from tidecast.spark import union
from tidecast.values import valid

_TABLE, _NULLS = "table", "nulls in the key"
_OF_CHANGES, _OF_VERSIONS = ("deleted", "time", "timed", "after_delete"), ("deleted", "at")


@dataclass(frozen=True)
class NewestChanges:
    """The newest changes of one table, and what came of it: see `Newest.changes` and `Newest.counts`."""

    changes: DataFrame
    counts: Mapping[str, Any]


@dataclass(frozen=True)
class _Table:
    """A table's number in `Newest.rows`, and the slots of its columns."""

    number: int
    key: Mapping[str, int]
    row: Mapping[str, int]


@dataclass(frozen=True)
class Newest:
    """The newest change of each key of some tables, see `newest`, or its state at each commit-ts, see `moments`.

    `rows` has those of all tables, whose keys and rows are in slots (see `Slots`), and `table`, the number of each.
    Changes that cannot be applied have no key: they make one group of each table, which is counted and left out.
    """

    rows: DataFrame
    tables: Mapping[Name, _Table]
    key: Slots

    @classmethod
    def of(cls, plans: Sequence[Plan], *, has_commit_ts: bool, only: DataFrame | None = None) -> Newest:
        """Return what plans bring to tables with a key; all have the same contents.

        `only` are the keys, `key`, of the one table to which changes are applied, None for all.
        """
        keys, shapes = Slots.of(_types(key_type(p)) for p in plans), [p.evolution.shape for p in plans]
        rows = Slots.of(shape.columns.values() for shape in shapes)
        tables, parts = dict[Name, _Table](), list[TableChanges]()
        for n, (one, shape) in enumerate(zip(plans, shapes, strict=True)):
            key, row = keys.places(_types(key_type(one))), rows.places(shape.columns.values())
            slots = _InSlots(n, keys, key, rows, row)
            doors = (at_the_door(c, one.evolution, one.doubtful, one.contents) for c in one.rows.accepted)
            parts += (slots.of(changes) for changes in doors)
            here = dict(zip(one.key, key, strict=True)), dict(zip(shape.columns, row, strict=True))
            tables[one.name] = _Table(n, *here)
        keeps = DELETED in plans[0].contents.columns
        also = (F.bool_or(_NULLS).alias(_NULLS), *tallies())
        changes, by = in_one_pass(parts), (_TABLE, "key")
        if plans[0].contents.is_history:
            found = moments(changes, by, also)
        else:
            found = newest(changes, by=by, has_commit_ts=has_commit_ts, also=also, with_last_row=keeps)
        found = found if only is None else _only(found, only, plans[0], keys)
        return cls(_with_deleted_rows(found) if keeps else found, tables, keys)

    def changes(self, plan: Plan) -> DataFrame:
        """Return what came to one table, in its types.

        Out: `key` and `after` (see `table_changes`), and of `newest` `deleted`, `time`, `timed`, `after_delete`, of
        `moments` `deleted` and `at`.
        """
        table = self.tables[plan.name]
        metadata = "CAST('metadata' AS STRING), after.metadata, " if plan.contents.metadata else ""
        row = out_of_slots("after.row", table.row)
        found = self.rows.where(F.col(_TABLE) == table.number).selectExpr(
            f"if(key IS NULL, NULL, {out_of_slots('key', table.key)}) AS key",
            f"if(after IS NULL, NULL, named_struct('row', {row}, {metadata}'lost', after.lost)) AS after",
            *(_OF_VERSIONS if plan.contents.is_history else _OF_CHANGES),
        )
        keeps = DELETED in plan.contents.columns
        return ended(plan.truncated, plan.contents, found, "time.commit_ts") if keeps else found

    def counts(self, plans: Sequence[Plan], applied: AppliedKeys | None) -> Mapping[Name, Mapping[str, Any]]:
        """Return what came of each table, whatever it does there; the plans are those of `of`, in their order."""
        ends = [(n, kind) for n, kind in enumerate(self.key.types) if is_ranged(kind)]
        longest = max(len(p.doubtful) for p in plans)
        counted = self.rows.groupBy(_TABLE).agg(
            F.count("key").alias("keys"),
            F.count_if(has_key() & F.col(_NULLS)).alias("keys with nulls"),
            *(F.min(f"key.s{n}").alias(f"least {n}") for n, _ in ends),
            *(F.max(f"key.s{n}").alias(f"greatest {n}") for n, _ in ends),
            F.count_if(has_key() & ~F.col("deleted")).alias("alive"),
            *([F.min("at").alias("since"), F.count("at").alias("moments")] if plans[0].contents.is_history else ()),
            F.count_if(has_key() & (F.col("first_place") != F.col("last_place"))).alias("scattered"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set(topics_of_keys())))).alias("topics"),
            *count_unrepresentable(longest),
            *sums_of_tallies(),
            *(applied.asked() if applied and not plans[0].contents.is_history else ()),
        )
        found = {row[_TABLE]: row.asDict() for row in counted.collect()}
        return {
            p.name: self._of_table(p, found.get(n, defaultdict(lambda: None, _NOTHING))) for n, p in enumerate(plans)
        }

    def _of_table(self, plan: Plan, counts: Mapping[str, Any]) -> Mapping[str, Any]:
        places = self.tables[plan.name].key
        ranged = [(n, places[f.name]) for n, f in enumerate(key_type(plan).fields) if is_ranged(f.dataType)]
        here = {f"{end} {n}": counts[f"{end} {slot}"] for n, slot in ranged for end in ("least", "greatest")}
        return defaultdict(lambda: None, {**counts, **here})


@contextmanager
def newest_changes(
    plans: Sequence[Plan], applied: AppliedKeys | None, *, has_commit_ts: bool, only: DataFrame | None = None
) -> Iterator[Mapping[Name, NewestChanges]]:
    """Give what plans bring to each table, whose rows have keys; meanwhile Spark keeps it. `only`: see `Newest.of`."""
    if not plans:
        yield {}
        return
    with ExitStack() as kept:
        found = Newest.of(plans, has_commit_ts=has_commit_ts, only=only)
        found = replace(found, rows=keep(found.rows, kept))
        counts = found.counts(plans, applied)
        yield {p.name: NewestChanges(found.changes(p), counts[p.name]) for p in plans}


_NOTHING = {"keys": 0, "keys with nulls": 0, "alive": 0, "moments": 0, "scattered": 0, "topics": []}


def _types(key: T.StructType) -> list[T.DataType]:
    return [f.dataType for f in key.fields]


@dataclass(frozen=True)
class _InSlots:
    """A table's number, and where the columns of its keys and rows are in the slots."""

    number: int
    keys: Slots
    key: Sequence[int]
    rows: Slots
    row: Sequence[int]

    def of(self, changes: TableChanges) -> TableChanges:
        """Return changes in the slots."""
        given = {f.name: f for f in columns_of(changes).fields}
        after = given["after"].dataType
        assert isinstance(after, T.StructType)
        of_after = [T.StructField(f.name, self.rows.struct) if f.name == "row" else f for f in after.fields]
        slots = {
            "key": T.StructField("key", self.keys.struct),
            "after": T.StructField("after", T.StructType(of_after)),
            _TABLE: T.StructField(_TABLE, T.IntegerType()),
            _NULLS: T.StructField(_NULLS, T.BooleanType()),
        }
        return then(changes, partial(_slotted, self), T.StructType([*(given | slots).values()]))


def _slotted(slots: _InSlots, rows: pa.RecordBatch) -> pa.RecordBatch:
    key, after = rows.column("key"), rows.column("after")
    lacking = reduce(or_, (~valid(part) for part in columns_in(key).values()), np.zeros(len(key), bool))
    parts = {f.name: after.field(n) for n, f in enumerate(after.type)}
    parts["row"] = slots.rows.filled(parts["row"], slots.row)
    made = {
        "key": slots.keys.filled(key, slots.key),
        "after": pa.StructArray.from_arrays([*parts.values()], names=[*parts], mask=pa.array(~valid(after))),
        _TABLE: pa.array(np.full(len(key), slots.number, np.int32)),
        _NULLS: pa.array(lacking & valid(key)),
    }
    return pa.RecordBatch.from_pydict({name: rows.column(name) for name in rows.schema.names} | made)


def _only(found: DataFrame, only: DataFrame, plan: Plan, keys: Slots) -> DataFrame:
    """Return changes of these keys alone, and those without a key, which are counted."""
    places = dict(zip(plan.key, keys.places(_types(key_type(plan))), strict=True))
    parts = (F.col("key")[name].alias(f"s{n}") for name, n in sorted(places.items(), key=lambda pair: pair[1]))
    nothing = only.sparkSession.range(1).select(F.lit(None).cast(keys.struct).alias("asked"))
    asked = union([only.select(F.struct(*parts).alias("asked")), nothing])
    return found.join(asked, F.col("key").eqNullSafe(F.col("asked")), "left_semi")


def _with_deleted_rows(changes: DataFrame) -> DataFrame:
    """Let a delete whose row came in the same batch put that row, marked as deleted, into the table."""
    row, marked = F.col("last_row"), F.col("deleted") & F.col("last_row").isNotNull()
    commit_ts = F.when(F.col("timed"), F.col("time.commit_ts"))
    row = row.withField(f"metadata.{DELETED}", F.lit(True)).withField(f"metadata.{COMMIT_TS}", commit_ts)
    after = F.when(marked, row).otherwise(F.col("after"))
    return changes.withColumns({"after": after, "deleted": F.col("deleted") & ~marked}).drop("last_row")
