"""Passes over messages: one function on Arrow columns for all tables, run by Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import CHECKSUM, RECORD, row_type
from tidecast.protocols import Decoded, Decoder, Rejected, Rows, TableVersion
from tidecast.spark import handed_over, mapped
from tidecast.values import for_spark, valid

Read = tuple[Decoded, pa.RecordBatch]
"""What a batch of messages says, and the messages."""

Make = Callable[[Iterator[Read]], Iterable[pa.RecordBatch]]
"""What a task makes of its batches."""

CAUSE = (T.StructField("reason", T.StringType()), T.StructField("detail", T.StringType()))
DEAD_LETTER = T.StructType([*RECORD.fields, *CAUSE])
"""A message that cannot be handled, and why."""


@dataclass(frozen=True)
class Reading:
    """How messages become rows, as tasks do it."""

    decoder: Decoder

    def read(self, messages: pa.RecordBatch, *, values: bool = True) -> Decoded:
        """Return what messages say. Those that have a `reason` already, as they could not be unpacked, are rejected."""
        packed = _packed(messages)
        if packed is None:
            decoded = self.decoder.decode(messages, values=values)
        else:
            decoded = _around(self.decoder, messages, packed, values=values)
        return _with_details(decoded, messages)


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
            return make((reading.read(batch), batch) for batch in source)

        return handed_over(self.frame, batches, out)

    def read(self, messages: pa.RecordBatch) -> Decoded:
        """Return what some of the messages say, read in this process."""
        return self.reading.read(messages)


@dataclass(frozen=True)
class TypedRows:
    """The rows of one table version as `tidecast.model.TableChanges.frame` has them; see there for the columns."""

    frame: DataFrame
    reading: Reading
    version: TableVersion

    def __call__(self) -> DataFrame:
        """Return the rows."""
        return self._made(None)

    def more(self, field: T.StructField, make: Callable[[Rows], pa.Array]) -> DataFrame:
        """Return the rows with one more column, which a function makes of them."""
        return self._made((field, make))

    def _made(self, more: More | None) -> DataFrame:
        row = row_type(self.version.schema)
        out = [
            *RECORD.fields,
            T.StructField("op", T.StringType()),
            T.StructField("commit_ts", T.LongType()),
            T.StructField("table_id", T.LongType()),
            T.StructField("old", row),
            T.StructField("data", row),
            T.StructField("checksum", CHECKSUM),
            *CAUSE,
            *([more[0]] if more else []),
        ]
        alone = replace(self.reading, decoder=self.reading.decoder.of(self.version))
        typed = partial(_typed, alone, self.version.name, more)
        return mapped(_likely_of(self.frame, self.version), typed, T.StructType(out))


More = tuple[T.StructField, Callable[[Rows], pa.Array]]
"""A further column, and what makes it of rows."""


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


def _typed(reading: Reading, name: str, more: More | None, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for rows in reading.read(messages).rows:
        if rows.version.name != name:
            continue
        record = messages.take(pa.array(rows.at))
        columns = {f.name: record.column(f.name) for f in RECORD.fields}
        for column in ("op", "commit_ts", "table_id", "old", "data", "checksum", "reason", "detail"):
            columns[column] = for_spark(getattr(rows, column))
        if more:
            columns[more[0].name] = more[1](rows)
        yield pa.RecordBatch.from_pydict(columns)


def rejected_messages(frame: DataFrame, reading: Reading) -> DataFrame:
    """Return the messages that belong to no table version: the columns of `DEAD_LETTER`."""
    return mapped(frame, partial(_rejected, reading), DEAD_LETTER)


def watermark_messages(frame: DataFrame, reading: Reading) -> DataFrame:
    """Return the watermarks, each as it came: the columns of `RECORD`, and `commit_ts` bigint."""
    out = T.StructType([*RECORD.fields, T.StructField("commit_ts", T.LongType())])
    return mapped(frame, partial(_watermarks, reading), out)


def _watermarks(reading: Reading, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    at, times = reading.read(messages, values=False).watermarks
    if at.size:
        chosen = messages.take(pa.array(at))
        yield pa.RecordBatch.from_pydict({**{f.name: chosen.column(f.name) for f in RECORD.fields}, "commit_ts": times})


def _rejected(reading: Reading, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for part in reading.read(messages, values=False).rejected:
        yield dead_letters(messages, part.at, part.reason, part.detail)


def dead_letters(messages: pa.RecordBatch, at: np.ndarray, reason: pa.Array, detail: pa.Array) -> pa.RecordBatch:
    """Return some of the messages with the cause of each: the columns of `DEAD_LETTER`."""
    chosen = messages.take(pa.array(at))
    columns = {f.name: chosen.column(f.name) for f in RECORD.fields}
    return pa.RecordBatch.from_pydict({**columns, "reason": reason, "detail": detail})
