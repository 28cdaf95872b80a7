"""Publish: row changes → columns → topic and partition → schema → message → topic.

A row leaves only after its schema is registered. Where the registry refuses a schema, or a row must stop the
changefeed, all before that row is published, nothing after it, and the cause ends the run.
Schema changes, bootstraps and watermarks leave among the rows, each where it stood in the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast._policy import OnError
from tidecast.config import ChangefeedConfig
from tidecast.model import RECORD, Events
from tidecast.protocols import Message, check_writable, codec_for, protocol_named
from tidecast.publish._batch import Batch, OutgoingTable, Stop, first_stop, rules_of
from tidecast.publish._bootstrap import Bootstraps
from tidecast.publish._control_events import (
    Control,
    TableTopics,
    TopicLifetime,
    control_frame,
    topic_lifetimes,
    watermark_frame,
)
from tidecast.publish._encode import sent_messages, unsendable_rows
from tidecast.publish._fit import Fitting
from tidecast.publish._order import joining, row_sequence
from tidecast.publish._schema_events import SchemaEvents
from tidecast.publish._select import register_schemas, select_tables
from tidecast.publish._stats import BatchStats, collect_stats
from tidecast.registry import Registry
from tidecast.routing import EventFilters, filter_errors
from tidecast.spark import union
from tidecast.storage import AnyPath
from tidecast.topics import Counts, WritableTopics, check_storage, refuse_dead_letters, write_dead_letters


@dataclass
class Published:
    """The result of a run.

    `messages` are rows by table and topic; `ddl`, `bootstraps` and `watermarks` events that went to all partitions, and
    `watermark` the highest of the last; `skipped` rows by table, left out for want of a key; `dead_letters` messages by
    reason; `schemas` those that the registry was asked for; `claims` messages whose whole is in the claim check's
    storage; `table_topics` the tables that are there at the end, each with its topic; `codec` what the protocol's
    writer must know in the next run; `warnings` what else a user should know.
    """

    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    schemas: int = 0
    ddl: int = 0
    bootstraps: int = 0
    watermarks: int = 0
    watermark: int | None = None
    claims: int = 0
    table_topics: TableTopics = field(default_factory=dict)
    codec: bytes = b""
    warnings: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of row messages published."""
        return sum(self.messages.values())


def publish(
    events: Events,
    config: ChangefeedConfig,
    sink: WritableTopics,
    registry: Registry | None = None,
    *,
    zone: str = "UTC",
    cluster_id: str = "default",
    bootstraps: Bootstraps | None = None,
    table_topics: TableTopics | None = None,
    codec_state: bytes = b"",
    dead_letters: AnyPath,
    on_error: str = "dead-letter",
) -> Published:
    """Publish events to the topics that the configuration's rules name, in the configuration's protocol.

    `registry` serves Avro. `zone` is the time zone of TIMESTAMP text, `cluster_id` that of Debezium messages.
    `bootstraps` is what earlier runs know of repeated schemas, `table_topics` the tables that they left with their
    topics, `codec_state` the `Published.codec` of the run before; by default there were none. Rows of table versions
    without a handle key are skipped and counted, unless `force-replicate` is on. Messages that could not be read, and
    rows that have no form in the protocol, go to the folder `dead_letters`; with `on_error="fail"` the first of them
    raises DecodeError and nothing is published. Raises ConfigError, EncodeError, CorruptedData and SchemaRefused; see
    the module for what is published then.
    """
    policy = OnError.parse(on_error)
    check_publishable(config)
    codec = codec_for(config.protocol, config.codec_options(zone, cluster_id), registry, codec_state)
    filters = EventFilters(config.event_filters, zone, case_sensitive=config.file.case_sensitive)
    batch = Batch.of(events, rules_of(events.ddl, config, sink, codec, filters, zone=zone))
    return _Run(batch, bootstraps or bootstraps_of(config), table_topics or {}).publish(dead_letters, policy)


def check_publishable(config: ChangefeedConfig) -> None:
    """Raise ConfigError where nothing can be published under a configuration, whatever the events are."""
    if config.file.filter.ignore_txn_start_ts:
        raise ConfigError(
            "[filter] ignore-txn-start-ts cannot be applied: no source tells a transaction's start-ts",
            code="CDC:ErrFilterRuleInvalid",
            hint="take it out, and filter with rules or event-filters",
        )
    check_writable(config.protocol)
    large = config.large_message_handle
    if large.large_message_handle_option == "claim-check":
        check_storage(large.claim_check_storage_uri.get_secret_value())


def announce(
    spark: SparkSession,
    config: ChangefeedConfig,
    sink: WritableTopics,
    registry: Registry | None = None,
    *,
    topics: Iterable[str] = (),
    bootstraps: Bootstraps,
    watermark: int | None = None,
    cluster_id: str = "default",
) -> bool:
    """Send what is due without any row: repeated schemas, and a watermark to `topics` and the default topic.

    Tells whether there was something to send. Raises what `publish` raises.
    """
    if watermark is None and not (bootstraps.enabled and bootstraps.due()):
        return False
    codec = codec_for(config.protocol, config.codec_options("UTC", cluster_id), registry)
    nothing = Events((), spark.createDataFrame([], RECORD), ordered=True, position="offset")
    return _Run(Batch.of(nothing, rules_of((), config, sink, codec)), bootstraps, {}).announce(watermark, topics)


def bootstraps_of(config: ChangefeedConfig, state: bytes = b"[]") -> Bootstraps:
    """Return when a changefeed repeats schemas, never where its protocol has none; `state` is what a run left."""
    if config.storage_sink:
        return Bootstraps(_NEVER, _NEVER, state)  # a schema file is written once
    if not protocol_named(config.protocol).bootstraps:
        return Bootstraps(0, 0)
    sink = config.sink
    return Bootstraps(sink.send_bootstrap_interval_in_sec, sink.send_bootstrap_in_msg_count, state)


_NEVER = 1 << 40
_NO_ROWS = BatchStats()
_UNTIMED = (
    "rows without a commit-ts leave with 0 in its place: whoever goes by it may keep an older row, "
    "or lose newer ones to a TRUNCATE or DROP TABLE"
)
_CHECKSUMS_LEFT_OUT = (
    "rows of the source carry checksums, and the messages carry none: "
    'integrity-check-level = "correctness" under [integrity] sends them, as Avro or Simple'
)


class _Run:
    """The stages of one batch, in their order: select, register, encode, fit, order, write."""

    def __init__(self, batch: Batch, bootstraps: Bootstraps, table_topics: TableTopics) -> None:
        self._batch, self._table_topics = batch, table_topics
        self._fitting = Fitting.of(batch.config, batch.topics.info(batch.config.default_topic))
        self._schemas = SchemaEvents(batch, bootstraps, self._fitting)
        self._report = Published()

    def publish(self, folder: AnyPath, on_error: OnError) -> Published:
        """Publish the batch; see `tidecast.publish.publish`."""
        batch, report = self._batch, self._report
        selected, report.skipped = select_tables(batch, self._table_topics)
        tables = self._schemas.named(selected)
        if on_error is OnError.FAIL:
            refuse_dead_letters(batch.events.rejected)
        stop, tables = register_schemas(batch.codec, tables)
        report.schemas = batch.codec.schemas
        stop = first_stop(first_stop(stop, self._schemas.renamed_in()), self._schemas.misrouted(self._table_topics))
        fitted = self._encode(tables)
        unsent, stats = batch.events.rejected, _NO_ROWS
        controls: list[Control] = []
        if fitted:
            names = [table.source.table for table in tables]
            stats = collect_stats(fitted, batch.events, self._fitting, names)
            stop = first_stop(stop, stats.stop)
            if stop:
                fitted = fitted.where(stop.before(batch.events))
                stats = collect_stats(fitted, batch.events, self._fitting, names)
            if stats.unsendable:
                unsent = unsent.unionByName(unsendable_rows(fitted))
                if on_error is OnError.FAIL:
                    refuse_dead_letters(unsent)
            for number, rows in stats.rows.items():
                outgoing = tables[number]
                report.messages[outgoing.source.name, outgoing.table.topic] += rows
            report.claims = stats.claims
            if stats.untimed and batch.codec.needs_commit_ts:
                report.warnings.append(_UNTIMED)
            controls = list(self._schemas.bootstraps(tables, stats.rows, fitted, moved=stats.moved))
            report.bootstraps += len(controls)
        stop = self._send(fitted, controls, stop, stats, tables)
        report.dead_letters = write_dead_letters(unsent, folder)
        report.codec = batch.codec.state()
        if batch.events.checksums and not batch.codec.checksums:
            report.warnings.append(_CHECKSUMS_LEFT_OUT)
        report.warnings += self._schemas.kept_back()
        if stop:
            raise stop.error
        return report

    def announce(self, watermark: int | None, topics: Iterable[str]) -> bool:
        """Send what is due; see `tidecast.publish.announce`."""
        batch = self._batch
        controls = list(self._schemas.due(0))
        mark = batch.codec.watermark
        if watermark is not None and mark is not None:
            message = self._fitting.packed(mark(watermark))
            for topic in {batch.config.default_topic, *topics}:
                controls.append(Control(1, topic, batch.topics.partitions(topic), message))
        stop = self._send(None, controls, None)
        if stop:
            raise stop.error
        return bool(controls)

    def _encode(self, tables: list[OutgoingTable]) -> DataFrame | None:
        """Return the messages of all tables (see `FITTED`), made once; None where there is no table."""
        batch = self._batch
        with filter_errors():
            sent = sent_messages(batch, tables, batch.codec.encoder, self._fitting)
            return sent.localCheckpoint() if sent else None

    def _send(
        self,
        fitted: DataFrame | None,
        controls: list[Control],
        stop: Stop | None,
        stats: BatchStats = _NO_ROWS,
        tables: Sequence[OutgoingTable] = (),
    ) -> Stop | None:
        """Send the rows and controls that come before the stop; return it, or an earlier one of a control."""
        batch, report = self._batch, self._report
        changes = list(self._schemas.ddl())
        report.ddl = len(changes)
        controls = [*controls, *chain.from_iterable(changes)]
        for control in controls:
            size = self._fitting.size_of(control.message)
            if size > self._fitting.limit:
                where = f"schema of a table in topic {control.topic}"
                stop = first_stop(stop, Stop(control.position, self._fitting.too_large(control.table, size, where)))
        watermarks = self._watermarks()
        if stop:
            controls = [c for c in controls if (c.position or 0) < (stop.position or 0)]
            if watermarks is not None:
                watermarks = watermarks.where(F.col("sequence.at") < F.lit(stop.position))
        others = [watermarks] if watermarks is not None else []
        if controls:
            others.append(control_frame(batch.events.rejected.sparkSession, controls, batch.events))
        frames = [frame.withColumn("plan", F.lit(None).cast("int")) for frame in others]
        if fitted and report.total:
            good = fitted.where(F.col("reason").isNull())
            if stop:
                good = good.where(stop.before(batch.events))
            if report.claims:
                self._fitting.store(good)
            sequence = row_sequence(batch.events, moved=stats.moved, alone=not (stats.several_origins or others))
            frames.append(good.select("topic", "partition", "key", "value", sequence.alias("sequence"), "plan"))
        if frames:
            known = None if stop or watermarks is not None else _counts(controls, stats, tables)
            complete = joining([batch.codec.tails(t.table) for t in tables])
            batch.topics.sink.write(union(frames, batch.events.tasks), complete, known)
        return stop

    def _watermarks(self) -> DataFrame | None:
        batch, report = self._batch, self._report
        schemas = (changes.schema for changes in batch.events.tables)
        lifetimes, report.table_topics = topic_lifetimes(
            self._table_topics, batch.events.ddl, schemas, batch.passes, batch.router
        )
        lifetimes = [TopicLifetime(batch.config.default_topic), *lifetimes]
        if batch.codec.watermark is None:
            return None
        mark = partial(_packed, self._fitting, batch.codec.watermark)
        made = watermark_frame(batch.events, mark, lifetimes, batch.topics.partitions)
        if made is None:
            return None
        frame, report.watermarks, report.watermark = made
        return frame


def _packed(fitting: Fitting, mark: Callable[[int], Message], commit_ts: int) -> Message:
    return fitting.packed(mark(commit_ts))


def _counts(controls: Iterable[Control], stats: BatchStats, tables: Sequence[OutgoingTable]) -> Counts:
    """Return the number of messages by topic and partition."""
    counts = Counter((control.topic, partition) for control in controls for partition in control.partitions)
    for (number, partition), rows in stats.partitions.items():
        counts[tables[number].table.topic, partition] += rows
    return counts
