"""Shapes of Spark plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, reduce
from operator import and_
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

_AT_ONCE = 4
_THERE = "_tidecast there"

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def parallel_map(make: Callable[[_Item], _Made], items: Iterable[_Item]) -> list[_Made]:
    """Return what `make` gives for each item, in their order; several are made at a time.

    To plan a table's rows takes Spark's driver tenths of a second on one core.
    """
    # Each item has local properties of its own: in them Spark keeps the execution that is running.
    calls = [partial(inheriting(make), item) for item in items]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda call: call(), calls))


def inheriting(make: Callable[[_Item], _Made]) -> Callable[[_Item], _Made]:
    """Return a function for other threads, in which the caller's job group, tags and scheduler pool hold."""
    made: Callable[[_Item], _Made] = inheritable_thread_target(SparkSession.active())(make)
    return made


@contextmanager
def persisted(*frames: DataFrame) -> Iterator[None]:
    """Let Spark keep those of some frames that it does not keep already, so that their rows are made once."""
    kept = [frame.persist() for frame in frames if not frame.is_cached]
    try:
        yield
    finally:
        for frame in kept:
            frame.unpersist()


def evaluated_once(column: Column) -> Column:
    """Return a column whose expression Spark evaluates once a row, however often later steps speak of it.

    Spark otherwise copies an expression into the filters and projections that read it. It leaves alone what might say
    something else the next time, as the task's number might for all that it knows. A generator would stop it as well,
    but copies each row. It is 1.8 times as fast where two steps read a JSON text. It can go when Spark leaves such
    expressions where they are.
    """
    return F.when(F.spark_partition_id() >= 0, column)


def untraced(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """Return columns, made of those of a frame, that Spark does not follow back beyond them.

    Where a frame is joined, Spark looks for the scan from which each key comes, even if nothing can be left out there.
    It puts all expressions on the way into one: gigabytes, for a row of 60 columns that shows two sides. It stops at a
    column that reads another beside a generated one. That copies a row only where Spark generates no code. It can go
    when Spark looks first whether there are partitions to leave out.
    """
    there = F.explode(F.array(F.lit(True)))
    frame = frame.withColumn(_THERE, there)
    return frame.select(*(F.when(F.col(_THERE), column).alias(name) for name, column in columns.items()))


def union(frames: Sequence[DataFrame], tasks: int | None = None) -> DataFrame:
    """Return all rows of some frames that have the same columns in the same order.

    As one statement, since Spark checks a whole plan anew with each step: a chain of many unions takes the square of
    their number. And in as many tasks as a shuffle would have, since every task is sent the plans of all frames, or in
    as many as asked for.
    """
    if len(frames) == 1:
        return frames[0]
    named: dict[str, Any] = {f"part{n}": frame for n, frame in enumerate(frames)}
    statement = " UNION ALL ".join(f"SELECT * FROM {{{name}}}" for name in named)
    spark = frames[0].sparkSession
    tasks = tasks or int(spark.conf.get("spark.sql.shuffle.partitions") or len(frames))
    return spark.sql(statement, **named).coalesce(tasks)


def small_table(spark: SparkSession, rows: Sequence[tuple[object, ...]], kinds: Mapping[str, pa.DataType]) -> DataFrame:
    """Return a few rows as a frame. Through Arrow, as Spark starts Python workers to read a list."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in kinds)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds.values(), strict=True)]
    table = pa.Table.from_arrays(arrays, names=list(kinds))
    return spark.createDataFrame(table, from_arrow_schema(table.schema))  # Spark Connect infers none of an empty table


def number_at(numbers: Mapping[str, int], name: Column) -> Column:
    """Return the number under a name, null where there is none."""
    return F.try_element_at(F.from_json(F.lit(json.dumps(numbers)), "map<string,bigint>"), name)


def with_looked_up(
    frame: DataFrame, keys: Mapping[str, Column], rows: Sequence[tuple[object, ...]], kinds: Mapping[str, pa.DataType]
) -> DataFrame:
    """Return a frame with the columns of a few rows beside its own, null where none of them has its keys.

    `kinds` are the columns of the rows, of which `keys` names those that are compared, and with what; null equals null.
    A column that the frame has itself keeps its values, and gets those of the rows where it is null.
    A join, as a condition for each row would nest deeper than Java's stack where there are thousands.
    """
    known = small_table(frame.sparkSession, rows, {f"known_{name}": kind for name, kind in kinds.items()})
    same = reduce(and_, (column.eqNullSafe(F.col(f"known_{name}")) for name, column in keys.items()))
    joined = frame.join(F.broadcast(known), same, "left")
    found, names = {name: F.col(f"known_{name}") for name in kinds if name not in keys}, frame.columns
    own = (F.coalesce(name, found[name]).alias(name) if name in found else F.col(name) for name in names)
    return joined.select(*own, *(column.alias(name) for name, column in found.items() if name not in names))
