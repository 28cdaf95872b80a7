"""The rows of a plan, as columns of its table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.replica.plan import Plan, is_late
from tidecast.replica.state import (
    Counts,
    Proof,
    RowSum,
)
from tidecast.spark import sql_column

HASHES = ("hash after", "hash before", "hash marked", "hash marked untimed")
"""Of a row that a change puts into the table, of the one there, and of that one marked as deleted."""


def key_type(plan: Plan) -> T.StructType:
    return T.StructType([T.StructField(name, plan.evolution.shape.columns[name]) for name in plan.key])


def writing(proof: Proof | None, done: Counts, *, creates: bool = False) -> AbstractContextManager[None]:
    """Return what knows that rows are being written which come to the aggregates of `row_sum`."""
    return proof.writing(RowSum.of(done), creates=creates) if proof else nullcontext()


def comes_late(plan: Plan, commit_ts: str) -> Column:
    return is_late(plan.truncated, plan.contents, commit_ts)


def counted_once(frame: DataFrame, counts: Sequence[Column], kept: ExitStack) -> tuple[DataFrame, Row]:
    """Let Spark keep a frame, and return it with its aggregates."""
    frame = keep(frame, kept)
    (done,) = frame.agg(*counts).collect()
    return frame, done


def keep(frame: DataFrame, until: ExitStack) -> DataFrame:
    """Let Spark keep a frame until then."""
    until.callback(frame.persist().unpersist)
    return frame


def values_of(plan: Plan, after: Column) -> dict[str, Column]:
    """Return the value of each of the table's columns in an `after` (see `table_changes`)."""
    return {name: after[part][name] for part, name in parts_of(plan)}


def sql_values_of(plan: Plan) -> dict[str, str]:
    """Return the same of the column `after`, as SQL."""
    return {name: sql_column("after", part, name) for part, name in parts_of(plan)}


def parts_of(plan: Plan) -> list[tuple[str, str]]:
    parts = {"row": plan.evolution.shape.columns, "metadata": plan.contents.columns}
    return [(part, name) for part, names in parts.items() for name in names]


def stored_columns(plan: Plan) -> list[Column]:
    return [value.alias(name) for name, value in values_of(plan, F.col("after")).items()]


def has_key() -> Column:
    return F.col("key").isNotNull()


def topics_of_keys() -> Column:
    return F.when(has_key(), F.array("first_place.topic", "last_place.topic"))


def count_unrepresentable(columns: int) -> list[Column]:
    """Return a count for each of the columns that `after.lost` speaks of: of the values which the table cannot hold."""
    return [F.count_if(F.get("after.lost", n)).alias(f"unrepresentable {n}") for n in range(columns)]
