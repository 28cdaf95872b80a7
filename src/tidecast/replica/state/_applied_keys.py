"""The applied commit-ts of keys, so that a repeated change sets no key back.

TiCDC sends again what follows its checkpoint. Where the end of a batch cuts such a repetition, its newest change of a
key is older than the one in the table, or than the one that deleted the row. So each batch leaves a folder of Parquet
with its keys and their commit-ts. The folder's name tells the newest, so that a batch of newer changes, as nearly all
are, reads none of them.

The columns of a key are stored by their places, as a table keeps their order whatever they are called later. Before a
table has its first row nothing fixes the order, and versions may have several: these keys are stored by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._tso import compose, physical_ms
from tidecast.replica.state._again import Again
from tidecast.spark import union
from tidecast.storage import (
    AnyPath,
    entries,
    entry,
    files_below,
    make_folder,
    move,
    remove_tree,
    spark_input,
    spark_inputs,
    spark_output,
    touch,
)

_NAME = re.compile(r"(\d{12})-(\d{20})-(\d)-([0-9a-f]{8})(-[0-9a-f]{8})?")
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

_LAST_LEVEL = 9
_RENAMED = "_renamed"
_KINDS: Sequence[Sequence[str]] = ((), ("deletes",))

_TIME = T.StructType([T.StructField("commit_ts", T.LongType()), T.StructField("later", T.BooleanType())])


Counts = Row | Mapping[str, Any]
"""What aggregates came to, by their names."""


@dataclass(frozen=True)
class AppliedKeys:
    """The keys that the batches of one checkpoint have applied, in a folder of it.

    `batch` is the number of the batch that is being applied. Rows up to `covered`, the lowest watermark of all
    partitions, need not be remembered: what comes of them later is left out before it gets here. A key is remembered
    for `window` milliseconds of commit-ts. `resolved` is the resolved-ts above which nothing is applied, where rows
    wait for theirs; then a partition's rows are not applied in their order. `passed` is what was `covered` before this
    batch: of what lies below nothing is remembered. `again` are the dead letters that are applied once more, where the
    batch is one of those.
    """

    folder: AnyPath
    batch: int
    window: int
    covered: int = -1
    resolved: int | None = None
    passed: int = -1
    again: Again | None = None

    def asked(self) -> list[Column]:
        """Return the aggregates over changes, as in `TableKeys.add`, that `mark_repeated` and `add` need."""
        commit_ts, timed = F.col("time.commit_ts"), F.col("timed")
        return [
            F.min(F.when(timed & F.col("key").isNotNull(), commit_ts)).alias("since"),
            F.max(F.when(self.uncovered(), commit_ts)).alias("until"),
        ]

    def uncovered(self) -> Column:
        """Return whether a change is to be remembered, as its repetition is not left out before it comes here."""
        return F.col("key").isNotNull() & (F.col("time.commit_ts") > F.lit(self.covered))

    def of(self, database: str, table: str, key: T.StructType) -> TableKeys:
        """Return those of a table whose key has these types now."""
        return TableKeys(self, self.folder / _digest([database, table], 16), key)

    def move(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Let a table that has a new name keep its keys."""
        for kind in _KINDS:
            source, target = (self._folder(name, kind) for name in (old, new))
            for name in files_below(source):
                there = target / name
                make_folder(there.parent)
                move(source / name, there)
            remove_tree(source, ignore_errors=True)

    @property
    def renamed(self) -> bool:
        """Tell whether these batches have renamed a table, so that rows may come under an older name of it."""
        return entry(self.folder / _RENAMED) is not None

    @property
    def tells_renames(self) -> bool:
        """Tell whether the journal may have renames: these batches have met one, or are not the only ones."""
        return self.batch <= 1 or self.again is not None or self.renamed

    def tell_renamed(self) -> None:
        """Remember that a table is renamed."""
        make_folder(self.folder)
        touch(self.folder / _RENAMED)

    def forget(self, database: str, table: str) -> None:
        """Forget the keys of a table that goes."""
        for kind in _KINDS:
            remove_tree(self._folder((database, table), kind), ignore_errors=True)

    def any_of(self, database: str, table: str) -> bool:
        """Tell whether keys of a table are remembered, of deletes before it was made, too."""
        return any(files_below(self._folder((database, table), kind)) for kind in _KINDS)

    def _folder(self, name: tuple[str, str], kind: Sequence[str]) -> AnyPath:
        return self.folder / _digest([*name, *kind], 16)

    def deletes_of(self, database: str, table: str, key: T.StructType) -> TableKeys:
        """Return the keys of deletes that came before a table was made; all of them, covered or not."""
        return TableKeys(replace(self, covered=-1), self.folder / _digest([database, table, "deletes"], 16), key)


@dataclass(frozen=True)
class _Written:
    """A folder of keys: the last of its batches, the newest commit-ts in it, and how often it was merged.

    `types` are those of the columns; `named` tells whether they are stored by name.
    """

    path: AnyPath
    batch: int
    newest: int
    level: int
    types: str
    named: bool


@dataclass(frozen=True)
class TableKeys:
    """The keys of one table."""

    of: AppliedKeys
    folder: AnyPath
    key: T.StructType

    def forget(self) -> None:
        """Forget all keys."""
        remove_tree(self.folder, ignore_errors=True)

    def mark_repeated(self, changes: DataFrame, asked: Counts) -> DataFrame | None:
        """Add `repeated` to changes, whether the key was already brought to a later one; None where no key was."""
        since = asked["since"]
        needed = [w for w in self._written() if since is not None and w.newest >= since]
        if not needed:
            return None
        known = _by_key(self._read(changes.sparkSession, needed))
        same = (F.col("known")[f"k{n}"].eqNullSafe(F.col("key")[f.name]) for n, f in enumerate(self.key.fields))
        repeated = F.coalesce(F.col("timed") & (F.col("time") < F.col("applied")), F.lit(False))
        return changes.join(known, reduce(and_, same), "left").select(*changes.columns, repeated.alias("repeated"))

    def add(self, changes: DataFrame, asked: Counts, *, named: bool = False) -> None:
        """Remember the keys of a batch.

        In: `key`, `time` (see `newest`). `named`: the table has no row yet, so that its key may get another order.
        """
        if asked["until"] is None:
            return
        names = self._names if named else [f"k{n}" for n in range(len(self.key.fields))]
        known = F.struct(*(F.col("key")[f.name].alias(name) for name, f in zip(names, self.key.fields, strict=True)))
        rows = changes.where(self.of.uncovered()).select(known.alias("known"), F.col("time").alias("applied"))
        self._write(rows, self.of.batch, max(asked["until"], 0), 0, _digest(names, 4) if named else "")

    def times(self, spark: SparkSession) -> DataFrame:
        """Return each time that a key was remembered with: `key`, `commit_ts`."""
        rows = self._read(spark, self._written())
        names = (F.col("known")[f"k{n}"].alias(f.name) for n, f in enumerate(self.key.fields))
        return rows.select(F.struct(*names).alias("key"), "applied.commit_ts").distinct()

    @property
    def newest(self) -> int:
        """The newest commit-ts that a key was brought to, as far as it has to be remembered; -1 for none."""
        return max((w.newest for w in self._written()), default=-1)

    def remembers_since(self, commit_ts: int) -> bool:
        """Tell whether all keys that were brought to something later are still known.

        A watermark may come before the statement of its own commit-ts, and covers no row of after it.
        """
        return commit_ts >= self.of.passed and commit_ts >= compose(
            max(physical_ms(max(self.newest, 0)) - self.of.window, 0)
        )

    def since(self, spark: SparkSession, commit_ts: int) -> DataFrame:
        """Return the keys that were brought to a commit-ts or a later one: `key`."""
        return self.times(spark).where(F.col("commit_ts") >= F.lit(commit_ts)).select("key").distinct()

    def _written(self) -> list[_Written]:
        found = ((file.path, _NAME.fullmatch(file.name)) for file in entries(self.folder))
        return [
            _Written(path, int(name[1]), int(name[2]), int(name[3]), name[4], named=name[5] is not None)
            for path, name in found
            if name
        ]

    @property
    def _names(self) -> list[str]:
        """The columns' names where keys are stored by name. Files cannot have all names that columns have."""
        return [f"n{_digest([f.name.lower()], 8)}" for f in self.key.fields]

    @property
    def _types(self) -> str:
        return _digest([f.dataType.simpleString() for f in self.key.fields], 4)

    def _read(self, spark: SparkSession, written: Iterable[_Written]) -> DataFrame:
        fields = [T.StructField(f"k{n}", f.dataType) for n, f in enumerate(self.key.fields)]
        rows = T.StructType([T.StructField("known", T.StructType(fields)), T.StructField("applied", _TIME)])
        alike, others = list[_Written](), list[_Written]()
        for one in written:
            (alike if one.types == self._types and not one.named else others).append(one)
        of_these = spark_inputs([one.path for one in alike])
        frames = [spark.read.schema(rows).parquet(*of_these)] if of_these else []
        for one in others:
            try:
                frame = spark.read.parquet(spark_input(one.path))
                known = frame.schema["known"].dataType
            except AnalysisException:
                continue  # a run ended before it wrote there
            if isinstance(known, T.StructType) and len(known.fields) == len(fields):  # else the key was another one
                names = _by_name(known.names, self._names) if one.named else known.names
                columns = (_as(f, known[name]) for f, name in zip(fields, names, strict=True))
                frames.append(frame.select(F.struct(*columns).alias("known"), "applied"))
        nothing = spark.range(0).select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in rows.fields))
        return union([*frames, nothing])

    def _write(self, rows: DataFrame, batch: int, newest: int, level: int, names: str = "") -> None:
        name = "-".join([f"{batch:012}", f"{newest:020}", str(level), self._types, *filter(None, [names])])
        rows.write.mode("overwrite").parquet(spark_output(self.folder / name))

    def tidy(self, spark: SparkSession) -> None:
        """Forget what is older than the window, and make few folders of many; before anything is read for a batch."""
        there = self._written()
        oldest = compose(max(physical_ms(max((w.newest for w in there), default=0)) - self.of.window, 0))
        by_level: dict[int, list[_Written]] = {}
        for written in there:
            if written.newest < oldest:
                remove_tree(written.path, ignore_errors=True)
            else:
                by_level.setdefault(written.level, []).append(written)
        for level, some in by_level.items():
            if len(some) >= _MERGED_AT and level < _LAST_LEVEL:
                rows = _by_key(self._read(spark, some))
                self._write(rows, max(w.batch for w in some), max(w.newest for w in some), level + 1)
                for written in some:
                    remove_tree(written.path, ignore_errors=True)


def with_row_key(rows: DataFrame) -> DataFrame:
    """Add to rows of a table without a key what tells that one is another of the same commit-ts sent again.

    In: `topic`, `commit_ts`, `hash_0`, `hash_1` (see `table_changes`). Out: besides these what `TableKeys` reads:
    `key`, a struct of `SAME_ROW`, null without a commit-ts, and `time`, `timed`.
    """
    timed = F.col("commit_ts").isNotNull()
    return rows.withColumns(
        {
            "key": F.when(timed, F.struct(*SAME_ROW.fieldNames())),
            "time": F.struct("commit_ts", F.lit(False).alias("later")),
            "timed": timed,
        }
    )


def as_sent_again(rows: DataFrame) -> DataFrame:
    """Return the rows of `with_row_key` as `add` takes them: with a `time` that is later than their own."""
    return rows.withColumn("time", F.struct("commit_ts", F.lit(True).alias("later")))


def _as(field: T.StructField, stored: T.StructField) -> Column:
    """Return a column of stored keys as one of present keys, null where it has no such value."""
    column = F.col(f"known.{stored.name}")
    alike = stored.dataType == field.dataType
    return (column if alike else column.cast("string").try_cast(field.dataType)).alias(field.name)


def _by_name(stored: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return stored columns in the order of a key. Those that have another name since then keep their order."""
    renamed = iter([name for name in stored if name not in names])
    return [name if name in stored else next(renamed) for name in names]


def _by_key(rows: DataFrame) -> DataFrame:
    return rows.groupBy("known").agg(F.max("applied").alias("applied"))


def _digest(words: Sequence[str], size: int) -> str:
    return hashlib.blake2b(json.dumps(words).encode(), digest_size=size).hexdigest()
