"""Dead letters that are applied once more, among the other messages of their tables.

A table with a key then gets what it would have got with them at their place: newer changes of their keys are there,
too. To a table without one their rows are appended, and nothing but the messages tells which of them it has. So before
they are appended their places are kept, under a name that goes into the note of the commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast.model import Events
from tidecast.replica._ddl import moves_rows
from tidecast.replica._route import Routes
from tidecast.spark import union
from tidecast.storage import AnyPath, entries, remove_tree, spark_input, spark_output

Name = tuple[str, str]
_PLACE = ("topic", "partition", "offset")


@dataclass(frozen=True)
class Again:
    """The dead letters of one run: `places` has `topic`, `partition` and `offset` of each.

    In `folder` lie the places of those that are being appended, until `end`.
    """

    places: DataFrame
    folder: AnyPath
    name: str = field(default_factory=lambda: uuid4().hex)

    def letters(self, rows: DataFrame) -> DataFrame:
        """Return the rows that came in the dead letters."""
        return at_places(rows, self.places)

    def without_appended(self, rows: DataFrame, table: tuple[str, str], noted: str | None) -> DataFrame:
        """Leave out the rows that a run which was killed has appended to a table; `noted` is what the table says."""
        there = None if noted is None else self._appended(rows, table, noted)
        return rows if there is None else at_places(rows, there, "left_anti")

    def begin(self, rows: DataFrame, table: tuple[str, str], noted: str | None) -> None:
        """Take note of the rows that are about to be appended, and of those that were, as `without_appended`."""
        there = None if noted is None else self._appended(rows, table, noted)
        places = union([rows.select(*_PLACE), *([] if there is None else [there])])
        places.write.mode("overwrite").parquet(spark_output(self._of(table) / self.name))

    def end(self) -> None:
        """Forget them: they are no dead letters any more."""
        remove_tree(self.folder, ignore_errors=True)

    def _of(self, table: tuple[str, str]) -> AnyPath:
        return self.folder / hashlib.blake2b(json.dumps(table).encode(), digest_size=16).hexdigest()

    def _appended(self, rows: DataFrame, table: tuple[str, str], noted: str) -> DataFrame | None:
        of_note = self._of(table) / noted
        return rows.sparkSession.read.parquet(spark_input(of_note)) if entries(of_note) else None


def at_places(rows: DataFrame, places: DataFrame, how: str = "left_semi") -> DataFrame:
    """Return the rows whose message is at one of the places; with `left_anti` the others."""
    place = places.select(F.struct(*_PLACE).alias("_tidecast place"))
    same = (F.col(name).eqNullSafe(F.col("_tidecast place")[name]) for name in _PLACE)
    return rows.join(place, reduce(and_, same), how)


def concerned(events: Events, places: DataFrame, routes: Routes, renamed: Iterable[tuple[Name, Name]] = ()) -> Events:
    """Return what of a topic's events concerns messages at `places`: themselves, and all rows of their tables.

    `renamed` are old and new names of tables: rows of one may have come under both.

    Its schema changes are those that tell of columns: what moved or emptied a table was dealt with when it came.
    """
    tables = [routes.schema(changes.schema) for changes in events.tables]
    names = [(schema.database, schema.table) for schema in tables]
    each = [c.frame.select(*_PLACE, F.lit(n).alias("table")) for n, c in enumerate(events.tables)]
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
