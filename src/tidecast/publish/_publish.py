"""Publish: row changes → columns → topic and partition → schema → message → topic.

A row leaves only after its schema is registered. Where the registry refuses a schema, or a row must stop the
changefeed, what comes before that row is published, nothing of what comes after, and the cause ends the run.
Schema changes, bootstraps and watermarks leave among the rows, each where it stood in the source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast._errors import ConfigError, CorruptedData, EncodeError, SchemaRefused, TerminalError, TidecastError
from tidecast.checksum import row_checksum
from tidecast.config import ChangefeedConfig
from tidecast.model import CHECKSUM, RECORD, Ddl, Events, Op, Reason, TableChanges, TableSchema
from tidecast.protocols import Codec, Message, RoutedTable, check_writable, codec_for, protocol_named
from tidecast.publish._bootstrap import Bootstraps, table_key
from tidecast.publish._control_events import (
    Control,
    TableTopics,
    TopicLifetime,
    control_frame,
    ddl_topic,
    row_sequence,
    topic_lifetimes,
    watermark_frame,
)
from tidecast.publish._split import MOVED, split_key_updates
from tidecast.registry import Registry
from tidecast.routing import EventFilters, Router, TableFilter
from tidecast.spark import parallel_map, union
from tidecast.topics import (
    OnError,
    TopicInfo,
    Topics,
    check_storage,
    claim_location,
    compress,
    compressed,
    refuse_dead_letters,
    store_claims,
    write_dead_letters,
)

_log = logging.getLogger(__name__)

_OVERHEAD = 36
"""What TiCDC adds to key and value for a message's own bytes."""

_LIMIT_MARGIN = 128
"""How much smaller than its topic allows TiCDC keeps a message."""


@dataclass
class Published:
    """What a run published.

    `messages` are rows by table and topic; `ddl`, `bootstraps` and `watermarks` events that went to all partitions, and
    `watermark` the highest of the last; `skipped` rows by table, left out for want of a key; `dead_letters` messages by
    reason; `schemas` those that the registry was asked for; `claims` messages whose whole is in the claim check's
    storage; `table_topics` the tables that are there at the end, each with its topic; `codec` what the protocol's
    writer must know in the next run.
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

    @property
    def total(self) -> int:
        """The number of row messages published."""
        return sum(self.messages.values())


@dataclass(frozen=True)
class _Plan:
    """The rows of one table version on their way out."""

    changes: TableChanges
    table: RoutedTable
    partitions: int


@dataclass(frozen=True)
class _Stop:
    """Why a run ends before its last row, and the position of the row at which it does."""

    position: int | None
    error: TidecastError


def publish(
    events: Events,
    config: ChangefeedConfig,
    sink: Topics,
    registry: Registry | None = None,
    *,
    zone: str = "UTC",
    cluster_id: str = "default",
    bootstraps: Bootstraps | None = None,
    table_topics: TableTopics | None = None,
    codec_state: bytes = b"",
    dead_letters: Path,
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
    filters = EventFilters(config.filter.event_filters, zone, case_sensitive=config.case_sensitive)
    run = _Run(
        events,
        config,
        sink,
        codec,
        Router(config.routing, zone),
        filters,
        bootstraps or bootstraps_of(config),
        table_topics or {},
    )
    return run.publish(dead_letters, policy)


def check_publishable(config: ChangefeedConfig) -> None:
    """Raise ConfigError where nothing can be published under a configuration, whatever the events are."""
    if config.filter.ignore_txn_start_ts:
        raise ConfigError(
            "[filter] ignore-txn-start-ts cannot be applied: no protocol carries a transaction's start-ts",
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
    sink: Topics,
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
    run = _Run(nothing, config, sink, codec, Router(config.routing), EventFilters(()), bootstraps, {})
    return run.announce(watermark, topics)


def bootstraps_of(config: ChangefeedConfig, state: bytes = b"[]") -> Bootstraps:
    """Return when a changefeed repeats schemas; `state` is what an earlier run left."""
    sink = config.sink
    return Bootstraps(sink.send_bootstrap_interval_in_sec, sink.send_bootstrap_in_msg_count, state)


class _Run:
    """One batch of events on its way out."""

    def __init__(
        self,
        events: Events,
        config: ChangefeedConfig,
        sink: Topics,
        codec: Codec,
        router: Router,
        filters: EventFilters,
        bootstraps: Bootstraps,
        table_topics: TableTopics,
    ) -> None:
        self.events, self.config, self.sink, self.codec, self.router = events, config, sink, codec, router
        self.filters = filters
        self.bootstraps = bootstraps
        self._table_topics = table_topics
        self.report = Published()
        self._wanted = TableFilter(config.filter.rules, case_sensitive=config.case_sensitive)
        self._topics: dict[str, TopicInfo] = {}
        large = config.large_message_handle
        protocol = protocol_named(config.protocol)
        self._compression = large.large_message_handle_compression if protocol.compressed else "none"
        self._large = large.large_message_handle_option
        self._storage = large.claim_check_storage_uri.get_secret_value()
        self._raw_claims = large.claim_check_raw_value
        self._moved = False
        allowed = self._ensured(config.default_topic).max_message_bytes
        self._limit = min(config.max_message_bytes, allowed - _LIMIT_MARGIN) if allowed else config.max_message_bytes

    def publish(self, dead_letters: Path, on_error: OnError) -> Published:
        """Publish the batch; see `tidecast.changefeed.publish`."""
        plans = self._plans()
        if on_error is OnError.FAIL:
            refuse_dead_letters(self.events.rejected)
        stop, plans = self._prepare(plans)
        stop = _first(stop, self._renamed_in())
        # Rows are encoded once, and what follows need not plan so many tables again.
        parts = parallel_map(lambda part: self._sized(self._encode(*part)).localCheckpoint(), enumerate(plans))
        encoded = union(parts) if parts else None
        letters = self.events.rejected
        controls: list[Control] = []
        if encoded:
            found = self._collect_stats(encoded)
            stop = _first(stop, found.stop)
            leaving = encoded
            if stop:
                leaving = encoded.where(self._before(stop))
                found = self._collect_stats(leaving)
            if found.unsendable:
                letters = letters.unionByName(_unsendable(leaving))
                if on_error is OnError.FAIL:
                    refuse_dead_letters(letters)
            for number, rows in found.rows.items():
                table = plans[number].table
                self.report.messages[table.schema.name, table.topic] += rows
            self.report.claims, self._moved = found.claims, found.moved
            controls = list(self._bootstraps(plans, found.rows, leaving))
        stop = self._send(encoded, controls, stop)
        self.report.dead_letters = write_dead_letters(letters, dead_letters)
        self.report.codec = self.codec.state()
        if stop:
            raise stop.error
        return self.report

    def announce(self, watermark: int | None, topics: Iterable[str]) -> bool:
        """Send what is due; see `tidecast.changefeed.announce`."""
        controls = list(self._due(0))
        said = self.codec.watermark(F.lit(watermark).cast("bigint")) if watermark is not None else None
        if said:
            spark = self.events.rejected.sparkSession
            key, value = (
                spark.range(1).select(*(part.alias(name) for part, name in zip(said, "kv", strict=True))).collect()[0]
            )
            message = self._packed((bytes(key) if key is not None else None, bytes(value)))
            controls += [
                Control(1, topic, self._topic(topic), message) for topic in {self.config.default_topic, *topics}
            ]
        stop = self._send(None, controls, None)
        if stop:
            raise stop.error
        return bool(controls)

    def _passes(self, schema: TableSchema) -> bool:
        """Tell whether the rules let a table through and it has a key, or needs none."""
        return self._wanted.matches(schema.database, schema.table) and self._eligible(schema)

    def _eligible(self, schema: TableSchema) -> bool:
        return bool(schema.handle_key) or self.config.force_replicate

    def _topic(self, topic: str) -> range:
        """Return the partitions of a topic that is going to be written."""
        return range(self._ensured(topic).partitions)

    def _ensured(self, topic: str) -> TopicInfo:
        if topic not in self._topics:
            self._topics[topic] = self.sink.ensure(topic)
        return self._topics[topic]

    def _plans(self) -> list[_Plan]:
        """Choose the table versions that leave."""
        tables = []
        for changes in self.events.tables:
            schema = changes.schema
            if not self._wanted.matches(schema.database, schema.table):
                continue
            if self._eligible(schema):
                table = RoutedTable(schema, self.router.select_columns(schema), self.router.topic_for(schema))
                tables.append((changes, table))
            else:
                self.report.skipped[schema.name] += changes.rows
        self.router.check_default_topic([table.selected for _, table in tables])
        self._warn_of_lossy_columns(table for _, table in tables)
        return [_Plan(changes, table, len(self._topic(table.topic))) for changes, table in tables]

    def _warn_of_lossy_columns(self, tables: Iterable[RoutedTable]) -> None:
        """Tell in the log, when a table comes to a topic, what the protocol's form does to values."""
        told = dict(self._table_topics)
        for table in tables:
            name = (table.schema.database, table.schema.table)
            lossy = self.codec.lossy_columns(table) if told.get(name) != table.topic else ()
            told[name] = table.topic
            if lossy:
                words = "; ".join(f"{column}: {damage}" for column, damage in lossy)
                _log.warning("topic %s, table %s: %s", table.topic, table.schema.name, words)

    def _prepare(self, plans: list[_Plan]) -> tuple[_Stop | None, list[_Plan]]:
        """Register every schema that a row needs, in the order in which rows need them; stop at the first refusal.

        Returns the plans whose rows, or at least whose deletes, can leave.
        """
        steps: list[tuple[int, int, _Plan, Callable[[RoutedTable], None]]] = []
        for plan in plans:
            if plan.changes.rows_from is not None:
                steps.append((plan.changes.rows_from, 0, plan, self.codec.prepare_key))
            if plan.changes.upserts_from is not None:
                steps.append((plan.changes.upserts_from, 1, plan, self.codec.prepare_value))
        ready, stop = [], None
        for position, is_value, plan, step in sorted(steps, key=lambda s: s[:2]):
            try:
                step(plan.table)
            except (SchemaRefused, EncodeError) as error:
                stop = _Stop(position, error)
                break
            if not is_value:
                ready.append(plan)
        self.report.schemas = self.codec.schemas
        return stop, [plan for plan in plans if plan in ready]

    def _encode(self, number: int, plan: _Plan) -> DataFrame:
        """Return the messages of one table version: where each came from and goes to, or why it cannot go."""
        frame, table = plan.changes.frame, plan.table
        if self.config.output_raw_change_event:
            frame = frame.withColumn(MOVED, F.lit(False))
        else:
            frame = split_key_updates(frame, table.schema)
        # Filters see what is left after the split: a delete and an insert, each by itself.
        frame = self.filters.kept(replace(plan.changes, frame=frame))
        if not self.codec.checksums:
            frame = frame.withColumn("checksum", F.lit(None).cast(CHECKSUM))
        elif not self.events.checksums:
            frame = frame.withColumn("checksum", _computed(table.schema))
        row = F.when(F.col("op") == Op.DELETE, F.col("old")).otherwise(F.col("data"))
        detail = F.coalesce(F.col("detail"), self.codec.unencodable(table))
        reason = F.coalesce(F.col("reason"), F.when(detail.isNotNull(), F.lit(Reason.NOT_IN_PROTOCOL)))
        good = reason.isNull()
        partition = self.router.partition_for(plan.changes.schema, row, F.col("commit_ts"), plan.partitions)
        routed = frame.select(
            "*",
            reason.alias("why"),
            F.when(good, self.codec.key(table)).alias("message_key"),
            F.when(good, self.codec.value(table)).alias("message_value"),
        )
        location, reduced = F.lit(None).cast("string"), F.lit(None).cast("binary")
        if self._large != "none":
            # Under compression nobody knows yet whether a message is too large.
            doubtful = _size(F.col("message_key"), F.col("message_value")) > self._limit
            doubtful = doubtful if self._compression == "none" else F.col("message_value").isNotNull()
            if self._large == "claim-check":
                location = F.when(doubtful, claim_location(self._storage, F.col("message_value")))
            claim = location if self._large == "claim-check" else None
            reduced = F.when(doubtful, self.codec.reduced(table, claim))
        return routed.select(
            F.struct(*RECORD.fieldNames(), "commit_ts").alias("source"),
            F.lit(number).alias("plan"),
            "op",
            MOVED,
            F.col("why").alias("reason"),
            F.when(~good, detail).alias("detail"),
            F.col("checksum.corrupted").alias("corrupted"),
            F.lit(table.topic).alias("topic"),
            partition.alias("partition"),
            F.col("message_key").alias("key"),
            F.col("message_value").alias("whole"),
            reduced.alias("reduced"),
            location.alias("location"),
        )

    def _sized(self, encoded: DataFrame) -> DataFrame:
        """Choose the form that fits: the whole message or the reduced one; `stop` tells the size that nothing fits."""
        limit = self._limit
        encoded = compressed(encoded, ("whole", "reduced"), self._compression)
        fits = _size(F.col("key"), F.col("whole")) <= limit
        value = F.when(fits | F.col("reduced").isNull(), F.col("whole")).otherwise(F.col("reduced"))
        chosen = encoded.withColumns({"value": value, "location": F.when(~fits, F.col("location"))})
        size = _size(F.col("key"), F.col("value"))
        stops = [F.when(size > limit, size)]
        if self.config.integrity.corruption_handle_level == "error":
            stops.append(F.when(F.col("corrupted"), F.lit(0)))
        kept = F.when(F.col("location").isNotNull(), F.col("whole"))
        return chosen.withColumns({"stop": F.coalesce(*stops), "whole": kept}).drop("reduced")

    def _collect_stats(self, encoded: DataFrame) -> _BatchStats:
        """Count the encoded rows. A row that is too large, or damaged under `error`, stops the run."""
        name = self.events.position
        position = F.col(f"source.{name}") if name else F.lit(0).cast("bigint")
        place = F.struct(position.alias("position"), "stop", "topic", "source.partition", "source.offset")
        where = F.struct(place.alias("place"), F.col("source.topic").alias("origin"))
        sendable = F.col("reason").isNull()
        rows = (
            encoded.groupBy("plan", sendable.alias("sendable"))
            .agg(
                F.count("*").alias("rows"),
                F.count("location").alias("claims"),
                F.max(MOVED).alias("moved"),
                F.min(F.when(F.col("stop").isNotNull(), where)).alias("stop"),
            )
            .collect()
        )
        stops = sorted((r["stop"] for r in rows if r["stop"]), key=lambda s: s["place"]["position"])
        return _BatchStats(
            rows={r["plan"]: r["rows"] for r in rows if r["sendable"]},
            unsendable=sum(r["rows"] for r in rows if not r["sendable"]),
            claims=sum(r["claims"] for r in rows),
            moved=any(r["moved"] for r in rows),
            stop=self._stop(stops[0]) if stops else None,
        )

    def _stop(self, said: Row) -> _Stop:
        place = said["place"]
        where = f"topic {said['origin']} partition {place['partition']} offset {place['offset']}"
        if place["stop"]:
            error: TidecastError = self._too_large(place["topic"], place["stop"], where)
        else:
            error = CorruptedData("the source found this row damaged", code="CDC:ErrCorruptedDataMutation", where=where)
        return _Stop(place["position"] if self.events.position else None, error)

    def _too_large(self, topic: str, length: int, where: str) -> EncodeError:
        limit = self._limit
        reducible = protocol_named(self.config.protocol).large_messages(self.config.codec_options())
        other = ", or set large-message-handle-option" if reducible else ""
        return EncodeError(
            f"message is too large. topic:{topic}, length:{length}, maxMessageBytes:{limit}",
            code="CDC:ErrMessageTooLarge",
            where=where,
            hint=f"raise max-message-bytes in the sink URI{other}",
        )

    def _before(self, stop: _Stop) -> Column:
        """Return which rows come before a stop; none where the source's rows have no common order."""
        if stop.position is None or self.events.position is None:
            return F.lit(False)
        return F.col(f"source.{self.events.position}") < stop.position

    def _bootstraps(self, plans: list[_Plan], rows: Mapping[int, int], leaving: DataFrame) -> Iterator[Control]:
        """Yield the schemas to be repeated: those of the source, and what the rules of bootstraps ask for beside."""
        rules = self.bootstraps
        if not rules.enabled:
            return
        yield from self._due(min((p.changes.rows_from for p in plans if p.changes.rows_from is not None), default=None))
        told: dict[str, int] = {}
        for said in self.events.bootstraps:
            if self._passes(said.schema):
                topic = self.router.topic_for(said.schema)
                told.setdefault(table_key(said.schema), said.position or 0)
                yield from self._bootstrap(said.schema, topic, said.position, ahead=not self.events.ordered)
        for number, plan in enumerate(plans):
            schema, topic, start = plan.table.schema, plan.table.topic, plan.changes.rows_from
            if number not in rows or start is None:
                continue
            if rules.is_new(schema):
                if told.get(table_key(schema), start + 1) > start:
                    yield from self._bootstrap(schema, topic, start, ahead=True)
                rules.repeated(schema, topic)
            before, count = rules.rows(schema), rows[number]
            if before + count >= rules.every_rows:
                for position in self._every(leaving, number, rules.every_rows, before):
                    yield from self._bootstrap(schema, topic, position, ahead=True)
                rules.repeated(schema, topic)
                count = (before + count) % rules.every_rows
            rules.took(schema, topic, count)

    def _due(self, position: int | None) -> Iterator[Control]:
        """Yield the schemas whose time has come."""
        if self.bootstraps.enabled:
            for schema, topic in self.bootstraps.due():
                self.bootstraps.repeated(schema, topic)
                yield from self._bootstrap(schema, topic, position, ahead=True)

    def _every(self, leaving: DataFrame, number: int, every: int, before: int) -> list[int]:
        """Return the positions of a table's rows at which its schema is due again, by their number."""
        mine = leaving.where((F.col("plan") == number) & F.col("reason").isNull())
        at = F.col("sequence.at")
        placed = mine.select(row_sequence(self.events, moved=self._moved).alias("sequence"))
        nth = F.row_number().over(Window.orderBy("sequence")) + before
        due = placed.select(at.alias("at"), nth.alias("nth")).where(F.col("nth") % every == 0)
        return [row["at"] for row in due.orderBy("nth").collect()]

    def _bootstrap(self, schema: TableSchema, topic: str, position: int | None, *, ahead: bool) -> Iterator[Control]:
        message = self.codec.bootstrap(schema)
        if message:
            partitions = self._topic(topic) if self.config.sink.send_bootstrap_to_all_partition else range(1)
            yield Control(position, topic, partitions, self._packed(message), ahead)
            self.report.bootstraps += 1

    def _packed(self, message: Message) -> Message:
        key, value = message
        return key, compress(value, self._compression)

    def _ddl(self) -> Iterator[Control]:
        """Yield the messages of schema changes."""
        for ddl in self.events.ddl:
            messages = self.codec.ddl(ddl)  # the codec learns from those, too, that do not leave
            if not self._tells(ddl):
                continue
            topic = ddl_topic(ddl, self.router, self.config.default_topic)
            for message in messages:
                yield Control(ddl.position, topic, self._topic(topic), self._packed(message))
            self.report.ddl += bool(messages)

    def _tells(self, ddl: Ddl) -> bool:
        if ddl.schema is None:
            return self._wanted.matches_schema(ddl.database) and not self.filters.drops_ddl(ddl)
        named = self._wanted.matches(*(ddl.renamed_from or (ddl.database, ddl.table)))
        return named and (ddl.is_view or self._eligible(ddl.schema)) and not self.filters.drops_ddl(ddl)

    def _renamed_in(self) -> _Stop | None:
        """Return the stop before a RENAME that brings a table under the rules: the sink lacks what it had before."""
        for ddl in self.events.ddl:
            before = ddl.renamed_from
            if before and self._wanted.matches(ddl.database, ddl.table) and not self._wanted.matches(*before):
                now, then = f"{ddl.database}.{ddl.table}", ".".join(before)
                error = TerminalError(
                    f"the filter rules let table {now} in, but not {then}, as it was called before",
                    code="CDC:ErrSyncRenameTableFailed",
                    where=f"commit-ts {ddl.commit_ts}",
                    hint=f"let {then} in by [filter] rules, or start after the RENAME",
                )
                return _Stop(ddl.position, error)
        return None

    def _send(self, encoded: DataFrame | None, controls: list[Control], stop: _Stop | None) -> _Stop | None:
        """Send the rows and controls that come before the stop; return it, or an earlier one of a control."""
        spark = self.events.rejected.sparkSession
        controls = [*controls, *self._ddl()]
        sizes = ((c, _OVERHEAD + len(c.message[0] or b"") + len(c.message[1])) for c in controls)
        for control, size in sizes:
            if size > self._limit:
                error = self._too_large(control.topic, size, f"schema of a table in topic {control.topic}")
                stop = _first(stop, _Stop(control.position, error))
        frames = []
        if encoded and self.report.total:
            good = encoded.where(F.col("reason").isNull())
            if stop:
                good = good.where(self._before(stop))
            if self.report.claims:
                claims = good.where(F.col("location").isNotNull())
                store_claims(claims, self._storage, raw=self._raw_claims)
            sequence = row_sequence(self.events, moved=self._moved).alias("sequence")
            frames.append(good.select("topic", "partition", "key", "value", sequence))
        watermarks = self._watermarks()
        if stop:
            controls = [c for c in controls if (c.position or 0) < (stop.position or 0)]
            if watermarks is not None:
                watermarks = watermarks.where(F.col("sequence.at") < F.lit(stop.position))
        if controls:
            frames.append(control_frame(spark, controls, self.events))
        if watermarks is not None:
            frames.append(watermarks)
        if frames:
            self.sink.write(union(frames))
        return stop

    def _watermarks(self) -> DataFrame | None:
        tables = (changes.schema for changes in self.events.tables)
        lifetimes, self.report.table_topics = topic_lifetimes(
            self._table_topics, self.events.ddl, tables, self._passes, self.router
        )
        made = watermark_frame(
            self.events, self.codec, [TopicLifetime(self.config.default_topic), *lifetimes], self._topic
        )
        if made is None:
            return None
        frame, self.report.watermarks, self.report.watermark = made
        return compressed(frame, ("value",), self._compression)


def _computed(schema: TableSchema) -> Column:
    """Return the checksum of a row whose source knows none, as a version 0 one."""
    return F.when(
        F.col("op") != Op.DELETE,
        F.struct(
            F.lit(0).alias("version"),
            F.lit(False).alias("corrupted"),
            row_checksum(schema, F.col("data")).alias("current"),
            F.when(F.col("old").isNotNull(), row_checksum(schema, F.col("old"))).alias("previous"),
        ),
    )


@dataclass(frozen=True)
class _BatchStats:
    """What is in a batch of encoded rows: how many of each plan can leave, how many cannot, where it must stop."""

    rows: Mapping[int, int]
    unsendable: int
    claims: int
    moved: bool
    stop: _Stop | None


def _size(key: Column, value: Column) -> Column:
    """Return the length of a message as TiCDC counts it, for the comparison with max-message-bytes."""
    return F.coalesce(F.octet_length(key), F.lit(0)) + F.coalesce(F.octet_length(value), F.lit(0)) + _OVERHEAD


def _first(one: _Stop | None, other: _Stop | None) -> _Stop | None:
    stops = [s for s in (one, other) if s]
    return min(stops, key=lambda s: (s.position is not None, s.position or 0), default=None)


def _unsendable(encoded: DataFrame) -> DataFrame:
    wrong = encoded.where(F.col("reason").isNotNull())
    return wrong.select(*(f"source.{name}" for name in RECORD.fieldNames()), "reason", "detail")
