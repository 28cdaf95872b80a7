"""Dead letters that are applied once more, among the other messages of their tables.

A table with a key then gets what it would have got with them at their place: newer changes of their keys are there,
too. To a table without one their rows are appended, and nothing but the messages tells which of them it has. So before
they are appended their places are kept, under a name that goes into the note of the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast.model import RECORD, Events, Reason
from tidecast.replica.plan import moves_rows
from tidecast.replica.tables import Name, Routes
from tidecast.sources import narrowed
from tidecast.spark import union
from tidecast.storage import AnyPath, entries, remove_tree, spark_input, spark_output
from tidecast.topics import write_dead_letters

_PLACE = ("topic", "partition", "offset")


@dataclass(frozen=True)
class Again:
    """The dead letters of one run: `places` has `topic`, `partition` and `offset` of each.

    In `folder` lie the places of those that are being appended, until `end`. Messages that stay dead letters go to
    `left`. `topic` are the events of the topic up to the checkpoint.
    """

    places: DataFrame
    folder: AnyPath
    left: AnyPath
    topic: Events

    def letters(self, rows: DataFrame) -> DataFrame:
        """Return the rows that came in the dead letters."""
        return at_places(rows, self.places)

    def keep(self, messages: Sequence[DataFrame], places: DataFrame, cause: str) -> None:
        """Let those of some messages, which have the columns of `RECORD`, that are at some places stay dead letters."""
        why = {"reason": F.lit(str(Reason.TABLE_REFUSED)), "detail": F.lit(cause)}
        found = at_places(union([one.select(*RECORD.fieldNames()) for one in messages]), places)
        write_dead_letters(found.distinct().withColumns(why), self.left)

    def with_doubt(self, rows: DataFrame) -> DataFrame:
        """Add `doubtful` to rows of other messages: a batch left it out if the watermarks before it came in others.

        In: `topic`, `partition`, `offset`, `commit_ts`. Where a batch began is not known.
        """
        if self.topic.watermarks is None:
            return rows.withColumn("doubtful", F.lit(False))
        marks = self.topic.watermarks.select(F.struct(*_PLACE, "commit_ts").alias("mark"))
        row = F.struct(*_PLACE, "commit_ts")
        same = [F.col("mark")[name].eqNullSafe(F.col("row")[name]) for name in ("topic", "partition")]
        before = [F.col("mark.offset") < F.col("row.offset"), *([] if self.topic.ordered else same)]
        # A partition that has no watermark yet may get what others had before.
        passed = F.coalesce(F.max("mark.commit_ts"), F.lit(self.topic.watermark).cast("bigint"), F.lit(-1))
        found = rows.withColumn("row", row).select("row").distinct().join(marks, reduce(and_, before), "left")
        known = found.groupBy("row").agg(passed.alias("passed"))
        doubtful = F.coalesce(F.col("commit_ts") <= F.col("passed"), F.lit(False))
        joined = rows.join(known, row.eqNullSafe(F.col("row")), "left")
        return joined.select(*rows.columns, doubtful.alias("doubtful"))

    def without_appended(self, rows: DataFrame, noted: str | None) -> DataFrame:
        """Leave out the rows that a run which was killed has appended to a table; `noted` is what the table says."""
        there = None if noted is None else self._appended(rows, noted)
        return rows if there is None else at_places(rows, there, "left_anti")

    def begin(self, rows: DataFrame, noted: str | None) -> str:
        """Take note of the rows that are about to be appended, and of those that were, as `without_appended`.

        Return a name for this, which goes into the table's note: the table's own name may change.
        """
        there, name = None if noted is None else self._appended(rows, noted), uuid4().hex
        places = union([rows.select(*_PLACE), *([] if there is None else [there])])
        places.write.mode("overwrite").parquet(spark_output(self.folder / name))
        return name

    def end(self) -> None:
        """Forget them: they are no dead letters any more."""
        remove_tree(self.folder, ignore_errors=True)

    def _appended(self, rows: DataFrame, noted: str) -> DataFrame | None:
        of_note = self.folder / noted
        return rows.sparkSession.read.parquet(spark_input(of_note)) if entries(of_note) else None


def at_places(rows: DataFrame, places: DataFrame, how: str = "left_semi") -> DataFrame:
    """Return the rows whose message is at one of the places; with `left_anti` the others."""
    place = places.select(F.struct(*_PLACE).alias("_tidecast place"))
    same = (F.col(name).eqNullSafe(F.col("_tidecast place")[name]) for name in _PLACE)
    return rows.join(place, reduce(and_, same), how)


def concerned(events: Events, places: DataFrame, routes: Routes, renamed: Iterable[tuple[Name, Name]] = ()) -> Events:
    """Return what of a topic's events concerns messages at `places`: themselves, and all rows of their tables.

    `renamed` are old and new names of tables: rows of one may have come under both.

    Keeps the schema changes of columns only: those that moved or emptied a table took effect when they came.
    """
    tables = [routes.schema(changes.schema) for changes in events.tables]
    names = [(schema.database, schema.table) for schema in tables]
    each = [narrowed(c, *_PLACE).frame.select("*", F.lit(n).alias("table")) for n, c in enumerate(events.tables)]
    found = at_places(union(each), places).select("table").distinct().collect() if each else []
    theirs = {names[row["table"]] for row in found}
    pairs = [{*pair} for pair in renamed]
    while more := [pair for pair in pairs if pair & theirs and not pair <= theirs]:
        theirs = theirs.union(*more)
    shown = ((change, routes.schema(change.schema)) for change in events.ddl if change.schema)
    return replace(
        events,
        tables=tuple(c for c, name in zip(events.tables, names, strict=True) if name in theirs),
        rejected=at_places(events.rejected, places),
        ddl=tuple(c for c, to in shown if (to.database, to.table) in theirs and not moves_rows(c)),
        bootstraps=(),
        watermarks=None,
    )
