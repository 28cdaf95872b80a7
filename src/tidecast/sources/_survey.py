"""The content of a batch of messages, found in one pass: table versions with their rows, schema changes, watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import RECORD, Ddl, Events, Op, TableChanges
from tidecast.protocols import Controls, Decoded, Decoder, Marks, Reader, Rejected, TableVersion
from tidecast.sources._bootstraps import Starts, between, bootstraps_of, placed
from tidecast.sources._passes import (
    DEAD_LETTER,
    Make,
    Reading,
    Rereading,
    TypedRows,
    rejected_messages,
    watermark_messages,
)
from tidecast.spark import mapped, union, with_looked_up
from tidecast.topics import Records

_ROWS, _CONTROL, _WATERMARKS, _REJECTED, _UNKNOWN = "rows", "control", "watermarks", "rejected", "unknown"
_BETWEEN = "between"
_SAMPLE = T.StructType([f for f in RECORD.fields if f.name not in ("timestamp", "headers")])
_COUNTS = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("name", T.BinaryType()),
        T.StructField("rows", T.LongType()),
        T.StructField("offset", T.LongType()),
        T.StructField("upsert_offset", T.LongType()),
        T.StructField("commit_ts", T.LongType()),
        T.StructField("upsert_commit_ts", T.LongType()),
        T.StructField("version", T.LongType()),
        T.StructField("untimed", T.BooleanType()),
        T.StructField("highest", T.LongType()),
        T.StructField("updates", T.BooleanType()),
        T.StructField("checksums", T.BooleanType()),
        T.StructField("sample", _SAMPLE),
    ]
)
"""What a batch has of one kind: of each table version, of each name of unknown rows, between bootstraps (see
`tidecast.sources._bootstraps`); each control message by itself. Of rows: the first offset and commit-ts, of all and of
those that are no deletes, the lowest number that their version has, and whether some have no commit-ts."""


_LOWEST = ("offset", "upsert_offset", "commit_ts", "upsert_commit_ts", "version")

_SEEN = ("topic", "partition", "offset", "key", "value", "reason", "detail")
"""What is needed of a message to tell what it is: the columns that there are of these."""


class Messages:
    """Messages of a source, and what the driver knows of their schemas: more with each pass over them."""

    def __init__(self, records: Records, reader: Reader) -> None:
        self._records, self._reader = records, reader
        self._frame, self._split = records.unsplit
        self._told = _control_messages(records.frame, reader, reader.marks) if reader.marks else records.told
        self._controls = reader.controls(self._told) if self._told is not None else None

    @property
    def broken(self) -> Sequence[Rejected]:
        """Control messages that can be read, but not used, of a source that has its schemas in it."""
        return self._controls.rejected if self._controls is not None else ()

    def broken_messages(self) -> DataFrame:
        """Return those messages as dead letters."""
        assert self._told is not None
        return _broken(self._records.frame, self._told, self.broken)

    @property
    def _reading(self) -> Reading:
        return Reading(self._reader.decoder, self._split)

    def rows(self) -> Rereading:
        """Return the messages, and how their rows are read. One pass before makes sure that all schemas are known."""
        self._twice(lambda rows: _grouped(rows, _Counting()), _seen(self._frame, self._reader), _unknown)
        return Rereading(self._frame, self._reading)

    def counted(self, make: Make, out: T.StructType) -> list[Row]:
        """Return what one pass finds, added up: `rows` for each combination of the other columns of `out`.

        `make` is that of `RowSource.map`; it gets messages without what tells their place, and versions without keys
        where values tell the rest. One column is `unknown`: the name of what rows need of schemas; where it is found,
        these rows are read once more.
        """
        frame, by = self._frame, [name for name in out.names if name != "rows"]
        key, keyless = F.col("key"), self._reader.keyless
        if keyless is not None:  # a column of nulls takes Spark less to hand over
            key = F.when(~F.coalesce(F.col("value").startswith(F.lit(keyless)), F.lit(False)), key)
        seen: list[str] = [name for name in ("reason", "detail") if name in frame.columns]
        if self._reader.marks:  # the version of a row may go by its place
            seen.append("offset")
        if self._split:  # it knows whole files by it
            seen.append("topic")

        def count(rows: Rereading) -> DataFrame:
            return rows.map(make, out).groupBy(*by).agg(F.sum("rows").alias("rows"))

        return self._twice(count, frame.select(key.alias("key"), "value", *seen), lambda row: row["unknown"])

    def _twice(
        self, count: Callable[[Rereading], DataFrame], frame: DataFrame, unknown: Callable[[Row], bytes | None]
    ) -> list[Row]:
        """Return the counts of a pass, and where rows lack a schema that is there, those of a second one over them."""
        found = count(Rereading(frame, self._reading)).collect()
        names = [bytes(name) for row in found if (name := unknown(row)) is not None]
        if names and self._reader.learn(names):
            found = [row for row in found if unknown(row) is None]
            again = replace(self._reading, decoder=self._reader.decoder.only(frozenset(names)))
            found += count(Rereading(frame, again)).collect()
        return found

    def survey(self) -> Events:
        """Return the events. Their rows are planned when they are asked for."""
        frame, reader = self._frame, self._reader
        told, controls = self._told, self._controls
        starts = bootstraps_of(told, controls) if told and controls and not self._records.ordered else {}
        counting = _Counting(controls is None, starts)
        found = self._twice(lambda rows: _grouped(rows, counting), _seen(frame, reader), _unknown)
        if told is None or controls is None:
            told = batch_of(_sorted(row["sample"] for row in found if row["kind"] == _CONTROL))
            counted_by = reader.decoder
            controls = reader.controls(told)
            if reader.decoder != counted_by:  # schema changes may tell apart rows that were counted together
                counting = replace(counting, controls=False)
                found = self._twice(lambda rows: _grouped(rows, counting), _seen(frame, reader), _unknown)
        reading = self._reading
        versions = [(_version(reader.decoder, row), row) for row in found if row["kind"] == _ROWS]
        timed = not any(row["untimed"] for _, row in versions) and all(c.has_commit_ts for _, c in controls.ddl)
        position = "offset" if self._records.ordered else reader.position if timed else None
        tables = [_changes(frame, reading, version, row, position or "offset") for version, row in versions]
        unread = []
        if any(row["kind"] in (_REJECTED, _UNKNOWN) for row in found):
            unread.append(rejected_messages(frame, reading))
        if controls.rejected:
            unread.append(_broken(self._records.frame, told, controls.rejected))
        highest = [row["highest"] for row in found if row["kind"] == _WATERMARKS]
        before = {bytes(row["name"]): row["highest"] for row in found if row["kind"] == _BETWEEN}
        return Events(
            tables=tuple(sorted(tables, key=lambda t: (t.rows_from is not None, t.rows_from or 0))),
            # Without a row at all, which Spark finds before it starts a job.
            rejected=union(unread) if unread else frame.sparkSession.createDataFrame([], DEAD_LETTER).limit(0),
            ddl=tuple(
                change if position else replace(change, position=None) for change in self._keyed(controls, tables)
            ),
            bootstraps=placed(told, controls, starts, before),
            watermarks=watermark_messages(frame, reading) if highest and reader.position else None,
            watermark=max(highest, default=None),
            ordered=self._records.ordered,
            position=position,
            has_commit_ts=timed,
            versions_by_time=timed and reader.versions_by_time,
            checksums=any(version.checksums or row["checksums"] for version, row in versions),
            history=reader.history,
            rows=Rereading(frame, reading),
        )

    def _keyed(self, controls: Controls, tables: Sequence[TableChanges]) -> Iterator[Ddl]:
        """Yield the schema changes, with the keys that rows show where these do not."""
        history, changes = self._reader.history, [change for _, change in controls.ddl]
        if history is not None:
            history.take_keys((table.schema for table in tables if not table.of_key), changes)
        for change in changes:
            schema = change.schema
            if history is not None and schema and schema.key in history:
                yield replace(change, schema=schema.keyed_like(history[schema.key]))
            else:
                yield change


def _seen(frame: DataFrame, reader: Reader) -> DataFrame:
    """Return what a survey needs of messages: one for rows of a partition with the same heads, if these tell it.

    Out: columns of `_SEEN`, `offset` that of the first, and `weight`, how many messages it stands for, if not for one.
    """
    seen = [name for name in _SEEN if name in frame.columns]
    if reader.head is None:
        return frame.select(*seen)
    magic, length = reader.head

    def framed(name: str) -> Column:
        return F.coalesce(F.col(name).startswith(F.lit(magic)), F.lit(False))

    def head(name: str) -> Column:
        return F.when(framed(name), F.substring(name, 1, length)).otherwise(F.col(name)).alias(name)

    others = [name for name in seen if name not in ("key", "value", "offset")]
    alone = F.when(~(framed("value") | framed("key")), F.col("offset"))
    # Spark sorts what it groups, if it has to keep more than numbers of each group.
    heads = frame.groupBy(*others, head("key"), head("value"), alone.alias("alone"))
    return heads.agg(F.min("offset").alias("offset"), F.count("*").alias("weight")).drop("alone")


def _unknown(row: Row) -> bytes | None:
    """Return the name of what rows need of schemas, None where they need nothing."""
    return bytes(row["name"]) if row["kind"] == _UNKNOWN else None


@dataclass(frozen=True)
class _Counting:
    """The counts of messages beside rows: `controls` each by itself, and the messages between `starts`.

    These are the offsets of bootstraps in each partition, where their positions are wanted.
    """

    controls: bool = True
    starts: Starts = field(default_factory=dict)


def _grouped(rows: Rereading, counting: _Counting) -> DataFrame:
    """Return what messages have: the rows of `_COUNTS`, one for each kind and name, and for each control message."""
    alone = F.when(F.col("kind") == _CONTROL, F.struct("sample.topic", "sample.partition", "sample.offset"))
    counted = mapped(rows.frame, partial(_counts, rows.reading, counting), _COUNTS)
    return counted.groupBy("kind", "name", alone.alias("place")).agg(
        F.sum("rows").alias("rows"),
        *(F.min(name).alias(name) for name in _LOWEST),
        F.max("highest").alias("highest"),
        F.max("updates").alias("updates"),
        F.max("checksums").alias("checksums"),
        F.max("untimed").alias("untimed"),
        F.first("sample", ignorenulls=True).alias("sample"),
    )


def _counts(reading: Reading, counting: _Counting, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield what one batch has."""
    for decoded, some in reading.each(messages, values=False):
        yield from _counts_of(decoded, counting, some)


def _counts_of(decoded: Decoded, counting: _Counting, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    offsets, alone = np.asarray(messages.column("offset")), "weight" not in messages.schema.names
    weights = np.ones(len(offsets), np.int64) if alone else np.asarray(messages.column("weight"))
    counted: list[dict[str, object]] = []
    samples: list[int] = []

    def count(kind: str, at: np.ndarray, name: bytes = b"", **numbers: int | None) -> None:
        counted.append({"kind": kind, "name": name, "rows": int(weights[at].sum()), **numbers})
        samples.append(int(at[0]))

    for rows in decoded.rows:
        places = {"offset": pa.array(offsets[rows.at]), "commit_ts": rows.commit_ts}
        upsert = pc.not_equal(rows.op, Op.DELETE.value)
        first = {name: pc.min(values).as_py() for name, values in places.items()}
        first |= {f"upsert_{name}": pc.min(values.filter(upsert)).as_py() for name, values in places.items()}
        count(
            _ROWS,
            rows.at,
            rows.version.name.encode(),
            **first,
            version=rows.version.schema.version,
            highest=pc.max(rows.commit_ts).as_py(),
            untimed=rows.commit_ts.null_count > 0,
            updates=pc.any(pc.equal(rows.op, Op.UPDATE.value)).as_py(),
            checksums=rows.checksum.null_count < len(rows.at),
        )
    for place in decoded.control if counting.controls else ():
        count(_CONTROL, np.array([place]))
    for name, place, highest in between(counting.starts, decoded, messages) if counting.starts else ():
        count(_BETWEEN, np.array([place]), name, highest=highest)
    for part in decoded.rejected:
        count(_REJECTED, part.at)
    for name, at in decoded.unknown:
        count(_UNKNOWN, at, name)
    at, times = decoded.watermarks
    if at.size:
        count(_WATERMARKS, at, highest=int(times.max()))
    if counted:
        shown = messages.take(pa.array(samples)).select([n for n in _SAMPLE.names if n in messages.schema.names])
        sample = pa.StructArray.from_arrays(shown.columns, names=shown.schema.names)
        names = [f.name for f in _COUNTS.fields if f.name != "sample"]
        kinds = [pa.string(), pa.binary(), *[pa.int64()] * 6, pa.bool_(), pa.int64(), *[pa.bool_()] * 2]
        columns = [pa.array([one.get(n) for one in counted], kind) for n, kind in zip(names, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays([*columns, sample], names=[*names, "sample"])


def batch_of(samples: Sequence[Row]) -> pa.RecordBatch:
    """Return messages that the driver has got, in their order."""
    kinds = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
    kinds |= {"key": pa.binary(), "value": pa.binary(), "reason": pa.string(), "detail": pa.string()}
    shown = [name for name in kinds if not samples or name in samples[0]]
    return pa.RecordBatch.from_pydict({name: pa.array([row[name] for row in samples], kinds[name]) for name in shown})


def _sorted(messages: Iterable[Row]) -> list[Row]:
    return sorted(messages, key=lambda row: (row["offset"], row["partition"] or 0))


def _version(decoder: Decoder, row: Row) -> TableVersion:
    """Return the table version of rows that tasks have seen. Its number may be that of the first of them."""
    (rows,) = decoder.decode(batch_of([row["sample"]]), values=False).rows
    return replace(rows.version, schema=replace(rows.version.schema, version=row["version"]))


def _changes(frame: DataFrame, reading: Reading, version: TableVersion, row: Row, position: str) -> TableChanges:
    return TableChanges(
        version.schema,
        TypedRows.of_version(frame, reading, version),
        row["rows"],
        row[position],
        row[f"upsert_{position}"],
        version.keyspace,
        version.shows_before and row["updates"],
        version.of_key,
        version.name,
        row["highest"] if row["commit_ts"] == row["version"] else None,
    )


def _control_messages(frame: DataFrame, reader: Reader, marks: Marks) -> pa.RecordBatch:
    """Return the control messages. Marks find few others, which do not leave the tasks."""
    tests = [F.col("value").startswith(F.lit(mark)) for mark in marks.begins]
    tests += [F.col("value").contains(F.lit(mark)) for mark in marks.holds]
    causes = [name for name in ("reason", "detail") if name in frame.columns]
    found = frame.where(reduce(or_, tests)).select(*_SAMPLE.names, *causes)
    return batch_of(_sorted(mapped(found, partial(_controls, Reading(reader.decoder)), _SAMPLE).collect()))


def _controls(reading: Reading, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    at = reading.read(messages, values=False).control
    if at.size:
        yield messages.take(pa.array(at)).select(_SAMPLE.names)


def _broken(frame: DataFrame, told: pa.RecordBatch, rejected: Sequence[Rejected]) -> DataFrame:
    """Return the control messages that cannot be read, as dead letters."""
    places = ("topic", "partition", "offset")
    causes = [
        (*(told.column(name)[at].as_py() for name in places), reason, detail)
        for part in rejected
        for at, reason, detail in zip(part.at, part.reason.to_pylist(), part.detail.to_pylist(), strict=True)
    ]
    kinds = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
    why = {"reason": pa.string(), "detail": pa.string()}
    if "reason" in frame.columns:  # of those that could not be unpacked, which are dead letters already
        frame = frame.where(F.col("reason").isNull())
    caused = with_looked_up(frame, {name: F.col(name) for name in kinds}, causes, kinds | why)
    return caused.where(F.col("reason").isNotNull()).select(*DEAD_LETTER.names)
