"""Records into the folders of topics: whole files that appear at once, or not at all.

A file is called `part-<batch>-<number>-<partition>-<end>`: of the partition that it belongs to it holds offsets below
`end`, so that the next batch need not read it to find out where to go on.

A batch is written aside first, and counted. Then its files come into their folders one after the other, each whole: by
a new name, or as a copy on a store of objects, which has no other way. Those of a partition come in order of their
offsets. So who lists a folder meanwhile, or after a crash, finds all of a partition up to one of the batch's files: the
rest comes later, or after a crash the batch once more at higher offsets, and never later records before earlier ones.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from tidecast.model import HEADERS
from tidecast.spark import reused, small_table
from tidecast.storage import (
    AnyPath,
    entries,
    make_folder,
    move,
    remove_tree,
    replace_file,
    spark_output,
    sync_folder,
)
from tidecast.topics._base import Counts
from tidecast.topics._written import check_written, count_lines, count_rows

STAGING, TOPIC_ID = ".staging-", ".topic-id"

_NAME = re.compile(r"part-[0-9a-f]{12}-\d{5}-(\d+)-(\d+)\.(?:parquet|jsonl\.gz)")

_RANGE_ROWS = 50_000
"""How many records of a partition one task writes, so that all cores have work; more where there are many."""

_MOST_RANGES = 32
_FEW_RANGES = 16

Partition = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True)
class _Range:
    """A part of the new records of a partition, which one task puts in order and writes as one file."""

    topic: str
    partition: int
    number: int
    rows: int
    start: int


def known_ends(files: Iterable[AnyPath]) -> dict[int, int] | None:
    """Return by partition the next offset after some files, by their names; None where one does not tell."""
    ends: dict[int, int] = {}
    for file in files:
        match = _NAME.fullmatch(file.name)
        if match is None:
            return None
        partition, end = map(int, match.groups())
        ends[partition] = max(end, ends.get(partition, 0))
    return ends


def write_files(
    frame: DataFrame,
    base: AnyPath,
    ends_of: Callable[[str], Mapping[int, int]],
    complete: Callable[[DataFrame], DataFrame] | None = None,
    counts: Counts | None = None,
    *,
    lines: bool = False,
) -> None:
    """Append records to the folders of their topics below `base`: as JSON Lines, or Parquet.

    In: see `Topics.write`. `ends_of` gives the next offset of each partition of a topic. Records that are many, or of
    unknown number, are looked at beforehand, to be counted: keep them if they are dear.
    """
    if counts is None or max(counts.values(), default=0) > _RANGE_ROWS:
        found, placed = counted(frame)
    else:
        found = Counter({(*place, 0): rows for place, rows in counts.items()})
        placed = frame.withColumn("range", F.lit(0))
    starts = {topic: dict(ends_of(topic)) for topic in sorted({topic for topic, _, _ in found})}
    new = {topic for topic, ends in starts.items() if not ends}
    ranges: list[_Range] = []
    for (topic, partition, number), rows in sorted(found.items()):
        start = starts[topic].get(partition, 0)
        ranges.append(_Range(topic, partition, number, rows, start))
        starts[topic][partition] = start + rows
    staging = base / f"{STAGING}{uuid.uuid4().hex}"
    try:
        _write(placed, ranges, staging, complete, lines=lines)
        _adopt(staging, base, ranges, new, lines=lines)
    finally:
        remove_tree(staging, ignore_errors=True)


def counted(frame: DataFrame) -> tuple[Counter[tuple[str, int, int]], DataFrame]:
    """Return the number of records by topic, partition and range, and the records with the column `range`."""
    kind = frame.schema["sequence"].dataType
    at = f"sequence.{kind.fieldNames()[0]}" if isinstance(kind, T.StructType) else "sequence"
    rows = frame.groupBy("topic", "partition").agg(*_sizes(at)).collect()
    bounds = [
        (row["topic"], row["partition"], _bounds(row["quantiles"], row["rows"]))
        for row in rows
        if row["rows"] > _RANGE_ROWS and row["quantiles"]
    ]
    if not bounds:
        counts = Counter({(row["topic"], row["partition"], 0): row["rows"] for row in rows})
        return counts, frame.withColumn("range", F.lit(0))
    kinds = {"topic": pa.string(), "partition": pa.int32(), "bounds": pa.list_(pa.int64())}
    known = F.broadcast(small_table(frame.sparkSession, bounds, kinds))
    number = _range_number(at, max(len(one) for _, _, one in bounds))
    placed = frame.join(known, ["topic", "partition"], "left").withColumn("range", number).drop("bounds")
    counts = Counter()
    for row in placed.groupBy("topic", "partition", "range").count().collect():
        counts[row["topic"], row["partition"], row["range"]] = row["count"]
    return counts, placed


@reused()
def _sizes(at: str) -> tuple[Column, ...]:
    """Return the number of records, and the quantiles of a column that orders them."""
    fractions = [n / _MOST_RANGES for n in range(1, _MOST_RANGES)]
    return F.count("*").alias("rows"), F.percentile_approx(at, fractions).alias("quantiles")


@reused()
def _range_number(at: str, most: int) -> Column:
    """Return how many of a record's `bounds`, of which there are `most`, come before it."""
    # A sum of comparisons: Spark runs a function over the array more slowly, and compiles no code around it.
    passed = (F.when(F.get("bounds", F.lit(n)) < F.col(at), 1).otherwise(0) for n in range(most))
    return reduce(add, passed)


def _bounds(quantiles: list[int], rows: int) -> list[int]:
    """Return where to cut so many records of a partition, by the quantiles of what orders them."""
    ranges = min(-(-rows // _RANGE_ROWS), _MOST_RANGES)
    return sorted({quantiles[n * _MOST_RANGES // ranges - 1] for n in range(1, ranges)})


def _write(
    placed: DataFrame,
    ranges: list[_Range],
    staging: AnyPath,
    complete: Callable[[DataFrame], DataFrame] | None,
    *,
    lines: bool,
) -> None:
    number, columns = _record_columns()
    numbered = _with_start(placed.withColumn("n", number), ranges)
    records = (complete(numbered) if complete else numbered).select(*columns)
    if lines:
        by_file = ("of_topic", "of_partition", "of_range")
        text = records.select(*by_file, F.to_json(_line(), {"ignoreNullFields": "false"}).alias("line"))
        text.write.partitionBy(*by_file).option("compression", "gzip").text(spark_output(staging))
    else:
        records.write.partitionBy("of_topic", "of_partition", "of_range").parquet(spark_output(staging))


def _with_start(placed: DataFrame, ranges: list[_Range]) -> DataFrame:
    """Return records with `start`, the offset at which their range starts, and `now`, the same for all.

    The time is looked up, too: one in an expression would have Spark compile it anew for every batch.
    """
    now = time.time_ns() // 1000
    if len(ranges) <= _FEW_RANGES:  # to look one up costs little, and no job, as a table to be joined does
        starts = json.dumps({f"{r.topic}/{r.partition}/{r.number}": {"start": r.start, "now": now} for r in ranges})
        known = F.from_json(F.lit(starts), "map<string,struct<start:bigint,now:bigint>>")
        mine = F.try_element_at(known, F.concat_ws("/", "topic", "partition", "range"))
        return placed.withColumns({name: mine[name] for name in ("start", "now")})
    kinds = {"topic": pa.string(), "partition": pa.int32(), "range": pa.int32(), "start": pa.int64(), "now": pa.int64()}
    rows = [(r.topic, r.partition, r.number, r.start, now) for r in ranges]
    return placed.join(F.broadcast(small_table(placed.sparkSession, rows, kinds)), ["topic", "partition", "range"])


@reused()
def _record_columns() -> tuple[Column, tuple[Column, ...]]:
    """Return the number of a record in its range, and the columns of the files, after those that name the file."""
    # Spark keeps the order that the window needs, so that nothing is sorted again for the files.
    line = Window.partitionBy("topic", "partition", "range").orderBy("sequence")
    return F.row_number().over(line) - 1, (
        F.col("topic").alias("of_topic"),
        F.col("partition").alias("of_partition"),
        F.col("range").alias("of_range"),
        F.col("topic"),
        F.col("partition").cast("int").alias("partition"),
        (F.col("start") + F.col("n")).alias("offset"),
        F.timestamp_micros("now").alias("timestamp"),
        F.col("key"),
        F.col("value"),
        F.array().cast(HEADERS).alias("headers"),
    )


def _line() -> Column:
    time = F.unix_millis("timestamp").alias("timestamp")
    return F.struct("topic", "partition", "offset", time, "key", "value", "headers")


def _adopt(staging: AnyPath, base: AnyPath, ranges: list[_Range], new: Collection[str], *, lines: bool) -> None:
    """Put the files that were written, if all is in them, where readers look for them."""
    suffix, count = (".jsonl.gz", count_lines) if lines else (".parquet", count_rows)
    batch = staging.name.removeprefix(STAGING)[:12]
    parts: dict[str, list[tuple[_Range, list[AnyPath]]]] = defaultdict(list)
    for one in ranges:
        folder = staging / f"of_topic={one.topic}" / f"of_partition={one.partition}" / f"of_range={one.number}"
        files = [one.path for one in entries(folder) if one.name.startswith("part-")]
        check_written(one.rows, sum(map(count, files)), base)
        parts[one.topic].append((one, files))
    for topic, written in parts.items():
        target = base / topic
        make_folder(target)
        if topic in new:  # offsets begin at 0, which must not be taken for those of an earlier topic
            replace_file(target / TOPIC_ID, batch.encode())
        named = ((one, part) for one, files in written for part in files)
        for number, (one, part) in enumerate(named):
            end = one.start + one.rows
            move(part, target / f"part-{batch}-{number:05}-{one.partition}-{end}{suffix}")
        sync_folder(target)
