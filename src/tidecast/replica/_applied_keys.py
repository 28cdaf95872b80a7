"""What a replica remembers of the keys that it has applied, so that what comes again sets none of them back.

TiCDC sends again what follows its checkpoint. Where the end of a batch cuts such a repetition, its newest change of a
key is older than the one in the table, or than the one that deleted the row. So each batch leaves a folder of Parquet
with its keys and their commit-ts. The folder's name tells the newest, so that a batch of newer changes, as nearly all
are, reads none of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._tso import compose, physical_ms
from tidecast.spark import number_at
from tidecast.storage import AnyPath, entries, remove_tree, spark_input, spark_output

_NAME = re.compile(r"(\d{12})-(\d{20})-(\d)")
SAME_ROW = T.StructType(
    [
        T.StructField("topic", T.StringType()),
        T.StructField("commit_ts", T.LongType()),
        T.StructField("hash_0", T.LongType()),
        T.StructField("hash_1", T.LongType()),
    ]
)
"""The key of a row of a table without one: equal rows of one commit-ts are the same one, sent again."""

_MERGED_AT = 16
"""So many folders of one size become one of the next."""

_TIME = T.StructType([T.StructField("commit_ts", T.LongType()), T.StructField("later", T.BooleanType())])


@dataclass(frozen=True)
class AppliedKeys:
    """The keys that the batches of one checkpoint have applied, in a folder of it.

    `batch` is the number of the batch that is being applied. Rows up to `watermarks`, by `topic/partition`, or under an
    empty name by all, are not remembered: their repetitions are left out before. A key is remembered for `window`
    milliseconds of commit-ts.
    """

    folder: AnyPath
    batch: int
    window: int
    watermarks: Mapping[str, int] = field(default_factory=dict)

    def of(self, database: str, table: str, key: T.StructType) -> TableKeys:
        """Return those of a table whose key has these types; with other types it begins anew."""
        name = json.dumps([database, table, [f.dataType.simpleString() for f in key.fields]])
        return TableKeys(self, self.folder / hashlib.blake2b(name.encode(), digest_size=16).hexdigest(), key)


@dataclass(frozen=True)
class _Written:
    """A folder of keys: the last of its batches, the newest commit-ts in it, and how often it was merged."""

    path: AnyPath
    batch: int
    newest: int
    level: int


@dataclass(frozen=True)
class TableKeys:
    """The keys of one table."""

    of: AppliedKeys
    folder: AnyPath
    key: T.StructType

    def asked(self) -> list[Column]:
        """Return the aggregates over changes, as in `add`, that `mark_repeated` and `add` are told."""
        commit_ts, timed = F.col("time.commit_ts"), F.col("timed")
        return [
            F.min(F.when(timed, commit_ts)).alias("since"),
            F.max(commit_ts).alias("until"),
            F.count_if(self._uncovered()).alias("remembered"),
        ]

    def mark_repeated(self, changes: DataFrame, asked: Row) -> DataFrame | None:
        """Add `repeated` to changes, whether the key was already brought to a later one; None where no key was."""
        since = asked["since"]
        needed = [w for w in self._written() if since is not None and w.newest >= since]
        if not needed:
            return None
        known = _by_key(self._read(changes.sparkSession, needed))
        same = (F.col("known")[f"k{n}"].eqNullSafe(F.col("key")[f.name]) for n, f in enumerate(self.key.fields))
        repeated = F.coalesce(F.col("timed") & (F.col("time") < F.col("applied")), F.lit(False))
        return changes.join(known, reduce(and_, same), "left").select(*changes.columns, repeated.alias("repeated"))

    def add(self, changes: DataFrame, asked: Row) -> None:
        """Remember the keys of a batch.

        In: `key`, `time`, `first_place`, `last_place` (see `newest`).
        """
        if not asked["remembered"]:
            return
        known = F.struct(*(F.col("key")[f.name].alias(f"k{n}") for n, f in enumerate(self.key.fields)))
        rows = changes.where(self._uncovered()).select(known.alias("known"), F.col("time").alias("applied"))
        self._write(rows, self.of.batch, max(asked["until"], 0), 0)
        self._tidy(changes.sparkSession, asked["until"])

    def _uncovered(self) -> Column:
        """Return whether a change is to be remembered, as its repetition is not left out before it comes here."""
        has_key = F.col("key").isNotNull() & F.col("time.commit_ts").isNotNull()
        if not self.of.watermarks:
            return has_key
        place = F.lit("") if "" in self.of.watermarks else F.concat_ws("/", "last_place.topic", "last_place.partition")
        covered = F.col("time.commit_ts") <= number_at(self.of.watermarks, place)
        return has_key & ~F.coalesce(covered & (F.col("first_place") == F.col("last_place")), F.lit(False))

    def _written(self) -> list[_Written]:
        found = ((file.path, _NAME.fullmatch(file.name)) for file in entries(self.folder))
        return [_Written(path, *map(int, name.groups())) for path, name in found if name]

    def _read(self, spark: SparkSession, written: Iterable[_Written]) -> DataFrame:
        fields = [T.StructField(f"k{n}", f.dataType) for n, f in enumerate(self.key.fields)]
        rows = T.StructType([T.StructField("known", T.StructType(fields)), T.StructField("applied", _TIME)])
        return spark.read.schema(rows).parquet(*(spark_input(w.path) for w in written))

    def _write(self, rows: DataFrame, batch: int, newest: int, level: int) -> None:
        rows.write.mode("overwrite").parquet(spark_output(self.folder / f"{batch:012}-{newest:020}-{level}"))

    def _tidy(self, spark: SparkSession, newest: int) -> None:
        """Forget what is older than the window, and make few folders of many."""
        oldest = compose(max(physical_ms(newest) - self.of.window, 0))
        by_level: dict[int, list[_Written]] = {}
        for written in self._written():
            if written.newest < oldest:
                remove_tree(written.path, ignore_errors=True)
            else:
                by_level.setdefault(written.level, []).append(written)
        for level, some in by_level.items():
            if len(some) >= _MERGED_AT:
                self._write(
                    _by_key(self._read(spark, some)),
                    max(w.batch for w in some),
                    max(w.newest for w in some),
                    min(level + 1, 9),
                )
                for written in some:
                    remove_tree(written.path, ignore_errors=True)


def with_row_key(rows: DataFrame) -> DataFrame:
    """Add to rows of a table without a key what tells that one is another of the same commit-ts sent again.

    In: `row` struct, `topic`, `partition`, `commit_ts`. Out: besides these what `TableKeys` reads: `key`, a struct of
    `SAME_ROW`, null without a commit-ts, and `time`, `timed`, `first_place`, `last_place`.
    """
    place = F.struct("topic", "partition")
    commit_ts = F.col("commit_ts")
    halves = (F.xxhash64(F.lit(n), "row").alias(f"hash_{n}") for n in range(2))
    return rows.withColumns(
        {
            "key": F.when(commit_ts.isNotNull(), F.struct("topic", "commit_ts", *halves)),
            "time": F.struct("commit_ts", F.lit(False).alias("later")),
            "timed": commit_ts.isNotNull(),
            "first_place": place,
            "last_place": place,
        }
    )


def as_sent_again(rows: DataFrame) -> DataFrame:
    """Return the rows of `with_row_key` as `add` takes them: with a `time` that is later than their own."""
    return rows.withColumn("time", F.struct("commit_ts", F.lit(True).alias("later")))


def _by_key(rows: DataFrame) -> DataFrame:
    return rows.groupBy("known").agg(F.max("applied").alias("applied"))
