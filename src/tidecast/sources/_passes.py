"""Passes over messages: one function on Arrow columns for all tables, run by Spark's tasks."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import CHECKSUM, RECORD, TableChanges, TableSchema, row_type
from tidecast.protocols import Decoded, Decoder, Description, Rejected, Rows, TableVersion
from tidecast.spark import handed_over, mapped, union
from tidecast.topics import Split
from tidecast.values import for_spark, from_spark, valid
from tidecast.values import row_type as arrow_row_type

Read = tuple[Decoded, pa.RecordBatch]
"""What a batch of messages says, and the messages."""

Make = Callable[[Iterator[Read]], Iterable[pa.RecordBatch]]
"""What a task makes of its batches."""

CAUSE = (T.StructField("reason", T.StringType()), T.StructField("detail", T.StringType()))
DEAD_LETTER = T.StructType([*RECORD.fields, *CAUSE])
"""A message that cannot be handled, and why."""


@dataclass(frozen=True)
class Reading:
    """How messages become rows, as tasks do it. `split` makes records of whole files; see `tidecast.topics.Unsplit`."""

    decoder: Decoder
    split: Split | None = None

    def each(self, batch: pa.RecordBatch, *, values: bool = True) -> Iterator[Read]:
        """Yield what a batch of messages says, with these; of one with whole files part by part."""
        for messages in self.split(batch) if self.split else (batch,):
            yield self.read(messages, values=values), messages

    def read(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. Those that have a `reason` already, as they could not be unpacked, are rejected."""
        packed = _packed(messages)
        with _without_collector():
            if packed is None:
                decoded = self.decoder.decode(messages, values=values)
            else:
                decoded = _around(self.decoder, messages, packed, values=values)
        return _with_details(decoded, messages)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Let Python look for no garbage meanwhile: it would look at all objects of a batch's JSON again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _with_details(decoded: Decoded, messages: pa.RecordBatch) -> Decoded:
    """Return the content of messages; a rejected one has the detail of its unpacking, where that went wrong."""
    if "detail" not in messages.schema.names or messages.column("detail").null_count == messages.num_rows:
        return decoded
    given = messages.column("detail")
    rejected = [replace(r, detail=pc.coalesce(given.take(pa.array(r.at)), r.detail)) for r in decoded.rejected]
    return replace(decoded, rejected=rejected)


def _packed(messages: pa.RecordBatch) -> np.ndarray | None:
    """Return which messages could not be unpacked, None where all could."""
    if "reason" not in messages.schema.names or messages.column("reason").null_count == messages.num_rows:
        return None
    return valid(messages.column("reason"))


def _around(decoder: Decoder, messages: pa.RecordBatch, packed: np.ndarray, *, values: bool) -> Decoded:
    """Return what messages say, but for those that are rejected already."""
    good, bad = np.flatnonzero(~packed), np.flatnonzero(packed)
    found = decoder.decode(messages.take(pa.array(good)), values=values)
    reason, detail = (messages.column(name).take(pa.array(bad)) for name in ("reason", "detail"))
    places, times = found.watermarks
    return Decoded(
        [replace(rows, at=good[rows.at]) for rows in found.rows],
        [Rejected(bad, reason, detail), *(replace(r, at=good[r.at]) for r in found.rejected)],
        good[found.control],
        (good[places], times),
        [(name, good[at]) for name, at in found.unknown],
    )


@dataclass(frozen=True)
class Rereading:
    """Messages, and how they become rows; see `tidecast.model.RowSource`."""

    frame: DataFrame
    reading: Reading

    def map(self, make: Make, out: T.StructType) -> DataFrame:
        """Return the result of a function of the messages of each task, and of their content."""
        reading = self.reading

        def batches(source: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            return make(read for batch in source for read in reading.each(batch))

        return handed_over(self.frame, batches, out)

    def read(self, messages: pa.RecordBatch) -> Decoded:
        """Return what some of the messages say, read in this process."""
        return self.reading.read(messages)

    def describe(self, key: bytes | None, value: bytes | None) -> Description | None:
        """Return the description of one message, where schemas tell it."""
        return self.reading.decoder.describe(key, value)


Begin = Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]]
"""A function that makes rows of a batch."""

Step = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A function of rows as columns: those of `tidecast.model.TableChanges.frame`, with the values of the model."""


@dataclass(frozen=True)
class _Messages:
    """A table version among messages, and how these are read."""

    frame: DataFrame
    reading: Reading
    version: TableVersion

    def rows(self) -> tuple[DataFrame, Begin]:
        """Return the messages that may be of the version, and what makes rows of them."""
        alone = replace(self.reading, decoder=self.reading.decoder.of(self.version))
        return _likely_of(self.frame, self.version), partial(_typed, alone, self.version.name)


@dataclass(frozen=True)
class _Rows:
    """The rows of a table version that a frame has."""

    frame: DataFrame
    schema: TableSchema

    def rows(self) -> tuple[DataFrame, Begin]:
        """Return the frame, and what gives its rows the values of the model."""
        return self.frame, partial(_as_they_are, self.schema)


@dataclass(frozen=True)
class TypedRows:
    """The rows of one table version, and the functions that they go through: all in one pass.

    `columns` is what comes out. See `tidecast.model.TableChanges.frame`.
    """

    source: _Messages | _Rows
    columns: T.StructType
    steps: tuple[Step, ...] = ()

    @classmethod
    def of_version(cls, frame: DataFrame, reading: Reading, version: TableVersion) -> TypedRows:
        """Return the rows of a table version among messages."""
        row = row_type(version.schema)
        columns = [
            *RECORD.fields,
            T.StructField("op", T.StringType()),
            T.StructField("commit_ts", T.LongType()),
            T.StructField("table_id", T.LongType()),
            T.StructField("old", row),
            T.StructField("data", row),
            T.StructField("checksum", CHECKSUM),
            *CAUSE,
        ]
        return cls(_Messages(frame, reading, version), T.StructType(columns))

    @classmethod
    def of_frame(cls, schema: TableSchema, frame: DataFrame) -> TypedRows:
        """Return the rows that a frame has."""
        return cls(_Rows(frame, schema), frame.schema)

    def __call__(self) -> DataFrame:
        """Return the rows."""
        frame, begin = self.source.rows()
        return mapped(frame, partial(_through, begin, self.steps), self.columns)

    def then(self, step: Step, columns: T.StructType) -> TypedRows:
        """Return the rows after one more step; `columns` is what comes out of it."""
        return replace(self, steps=(*self.steps, step), columns=columns)


def then(changes: TableChanges, step: Step, columns: T.StructType) -> TableChanges:
    """Return changes whose rows go through a function, which is sent to the tasks; `columns` is what comes out."""
    return replace(changes, source=_on_the_way(changes).then(step, columns))


def then_with(changes: TableChanges, step: Step, *more: T.StructField) -> TableChanges:
    """Return changes whose rows get more columns by a function."""
    return then(changes, step, T.StructType([*columns_of(changes).fields, *more]))


def chosen(changes: TableChanges, which: Callable[[pa.RecordBatch], pa.Array]) -> TableChanges:
    """Return those changes for which a function, which is sent to the tasks, is true."""
    return then(changes, partial(_chosen, which), columns_of(changes))


def narrowed(changes: TableChanges, *names: str) -> TableChanges:
    """Return changes with some columns alone, so that no other leaves the tasks."""
    columns = columns_of(changes)
    return then(changes, partial(_narrowed, names), T.StructType([columns[name] for name in names]))


def in_one_pass(parts: Sequence[TableChanges]) -> DataFrame:
    """Return the rows of several table versions, at least one, which have the same columns, as one frame.

    The messages that they are among are read once for all of them.
    """
    ways = [_on_the_way(part) for part in parts]
    if len(ways) == 1:
        return ways[0]()
    frames = [way() for way in ways if isinstance(way.source, _Rows)]
    together = defaultdict[int, dict[str, list[tuple[Step, ...]]]](lambda: defaultdict(list))
    read = dict[int, _Messages]()
    for way in ways:
        if isinstance(way.source, _Messages):
            of = id(way.source.frame)
            read[of] = way.source
            together[of][way.source.version.name].append(way.steps)
    for of, steps in together.items():
        frames.append(mapped(read[of].frame, partial(_all_through, read[of].reading, dict(steps)), ways[0].columns))
    return union(frames)


def columns_of(changes: TableChanges) -> T.StructType:
    """Return the columns of changes; their frame is not planned for it."""
    return changes.source.columns if isinstance(changes.source, TypedRows) else changes.frame.schema


def _on_the_way(changes: TableChanges) -> TypedRows:
    if isinstance(changes.source, TypedRows):
        return changes.source
    return TypedRows.of_frame(changes.schema, changes.frame)


def _chosen(which: Callable[[pa.RecordBatch], pa.Array], rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(which(rows))


def _narrowed(names: Sequence[str], rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(names)


def _through(begin: Begin, steps: Sequence[Step], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for rows in begin(batch):
        yield _made(steps, rows)


def _all_through(
    reading: Reading, steps: Mapping[str, Sequence[Sequence[Step]]], batch: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    for decoded, messages in reading.each(batch):
        for rows in decoded.rows:
            for some in steps.get(rows.version.name, ()):
                yield _made(some, _changes(rows, messages))


def _made(steps: Sequence[Step], rows: pa.RecordBatch) -> pa.RecordBatch:
    made = reduce(lambda found, step: step(found), steps, rows)
    return pa.RecordBatch.from_arrays([for_spark(column) for column in made.columns], names=made.schema.names)


def _likely_of(frame: DataFrame, version: TableVersion) -> DataFrame:
    """Return the messages that may be rows of a table version."""
    for part, begins in (("key", version.key_begins), ("value", version.value_begins)):
        if begins:
            frame = frame.where(F.col(part).startswith(F.lit(begins)))
        elif begins is not None:
            frame = frame.where(F.coalesce(F.octet_length(part), F.lit(0)) == 0)
    if version.value_holds:
        value = F.col("value")
        held = [value.contains(F.lit(part)) for part in version.value_holds]
        frame = frame.where(reduce(and_, held) | value.contains(F.lit(b"\\u")))
    return frame


def _typed(reading: Reading, name: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for decoded, messages in reading.each(batch):
        for rows in decoded.rows:
            if rows.version.name == name:
                yield _changes(rows, messages)


def _changes(rows: Rows, messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as columns: those of `tidecast.model.TableChanges.frame`."""
    record = messages.take(pa.array(rows.at))
    columns = {f.name: record.column(f.name) for f in RECORD.fields}
    for column in ("op", "commit_ts", "table_id", "old", "data", "checksum", "reason", "detail"):
        columns[column] = getattr(rows, column)
    return pa.RecordBatch.from_pydict(columns)


def _as_they_are(schema: TableSchema, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    kind = arrow_row_type(schema)
    columns = {
        name: from_spark(column, kind) if name in ("old", "data") else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }
    yield pa.RecordBatch.from_pydict(columns)


def rejected_messages(frame: DataFrame, reading: Reading) -> DataFrame:
    """Return the messages that belong to no table version: the columns of `DEAD_LETTER`."""
    return mapped(frame, partial(_rejected, reading), DEAD_LETTER)


def watermark_messages(frame: DataFrame, reading: Reading) -> DataFrame:
    """Return the watermarks, each as it came: the columns of `RECORD`, and `commit_ts` bigint."""
    out = T.StructType([*RECORD.fields, T.StructField("commit_ts", T.LongType())])
    return mapped(frame, partial(_watermarks, reading), out)


def _watermarks(reading: Reading, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for decoded, messages in reading.each(batch, values=False):
        at, times = decoded.watermarks
        if at.size:
            chosen = messages.take(pa.array(at))
            columns = {f.name: chosen.column(f.name) for f in RECORD.fields}
            yield pa.RecordBatch.from_pydict({**columns, "commit_ts": times})


def _rejected(reading: Reading, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for decoded, messages in reading.each(batch, values=False):
        for part in decoded.rejected:
            yield dead_letters(messages, part.at, part.reason, part.detail)


def dead_letters(messages: pa.RecordBatch, at: np.ndarray, reason: pa.Array, detail: pa.Array) -> pa.RecordBatch:
    """Return some of the messages with the cause of each: the columns of `DEAD_LETTER`."""
    chosen = messages.take(pa.array(at))
    columns = {f.name: chosen.column(f.name) for f in RECORD.fields}
    return pa.RecordBatch.from_pydict({**columns, "reason": reason, "detail": detail})
