"""Publish: row changes → columns → topic and partition → schema → message → topic.

A row leaves only after its schema is registered. Where the registry refuses a schema, or a row must stop the
changefeed, what comes before that row is published, nothing of what comes after, and the cause ends the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast._errors import ConfigError, CorruptedData, EncodeError, SchemaRefused, TidecastError
from tidecast.changefeed._config import ChangefeedConfig
from tidecast.changefeed._dispatch import Router, select_columns
from tidecast.changefeed._matcher import TableMatcher
from tidecast.checksum import row_checksum
from tidecast.model import RECORD, Events, Op, Reason, TableChanges, TableSchema, union
from tidecast.protocols import avro
from tidecast.registry import Registry, subject_for
from tidecast.topics import Topics, refuse_dead_letters, write_dead_letters

_SYSTEM = {
    "dm_heartbeat",
    "information_schema",
    "inspection_schema",
    "lightning_task_info",
    "metrics_schema",
    "mysql",
    "performance_schema",
    "sys",
    "tidb_cdc",
    "workload_schema",
}
"""Schemas that never leave. Source: TiCDC's filter rules."""

_OVERHEAD = 36  # what TiCDC adds to key and value for a message's own bytes


@dataclass
class Published:
    """What a run published: messages by table and topic; rows skipped for want of a key, by table; dead letters."""

    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    schemas: int = 0

    @property
    def total(self) -> int:
        """The number of messages published."""
        return sum(self.messages.values())


@dataclass
class _Plan:
    """One table version on its way out. Without `value_id` only its deletes can leave."""

    changes: TableChanges
    schema: TableSchema
    topic: str
    partitions: int = 0
    key_id: int | None = None
    value_id: int | None = None


@dataclass(frozen=True)
class _Stop:
    """Why a run ends before its last row, and the position of the row at which it does."""

    position: int | None
    error: TidecastError


def publish(
    events: Events,
    config: ChangefeedConfig,
    sink: Topics,
    registry: Registry,
    *,
    zone: str = "UTC",
    dead_letters: Path,
    on_error: str = "dead-letter",
) -> Published:
    """Publish row changes as Avro to the topics that the configuration's rules name.

    `zone` is the time zone of TIMESTAMP text. Rows of table versions without a handle key are skipped and counted.
    Messages that could not be read, and rows that have no form in the protocol, go to the folder `dead_letters`;
    with `on_error="fail"` the first of them raises DecodeError and nothing is published.
    Raises ConfigError, EncodeError, CorruptedData and SchemaRefused; see the module for what is published then.
    """
    options = avro.AvroOptions(
        enable_tidb_extension=config.enable_tidb_extension,
        decimal_handling_mode=config.avro_decimal_handling_mode,
        bigint_unsigned_handling_mode=config.avro_bigint_unsigned_handling_mode,
        checksum=config.integrity.check_level == "correctness",
        zone=zone,
    )
    _check(config)
    router = Router(config, zone)
    report = Published()
    plans = _plans(events, config, router, report)
    if on_error == "fail":
        refuse_dead_letters(events.rejected)
    for plan in plans:
        plan.partitions = sink.ensure(plan.topic).partitions
    stop = _register(plans, registry, options)
    report.schemas = len({i for p in plans for i in (p.key_id, p.value_id) if i is not None})
    plans = [p for p in plans if p.key_id is not None]
    compute = options.checksum and not events.checksums
    parts = [_encode(n, plan, options, router, config, compute=compute) for n, plan in enumerate(plans)]
    encoded = union(parts).persist() if parts else None
    try:
        letters = events.rejected
        if encoded:
            found = _survey(encoded, events)
            stop = _first(stop, found.stop)
            leaving = encoded
            if stop:
                leaving = encoded.where(_before(stop, events))
                found = _survey(leaving, events)
            if found.unsendable:
                letters = letters.unionByName(_unsendable(leaving))
                if on_error == "fail":
                    refuse_dead_letters(letters)
            for number, rows in found.rows.items():
                report.messages[plans[number].schema.name, plans[number].topic] += rows
            if found.rows:
                _send(leaving, events, sink)
        report.dead_letters = write_dead_letters(letters, dead_letters)
    finally:
        if encoded:
            encoded.unpersist()
    if stop:
        raise stop.error
    return report


def _plans(events: Events, config: ChangefeedConfig, router: Router, report: Published) -> list[_Plan]:
    """Choose the table versions that leave: those that the rules let through and that have a handle key."""
    wanted = TableMatcher(config.filter.rules, case_sensitive=config.case_sensitive)
    plans = []
    for changes in events.tables:
        schema = changes.schema
        if schema.database.lower() in _SYSTEM or not wanted.matches(schema.database, schema.table):
            continue
        if schema.handle_key:
            plans.append(_Plan(changes, select_columns(config, schema), router.topic_for(schema)))
        else:
            report.skipped[schema.name] += changes.rows
    router.check_default_topic([p.schema for p in plans])
    return plans


def _check(config: ChangefeedConfig) -> None:
    """Refuse what this version cannot do, rather than publish rows that the configuration keeps back."""
    if config.protocol != "avro":
        raise ConfigError(
            f"protocol {config.protocol} cannot be written by this version", code="CDC:ErrSinkUnknownProtocol"
        )
    for name in ("event_filters", "ignore_txn_start_ts"):
        if getattr(config.filter, name):
            raise ConfigError(
                f"[filter] {name.replace('_', '-')} is not applied by this version",
                code="CDC:ErrFilterRuleInvalid",
                hint="take it out, and filter with rules",
            )


def _register(plans: list[_Plan], registry: Registry, options: avro.AvroOptions) -> _Stop | None:
    """Register every schema that a row needs, in the order in which rows need them; stop at the first refusal."""
    steps: list[tuple[int, int, Callable[[], None]]] = []

    def key(plan: _Plan) -> None:
        plan.key_id = registry.register(subject_for(plan.topic, "key"), avro.key_schema(plan.schema, options))

    def value(plan: _Plan) -> None:
        plan.value_id = registry.register(subject_for(plan.topic, "value"), avro.value_schema(plan.schema, options))

    for plan in plans:
        rows, upserts = plan.changes.rows_from, plan.changes.upserts_from
        if rows is not None:
            steps.append((rows, 0, lambda plan=plan: key(plan)))  # type: ignore[misc]
        if upserts is not None:
            steps.append((upserts, 1, lambda plan=plan: value(plan)))  # type: ignore[misc]
    for position, _, step in sorted(steps, key=lambda s: s[:2]):
        try:
            step()
        except (SchemaRefused, EncodeError) as error:
            return _Stop(position, error)
    return None


def _encode(
    number: int,
    plan: _Plan,
    options: avro.AvroOptions,
    router: Router,
    config: ChangefeedConfig,
    *,
    compute: bool,
) -> DataFrame:
    """Return the messages of one table version: where each came from and goes to, or why it cannot go."""
    frame = plan.changes.frame
    if compute:
        frame = frame.withColumn("checksum", _computed(plan.schema))
    row = F.when(F.col("op") == Op.DELETE, F.col("old")).otherwise(F.col("data"))
    detail = F.coalesce(F.col("detail"), avro.unencodable(plan.schema))
    reason = F.coalesce(F.col("reason"), F.when(detail.isNotNull(), F.lit(Reason.NOT_IN_PROTOCOL)))
    value = F.lit(None).cast("binary")
    if plan.value_id is not None:
        value = avro.encode_value(plan.schema, plan.value_id, options)
    assert plan.key_id is not None
    key = avro.encode_key(plan.schema, plan.key_id, options)
    routed = frame.select(
        F.struct(*RECORD.fieldNames(), "commit_ts").alias("source"),
        F.lit(number).alias("plan"),
        "op",
        reason.alias("reason"),
        F.when(reason.isNotNull(), detail).alias("detail"),
        F.col("checksum.corrupted").alias("corrupted"),
        F.lit(plan.topic).alias("topic"),
        router.partition_for(plan.changes.schema, row, F.col("commit_ts"), plan.partitions).alias("partition"),
        F.when(reason.isNull(), key).alias("key"),
        F.when(reason.isNull(), value).alias("value"),
    )
    size = F.octet_length("key") + F.coalesce(F.octet_length("value"), F.lit(0)) + _OVERHEAD
    stops = [F.when(size > config.max_message_bytes, size)]
    if config.integrity.corruption_handle_level == "error":
        stops.append(F.when(F.col("corrupted"), F.lit(0)))
    return routed.withColumn("stop", F.coalesce(*stops))


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
class _Survey:
    """What is in a batch of encoded rows: how many of each plan can leave, how many cannot, where it must stop."""

    rows: Mapping[int, int]
    unsendable: int
    stop: _Stop | None


def _survey(encoded: DataFrame, events: Events) -> _Survey:
    """Encode the rows, once, and count them. A row that is too large, or damaged under `error`, stops the run."""
    position = F.col(f"source.{events.position}") if events.position else F.lit(0).cast("bigint")
    place = F.struct(position.alias("position"), "stop", "topic", "source.partition", "source.offset")
    where = F.struct(place.alias("place"), F.col("source.topic").alias("origin"))
    sendable = F.col("reason").isNull()
    rows = (
        encoded.groupBy("plan", sendable.alias("sendable"))
        .agg(F.count("*").alias("rows"), F.min(F.when(F.col("stop").isNotNull(), where)).alias("stop"))
        .collect()
    )
    stops = sorted((r["stop"] for r in rows if r["stop"]), key=lambda s: s["place"]["position"])
    return _Survey(
        rows={r["plan"]: r["rows"] for r in rows if r["sendable"]},
        unsendable=sum(r["rows"] for r in rows if not r["sendable"]),
        stop=_stop(stops[0], events) if stops else None,
    )


def _stop(said: Row, events: Events) -> _Stop:
    place = said["place"]
    where = f"topic {said['origin']} partition {place['partition']} offset {place['offset']}"
    if place["stop"]:
        error: TidecastError = EncodeError(
            f"message is too large. topic:{place['topic']}, length:{place['stop']}",
            code="CDC:ErrMessageTooLarge",
            where=where,
            hint="raise max-message-bytes in the sink URI",
        )
    else:
        error = CorruptedData("the source found this row damaged", code="CDC:ErrCorruptedDataMutation", where=where)
    return _Stop(place["position"] if events.position else None, error)


def _first(one: _Stop | None, other: _Stop | None) -> _Stop | None:
    stops = [s for s in (one, other) if s]
    return min(stops, key=lambda s: (s.position is not None, s.position or 0), default=None)


def _before(stop: _Stop, events: Events) -> Column:
    """Return which rows come before a stop; none where the source's rows have no common order."""
    if stop.position is None or events.position is None:
        return F.lit(False)
    return F.col(f"source.{events.position}") < stop.position


def _send(encoded: DataFrame, events: Events, sink: Topics) -> None:
    good = encoded.where(F.col("reason").isNull()).withColumn("sequence", _sequence(events))
    sink.write(good.select("topic", "partition", "key", "value", "sequence"))


def _sequence(events: Events) -> Column:
    """Return what orders the messages of one topic and partition.

    Rows of several partitions of the source meet by the highest commit-ts seen so far in each, so that no
    partition's order changes, replays included. At one commit-ts the inserts that end a partition's transaction
    come last, as TiCDC puts the insert half of a split update there: its delete may lie in another partition.
    """
    if events.ordered:
        return F.col("source.offset")
    origin = ["source.topic", "source.partition"]
    so_far = Window.partitionBy(*origin).orderBy("source.offset").rowsBetween(Window.unboundedPreceding, 0)
    transaction = Window.partitionBy(*origin, "plan", "source.commit_ts")
    last_other = F.max(F.when(F.col("op") != Op.CREATE, F.col("source.offset"))).over(transaction)
    closing = (F.col("op") == Op.CREATE) & (F.col("source.offset") > F.coalesce(last_other, F.lit(-1)))
    return F.struct(F.max("source.commit_ts").over(so_far), closing, F.col("source.offset"), F.col("source.partition"))


def _unsendable(encoded: DataFrame) -> DataFrame:
    wrong = encoded.where(F.col("reason").isNotNull())
    return wrong.select(*(f"source.{name}" for name in RECORD.fieldNames()), "reason", "detail")
