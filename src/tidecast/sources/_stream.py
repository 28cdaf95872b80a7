"""A topic read batch by batch, each where the last one ended, over restarts and crashes.

How far it has been read stands in a file. A batch counts as read when it is committed: until then it comes
again, so that nothing is lost and whoever takes the batches must be able to meet one twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ArrowException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError, DecodeError, SourceChanged
from tidecast._policy import OnDataLoss
from tidecast._uri import parse_place
from tidecast.model import (
    RECORD,
    Ddl,
    Events,
    Reason,
    SchemaHistory,
    TableChanges,
    compose,
)
from tidecast.protocols import protocol_named
from tidecast.registry import Registry
from tidecast.sources._passes import chosen
from tidecast.sources._progress import (
    STATE,
    WAITING,
    Progress,
    check_source_of,
    no_state,
    parsed_state,
    source_name,
    state_of,
)
from tidecast.sources._topic import decode_records, open_source, protocol_of
from tidecast.sources._ts_range import split_at_commit_ts
from tidecast.sources._unpack import unpacked
from tidecast.spark import union
from tidecast.storage import AnyPath, StateFile, remove_tree, spark_input, spark_output
from tidecast.topics import Offsets, Records, check_written, count_rows
from tidecast.values import TEXT, by_distinct

MAX_WAITING = 1_000_000
_BEGUN = "begun.json"
_NO_HISTORY = b"[]"


@dataclass(frozen=True)
class Batch:
    """Events that came since the last batch. `progress` is what is true once it is committed.

    Of the watermarks it has those that hold for all partitions. `moved` are the ends of the partitions or files that
    have grown, by `topic/partition` or file.

    `lost` says which messages went before they were read, None where none did. `begun` is a commit-ts that nothing of
    earlier attempts at this batch lies above, None where there were none.
    """

    events: Events
    progress: Progress
    more: bool = False
    moved: Mapping[str, int] = field(default_factory=dict)
    lost: str | None = None
    begun: int | None = None

    @property
    def highest(self) -> int | None:
        """A commit-ts that no schema change of it lies above, nor anything of earlier attempts; None for none."""
        told = [change.commit_ts for change in self.events.ddl]
        return max([*told, *([] if self.begun is None else [self.begun])], default=None)


class TopicStream:
    """A topic as a source of batches; `folder` keeps what has been read of it.

    `zone` and `registry` as in `read_topic`. Rows whose schema has not come yet wait in the folder, at most
    `max_waiting` of them, until it does. With `resolved_only` rows and schema changes wait, too, until every partition
    has a watermark that is not below their commit-ts, so that the batches up to any one make what the source was at its
    `watermark`. `on_data_loss` says whether to go on with what is there where messages went before they were read.
    """

    def __init__(
        self,
        spark: SparkSession,
        uri: str,
        folder: AnyPath,
        *,
        registry: Registry | None = None,
        zone: str = "UTC",
        max_waiting: int = MAX_WAITING,
        resolved_only: bool = False,
        on_data_loss: OnDataLoss = OnDataLoss.FAIL,
    ) -> None:
        self._spark, self._folder = spark, folder
        self._registry, self._zone, self._max_waiting = registry, zone, max_waiting
        self._resolved_only, self._on_data_loss = resolved_only, on_data_loss
        self._state, self._begun = StateFile(folder / STATE), StateFile(folder / _BEGUN)
        self._protocol = protocol_of(uri)
        self._place = parse_place(uri)
        self._topics = open_source(self._place)
        self._source = source_name(self._place)
        self._progress, self._history = self._load()
        check_source_of(self._progress, self._place, folder / STATE)

    @property
    def progress(self) -> Progress:
        """The point up to which the stream has been read and committed."""
        return self._progress

    @property
    def waits(self) -> list[str]:
        """The rows that wait in the folder, and the files that the last look left out, for people."""
        rows = [f"{what} in {self._folder}" for what in self._progress.waits]
        return [*rows, self._topics.waits] if self._topics.waits else rows

    def tells_watermarks(self, progress: Progress) -> bool:
        """Tell whether watermarks have come by some progress, or will.

        Kafka gives its partitions at their own pace, and rows may come before any watermark.
        """
        return bool(progress.watermarks) or (self._place.is_kafka and protocol_named(self._protocol).watermarks)

    @property
    def history(self) -> SchemaHistory:
        """The schemas that the stream has shown, up to its last commit."""
        return SchemaHistory(self._history)

    def next(self, limit: int | None = None, *, keep: bool = True) -> Batch | None:
        """Return what is new, at most `limit` messages of a partition; None where nothing is.

        Without `keep` it is only looked at: the rows that would wait are not written down, and it cannot be committed.

        Rows up to a partition's watermark of the batches before are left out, where they are of a table that had some:
        TiCDC sends a watermark after all that it covers, so that such rows came before. Raises DecodeError where more
        rows than `max_waiting` would wait, and ConfigError where they are to wait for a watermark and have no
        commit-ts; SourceChanged where the topic no longer holds what follows, unless data loss is allowed. Source:
        Simple protocol, applying.
        """
        before, offsets, lost = self._ends(limit)
        # A file that was removed is nothing new.
        known = before.offsets or Offsets()
        moved = {place: end for place, end in offsets.ends.items() if offsets.differs(known, place)}
        if not moved:
            return None
        records, waiting = self._records(before, offsets)
        events, unknown, rows = _without_unknown(self.decoded(records))
        # After a restart TiCDC tells lower ones once more.
        latest = _watermarks(events, records).items()
        watermarks = {**before.watermarks, **{at: max(ts, before.watermarks.get(at, ts)) for at, ts in latest}}
        grown = self._grown(offsets)
        passed = None if rows else _passed(watermarks, offsets.ends, grown)  # rows that wait have still to leave
        if events.watermarks is not None:
            holds = F.col("commit_ts") <= F.lit(passed).cast("bigint")
            events = replace(events, watermarks=events.watermarks.where(holds))
        watermark = max((ts for ts in (before.watermark, passed) if ts is not None), default=None)
        names = [(changes.schema.database, changes.schema.table) for changes in events.tables]
        events = _without_replays(events, before, waiting, ordered=records.ordered)
        events = replace(events, ddl=tuple(dict.fromkeys([*before.ddl_unresolved, *events.ddl])))
        later, rows_later, ddl_later = None, 0, tuple[Ddl, ...]()
        if self._resolved_only:
            self._check_times(events)
            resolved = -1 if watermark is None else watermark
            events, later, rows_later, ddl_later = split_at_commit_ts(events, resolved)
            if rows_later:
                self._check_waits(before.batch + 1, resolved)
        progress = Progress(
            offsets=offsets,
            watermarks=watermarks,
            watermark=watermark,
            batch=before.batch + 1,
            waiting=self._keep(before.batch + 1, unknown, rows, later, rows_later) if keep else None,
            rows_waiting=rows,
            tables=sorted({*before.tables, *names}),
            source=self._source,
            rows_unresolved=rows_later,
            ddl_unresolved=ddl_later,
            checkpoint=before.checkpoint,
        )
        more = limit is not None and bool(grown)
        return Batch(events, progress, more, moved, lost, self._begun_upto(progress.batch))

    def upto_now(self, limit: int | None = None) -> Iterator[Batch]:
        """Yield the batches up to the topic's present end, to be committed one by one; see `next`.

        Later messages need not be among them: a topic that always grows would have no last batch.
        """
        end = self._topics.end_offsets(self._progress.offsets)
        while self._is_before(end) and (batch := self.next(limit)) is not None:
            yield batch

    def _is_before(self, end: Offsets) -> bool:
        known = self._progress.offsets or Offsets()
        return any(end.differs(known, place) and known.ends.get(place, 0) <= at for place, at in end.ends.items())

    def _ends(self, limit: int | None) -> tuple[Progress, Offsets, str | None]:
        """Return the progress to go on from, the position to go to, and what went before it was read."""
        before = self._progress
        try:
            return before, self._topics.end_offsets(before.offsets, limit), None
        except SourceChanged as error:
            if self._on_data_loss is OnDataLoss.FAIL:
                raise
            before = before.without(error.remaining)
            return before, self._topics.end_offsets(before.offsets, limit), error.message

    def _records(self, before: Progress, offsets: Offsets) -> tuple[Records, DataFrame | None]:
        """Return the messages up to a position with those that waited; besides, the latter alone."""
        waiting, of = None, list[str]()
        if before.waiting:
            waiting = self._spark.read.schema(RECORD).parquet(spark_input(self._folder / before.waiting))
            of = [row["topic"] for row in waiting.select("topic").distinct().collect()]
        read = self._topics.read(self._spark, before.offsets, offsets, of)
        records = unpacked(read, self._protocol, self._place.params)
        if waiting is not None:
            records = replace(records, frame=waiting.unionByName(records.frame, allowMissingColumns=True))
        return records, waiting

    def applied_records(self) -> tuple[Records, DataFrame]:
        """Return the messages up to the last commit, as far as the topic still has them; besides, as they were sent.

        Raises SourceChanged where it was created again, ConfigError where nothing was committed.
        """
        done = self._progress.offsets
        if done is None:
            hint = "name the --checkpoint of the replica"
            raise ConfigError("nothing of the topic has been applied", where=str(self._folder), hint=hint)
        self._topics.end_offsets(done)
        sent = self._topics.read(self._spark, None, done)
        return unpacked(sent, self._protocol, self._place.params), sent.frame

    def decoded(self, records: Records) -> Events:
        """Return the events of messages that were read before."""
        history = SchemaHistory(self._history)
        return decode_records(records, self._protocol, registry=self._registry, zone=self._zone, history=history)

    def batch_of(self, events: Events) -> Batch:
        """Return a batch of what was read before: to commit it moves nothing but the number of batches."""
        names = [(changes.schema.database, changes.schema.table) for changes in events.tables]
        before = self._progress
        progress = replace(before, batch=before.batch + 1, tables=sorted({*before.tables, *names}))
        return Batch(replace(events, history=None), progress, begun=self._begun_upto(progress.batch))

    def begin(self, batch: Batch) -> None:
        """Take note that what a batch holds is about to be applied, as a next one need not have the same."""
        upto = batch.progress.watermark if self._resolved_only else compose(time.time_ns() // 1_000_000)
        if upto is None:
            return
        # Messages of before move no offsets, and leave alone those that wait.
        before, again = self._attempt(batch.progress.batch), not batch.moved
        begun = {
            "batch": batch.progress.batch,
            "upto": max(upto, before.get("upto", upto)),
            "waits": (self._resolved_only or again) and before.get("waits", not before),
            "again": again and before.get("again", not before),
        }
        if begun != before:
            self._begun.write(json.dumps(begun).encode())

    @property
    def is_within(self) -> bool:
        """Tell whether a run ended within a batch of new messages: some of it may be applied, and is not committed."""
        attempt = self._attempt(self._progress.batch + 1)
        return bool(attempt) and not attempt.get("again", False)

    def _begun_upto(self, batch: int) -> int | None:
        """Return the commit-ts that nothing of earlier attempts at a batch lies above, None where there were none."""
        return self._attempt(batch).get("upto")

    def _attempt(self, batch: int) -> dict[str, Any]:
        """Return what was noted of earlier attempts at a batch, nothing where there were none."""
        begun: dict[str, Any] = json.loads(self._begun.read() or b"{}")
        return begun if begun.get("batch") == batch else {}

    def _check_waits(self, batch: int, resolved: int) -> None:
        """Raise ConfigError where rows of a batch have to wait that an earlier attempt at it may have applied.

        A table without a key would get them twice: offsets tell what it has, and rows that waited come in no order.
        """
        attempt = self._attempt(batch)
        if attempt and attempt["upto"] > resolved and not attempt.get("waits", False):
            raise ConfigError(
                "the last run ended within a batch whose rows did not wait for a watermark, as they would now",
                where=str(self._folder),
                hint="run once without --resolved-only, to the end of that batch, and then with it",
            )

    def commit(self, batch: Batch) -> None:
        """Take note, for good, that a batch has been dealt with."""
        if batch.events.history is not None:
            self._history = batch.events.history.state()
        before = self._progress.waiting
        self._save(batch.progress)
        if before and before != batch.progress.waiting:
            remove_tree(self._folder / before, ignore_errors=True)

    def expired_since(self, start_ts: int) -> str | None:
        """Return which messages expired that may have been younger than a TSO; see `Topics.expired_since`."""
        return self._topics.expired_since(start_ts)

    def check(self) -> None:
        """Raise SourceChanged where the topic no longer holds what follows the last commit."""
        self._topics.end_offsets(self._progress.offsets)

    def restart(self) -> None:
        """Read from the beginning again; what has been shown of schemas stays known, as it may be gone from there."""
        before = self._progress.waiting
        self._save(self._unread())
        if before:
            remove_tree(self._folder / before, ignore_errors=True)

    def _unread(self) -> Progress:
        return Progress(None, {}, None, 0, None, 0, (), self._source, checkpoint=uuid4().hex)

    def _grown(self, offsets: Offsets) -> set[str]:
        """Return the places that have got more since their offsets were looked at."""
        try:
            ends = self._topics.end_offsets(offsets).ends
        except SourceChanged:  # since a moment ago: the next batch tells it
            if self._on_data_loss is OnDataLoss.FAIL:
                raise
            return set(offsets.ends)
        return {place for place, end in ends.items() if end != offsets.ends.get(place)}

    def _save(self, progress: Progress) -> None:
        self._state.write(state_of(progress, self._history))
        self._progress = progress

    def _load(self) -> tuple[Progress, bytes]:
        try:
            state = self._state.read()
            if state is None:
                return self._unread(), _NO_HISTORY
            progress, schemas = parsed_state(state)
            there = count_rows(self._folder / progress.waiting) if progress.waiting else 0
            if there != (rows := progress.rows_waiting + progress.rows_unresolved):
                raise ValueError(f"{there} of {rows} rows wait beside it in {progress.waiting}")
        except (OSError, ValueError, TypeError, LookupError, ArrowException) as error:
            raise no_state(error, self._folder / STATE) from None
        return progress, schemas

    def _keep(
        self, batch: int, unknown: DataFrame | None, unknown_rows: int, later: DataFrame | None, later_rows: int
    ) -> str | None:
        """Keep the rows that wait for the next batch; return the name of their folder, None where there are none."""
        rows = unknown_rows + later_rows
        if not rows:
            return None
        if rows > self._max_waiting:
            raise DecodeError(
                f"{unknown_rows} rows wait for the schemas of their tables, {later_rows} for a watermark that covers "
                f"them, and no more than {self._max_waiting} may",
                where=str(self._folder),
                hint="start where the topic has its schemas: at a BOOTSTRAP message, or at its beginning"
                if unknown_rows
                else "the sender has to send watermarks to every partition (enable-tidb-extension=true); where some "
                "partitions are far ahead of others, a larger --batch-size, or none, lets them meet",
            )
        name = f"{WAITING}-{batch}"
        waiting = union([frame for frame in (unknown, later) if frame is not None])
        waiting.write.mode("overwrite").parquet(spark_output(self._folder / name))
        check_written(rows, count_rows(self._folder / name), self._folder / name)
        return name

    def _check_times(self, events: Events) -> None:
        if events.tables and not events.has_commit_ts:
            raise ConfigError(
                "rows cannot wait for their watermark, as not every message tells its commit-ts",
                where=self._source,
                hint="a protocol in which all do: Simple, or Debezium or Canal-JSON with enable-tidb-extension=true",
            )


def _without_unknown(events: Events) -> tuple[Events, DataFrame | None, int]:
    """Take out the messages of rows whose schema has not come yet; only a source with schemas in it has some."""
    if events.history is None:
        return events, None, 0
    unknown = F.col("reason") == Reason.UNKNOWN_TABLE
    rows = events.rejected.where(unknown).count()
    if not rows:
        return events, None, 0
    messages = events.rejected.where(unknown).select(*RECORD.fieldNames())
    return replace(events, rejected=events.rejected.where(~unknown)), messages, rows


def _without_replays(events: Events, before: Progress, waiting: DataFrame | None, *, ordered: bool) -> Events:
    """Leave out the rows that came in an earlier batch; those that waited for their schema since then did not."""
    if not before.watermarks:
        return events
    waited = dict[str, int]()
    if waiting is not None:
        place = F.lit("") if ordered else _place()
        ends = waiting.groupBy(place.alias("place")).agg(F.max("offset").alias("end")).collect()
        waited = {row["place"]: row["end"] for row in ends}
    fresh = partial(_fresh, dict(before.watermarks), before.covered, waited, ordered)
    known, last = set(before.tables), max(before.watermarks.values())

    def checked(changes: TableChanges) -> TableChanges:
        later = events.position == "commit_ts" and (changes.rows_from or 0) > last
        if later or (changes.schema.database, changes.schema.table) not in known:
            return changes
        return chosen(changes, fresh)

    return replace(events, tables=tuple(map(checked, events.tables)))


def _fresh(
    watermarks: Mapping[str, int], covered: int, waited: Mapping[str, int], ordered: bool, rows: pa.RecordBatch
) -> pa.Array:
    """Return which rows came in no earlier batch, by the watermark of each place; up to `waited` they do not count."""
    topic, partition = rows.column("topic").cast(TEXT), rows.column("partition").cast(TEXT)
    count, parts = rows.num_rows, [topic, partition, pa.scalar("/", TEXT)]
    place = pa.repeat("", count) if ordered else pc.binary_join_element_wise(*parts, null_handling="skip")
    # A partition that has no watermark yet may get what others had before it was there.
    passed = pc.max_element_wise(by_distinct(place, watermarks.get, pa.int64()), pa.scalar(covered, pa.int64()))
    replayed = pc.and_(pc.is_null(rows.column("reason")), _up_to(rows.column("commit_ts"), passed))
    end = by_distinct(place, waited.get, pa.int64())
    return pc.invert(pc.and_not(replayed, _up_to(rows.column("offset"), end)))


def _up_to(number: pa.Array, end: pa.Array) -> pa.Array:
    return pc.fill_null(pc.less_equal(number, end), False)


def _place() -> Column:
    return F.concat_ws("/", "topic", "partition")


def _watermarks(events: Events, records: Records) -> dict[str, int]:
    """Return the highest watermark of each partition; those of a source in one sequence count for all of them."""
    if events.watermarks is None:
        return {}
    if records.ordered:
        return {"": events.watermark or 0}
    rows = events.watermarks.groupBy(_place().alias("place")).agg(F.max("commit_ts").alias("ts")).collect()
    return {row["place"]: row["ts"] for row in rows}


def _passed(watermarks: Mapping[str, int], ends: Mapping[str, int], grown: set[str]) -> int | None:
    """Return the commit-ts up to which every partition has been read, None where one has more to tell first.

    `grown` are the places that have got more since they were read. The others have passed the highest
    watermark of all: TiCDC sends one after everything up to it, wherever that went. So a partition that nothing is
    written to, or whose tables are gone, holds nothing up. Records in one sequence have passed what any of them told.
    """
    highest = max(watermarks.values(), default=None)
    if highest is None or not grown or "" in watermarks:
        return highest
    own = {place: ts for place, ts in watermarks.items() if place in ends} or watermarks  # else they are files
    passed = [own.get(place) if place in grown or place not in ends else highest for place in {*own, *ends}]
    return None if None in passed else min(ts for ts in passed if ts is not None)
