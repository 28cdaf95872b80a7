"""What the commands do, as functions: one per command, of the same name and with the same options."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._atomic import locked
from tidecast._errors import ConfigError
from tidecast._inspect import Inspected, inspect_events, parse_message, single_message
from tidecast._progress import Progress, no_progress
from tidecast._uri import SOURCE_PARAMETERS, local_path, parse_place, source_uri, unknown_parameters
from tidecast.changefeed import Changefeeds, Folders, SparkRunner
from tidecast.checksum import Verdict
from tidecast.checksum import verify as judge
from tidecast.config import ChangefeedConfig, load_config
from tidecast.model import Events
from tidecast.protocols import protocol_named
from tidecast.publish import PlannedTable, Published, publish
from tidecast.publish import plan as make_plan
from tidecast.registry import Registry, open_registry
from tidecast.replica import OnMismatch, Replicated, parse_target
from tidecast.replica import replicate as apply
from tidecast.runtime import check_zone, local_zone, spark_session
from tidecast.sources import (
    TopicStream,
    check_protocol,
    check_source,
    decode_records,
    read_records,
    read_topic,
    source_errors,
)
from tidecast.topics import OnError, Records, append_lines, open_topics, write_dead_letters

_log = logging.getLogger(__name__)

DEAD_LETTERS = "_dead_letters"
SHOWN_MISMATCHES = 20
_CLUSTER_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")
_NO_CLUSTER_IDS = ("owner", "capture", "task", "changefeed", "job", "meta")
_LAST_STEP_S = 60


@dataclass
class Verified:
    """What became of the rows' checksums: by verdict, and by table and verdict; dead letters by reason."""

    verdicts: Counter[str] = field(default_factory=Counter)
    tables: dict[str, Counter[str]] = field(default_factory=dict)
    corrupted: int = 0
    mismatches: list[dict[str, object]] = field(default_factory=list)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no row failed its check."""
        return not self.verdicts[Verdict.MISMATCH]


def read(spark: SparkSession, source: str, *, schema_registry: str | None = None, tz: str | None = None) -> Events:
    """Return the events of a source, up to its present end.

    `source` is a URI, or a path, with `?protocol=`; `schema_registry` the URL of the registry that Avro needs; `tz` the
    time zone of TIMESTAMP text, by default the system's. Raises ConfigError, Unreachable and RegistryError.
    """
    checked = _source(source, schema_registry, tz)
    return read_topic(spark, checked.uri, registry=checked.registry, zone=checked.zone)


@overload
def verify(source: Events) -> DataFrame: ...


@overload
def verify(
    source: str,
    *,
    schema_registry: str | None = ...,
    tz: str | None = ...,
    mismatches: str | None = ...,
    dead_letters: str | None = ...,
    progress: Progress = ...,
    spark: SparkSession | None = ...,
) -> Verified: ...


def verify(
    source: str | Events,
    *,
    schema_registry: str | None = None,
    tz: str | None = None,
    mismatches: str | None = None,
    dead_letters: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> DataFrame | Verified:
    """Check the checksum of every row.

    Given events, return a DataFrame of their rows with the verdict (see `tidecast.checksum.verify`). Given a
    source's URI, read it, count the verdicts and return them; `mismatches` is a folder that gets each mismatch as
    a JSON line, `dead_letters` one for the messages that could not be read. `tz` is the sender's time zone.
    """
    if isinstance(source, Events):
        return judge(source)
    mismatches_in = _folder(mismatches, "--mismatches")
    letters_in = _folder(dead_letters, "--dead-letters")
    checked = _source(source, schema_registry, tz)
    progress("reading", 0, 0)
    with ExitStack() as stack:
        events = _source_events(stack, checked, spark)
        progress("verifying", 0, 0)
        report = Verified()
        rows = judge(events)  # twice where there are mismatches: keeping every row would cost more
        for row in rows.groupBy("database", "table", "verdict", "corrupted").count().collect():
            table = f"{row['database']}.{row['table']}"
            report.tables.setdefault(table, Counter())[row["verdict"]] += row["count"]
            report.verdicts[row["verdict"]] += row["count"]
            report.corrupted += row["count"] if row["corrupted"] else 0
        if not report.ok:
            wrong = _mismatches(rows).persist()
            report.mismatches = [r.asDict() for r in wrong.limit(SHOWN_MISMATCHES).collect()]
            if mismatches_in:
                append_lines(wrong, mismatches_in, expected=report.verdicts[Verdict.MISMATCH])
            wrong.unpersist()
        doubtful = [t for t in events.tables if report.tables.get(t.schema.name, Counter())[Verdict.UNREADABLE]]
        letters = events.dead_letters(doubtful)
        if letters_in:
            report.dead_letters = write_dead_letters(letters, letters_in)
        else:
            counts = letters.groupBy("reason").count().collect()
            report.dead_letters = {r["reason"]: r["count"] for r in counts}
        if protocol_named(checked.protocol).zoned_checksums:
            report.warnings += _doubtful_zone(report, events, checked.zone)
        return report


def _doubtful_zone(report: Verified, events: Events, zone: str) -> list[str]:
    """Return a warning where half of the rows of tables with TIMESTAMP columns do not match, or more."""
    timed = {
        t.schema.name for t in events.tables if any(c.data_type.mysql_type == "timestamp" for c in t.schema.columns)
    }
    counts = ((name, report.tables.get(name, Counter())) for name in sorted(timed))
    wrong = [name for name, of in counts if of[Verdict.MISMATCH] and of[Verdict.MISMATCH] >= of[Verdict.MATCH]]
    if not wrong:
        return []
    return [
        f"most rows of {', '.join(wrong)} do not match, and these tables have TIMESTAMP columns: "
        f"is {zone} the sender's time zone? --tz names another"
    ]


def _mismatches(rows: DataFrame) -> DataFrame:
    wrong = rows.where(F.col("verdict") == Verdict.MISMATCH)
    table = F.concat_ws(".", "database", "table").alias("table")
    return wrong.select("topic", "partition", "offset", table, "key", "expected", "actual", "corrupted")


def convert(
    source: str,
    sink: str,
    *,
    config: str | None = None,
    schema_registry: str | None = None,
    source_schema_registry: str | None = None,
    tz: str | None = None,
    cluster_id: str = "default",
    dead_letters: str | None = None,
    on_error: str = "dead-letter",
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> Published:
    """Read a topic in one protocol and publish it in another, once, up to its present end.

    `config` is TiCDC's changefeed TOML, `sink` its sink URI. `schema_registry` serves the sink, and the source,
    too, unless `source_schema_registry` names another. `tz` is the zone of TIMESTAMP text, by default the
    system's. Messages that cannot be handled go to the folder `dead_letters`, by default beside the sink's files,
    or `./dead-letters` for Kafka. Raises the errors of `publish`, ConfigError and Unreachable.
    """
    policy = OnError.parse(on_error)
    letters = _folder(dead_letters, "--dead-letters")
    checked = _source(source, source_schema_registry or schema_registry, tz)
    settings = load_config(sink, config, schema_registry)
    place = settings.place
    letters = letters or _beside(place.path if place.scheme == "file" else None)
    topics = open_topics(place)
    with ExitStack() as stack:
        registry = _sink_registry(stack, settings)
        topics.ensure(settings.default_topic)
        progress("reading", 0, 0)
        events = _source_events(stack, checked, spark)
        progress("publishing", 0, 0)
        return publish(
            events,
            settings,
            topics,
            registry,
            zone=checked.zone,
            cluster_id=cluster_id,
            dead_letters=letters,
            on_error=policy,
        )


def plan(
    source: str,
    sink: str,
    *,
    config: str | None = None,
    schema_registry: str | None = None,
    source_schema_registry: str | None = None,
    tz: str | None = None,
    cluster_id: str = "default",
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> list[PlannedTable]:
    """Return what `convert` with the same options would publish, without creating, registering or sending anything.

    For each table version: topic, partitions and their rule, schemas and whether the registry would take them, and the
    columns that the chosen modes damage. Raises as `convert`.
    """
    checked = _source(source, source_schema_registry or schema_registry, tz)
    settings = load_config(sink, config, schema_registry)
    topics = open_topics(settings.place)
    with ExitStack() as stack:
        registry = _sink_registry(stack, settings)
        progress("reading", 0, 0)
        events = _source_events(stack, checked, spark)
        return make_plan(events, settings, topics, registry, zone=checked.zone, cluster_id=cluster_id)


def _sink_registry(stack: ExitStack, settings: ChangefeedConfig) -> Registry | None:
    """Open the registry that a sink needs, if it needs one, and ask whether it is there."""
    needed = protocol_named(settings.protocol).needs_registry
    registry = _registry(settings.schema_registry) if needed else None
    if registry is not None:
        stack.enter_context(registry).check()
    return registry


@dataclass(frozen=True)
class _Source:
    """What a command was told of its source, checked."""

    uri: str
    protocol: str
    registry: Registry | None
    zone: str


def _source(text: str, schema_registry: str | None, tz: str | None) -> _Source:
    """Refuse a source, a registry or a time zone that is none: a wrong call need not wait for Spark to start.

    TiCDC ignores parameters that it does not know. In a source that would read other messages than was meant.
    """
    uri = source_uri(text)
    for name, near in unknown_parameters(parse_place(uri).params, SOURCE_PARAMETERS):
        if near:
            raise ConfigError(f"unknown parameter {name}", where="source URI", hint=f"did you mean {near}?")
        _log.warning("source URI: unknown parameter %s is ignored", name)
    registry, zone = _registry(schema_registry), check_zone(tz or local_zone())
    return _Source(uri, check_source(uri, registry), registry, zone)


def _source_events(stack: ExitStack, source: _Source, spark: SparkSession | None) -> Events:
    stack.enter_context(source_errors(source.uri))
    session = spark or spark_session()
    return stack.enter_context(read_topic(session, source.uri, registry=source.registry, zone=source.zone))


def replicate(
    source: str,
    to: str,
    *,
    schema_registry: str | None = None,
    tz: str | None = None,
    checkpoint: str | None = None,
    dead_letters: str | None = None,
    on_error: str = "dead-letter",
    on_mismatch: str = "dead-letter",
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> Replicated:
    """Apply a topic to tables, once, up to its present end; see `tidecast.replica.replicate`.

    The folder `checkpoint` keeps what has been applied, so that the next run goes on from there; rows whose schema has
    not come yet wait in it. Without one every run reads the whole topic. Raises TerminalError where another run uses
    the checkpoint, and SourceChanged where the topic no longer holds what follows it.
    """
    target = parse_target(to)
    errors, mismatches = OnError.parse(on_error), OnMismatch.parse(on_mismatch)
    letters = _folder(dead_letters, "--dead-letters")
    folder = _folder(checkpoint, "--checkpoint")
    checked = _source(source, schema_registry, tz)
    progress("reading", 0, 0)
    session = spark or spark_session()
    target.check(session)

    def applied_to(events: Events) -> Replicated:
        return apply(
            session,
            events,
            to,
            dead_letters=letters,
            on_error=errors,
            on_mismatch=mismatches,
            progress=progress,
        )

    if folder is None:
        with ExitStack() as stack:
            return applied_to(_source_events(stack, checked, session))
    with locked(folder, "let it end, or give each run a --checkpoint of its own"):
        stream = TopicStream(session, checked.uri, folder, registry=checked.registry, zone=checked.zone)
        with source_errors(checked.uri):
            batch = stream.next()
            if batch is None:
                return Replicated(())
            with batch.events as events:
                applied = applied_to(events)
            stream.commit(batch)
    if not batch.progress.rows_waiting:
        return applied
    waiting = f"{batch.progress.rows_waiting:,} rows wait in {folder} for the schemas of their tables"
    return replace(applied, warnings=(*applied.warnings, waiting))


def serve(
    source: str,
    *,
    addr: str = "127.0.0.1:8300",
    data_dir: str = "tidecast-data",
    allow_path: Sequence[str] = (".",),
    schema_registry: str | None = None,
    tz: str | None = None,
    cluster_id: str = "default",
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    users: Mapping[str, str] | None = None,
    ready: Callable[[str], None] = lambda url: None,
    spark: SparkSession | None = None,
) -> None:
    """Run changefeeds over a source until SIGTERM or SIGINT: TiCDC's HTTP API, a status page, metrics.

    Changefeeds are kept in the folder `data_dir`; those that ran when the server ended go on. Their sinks,
    registries and claim checks may be local folders only below those of `allow_path`. `addr` is `host:port`:
    any but this machine's own takes TLS (`cert`, `key`; with `ca` clients need certificates, too) and `users`, names
    with passwords. `tz` is the zone of TIMESTAMP text, by default the system's, `cluster_id` the cluster's id in
    Debezium messages. `ready` gets the server's URL. Raises ConfigError, Unreachable, and TerminalError where the
    address or the folder is taken, or Spark dies.
    """
    from tidecast.server import Access, Listener, Service, build_app  # a web server, which only this command needs

    if not _CLUSTER_ID.fullmatch(cluster_id) or cluster_id in _NO_CLUSTER_IDS:
        raise ConfigError(
            f"bad cluster-id {cluster_id!r}", hint="letters, digits and - between them, for example tidb-1"
        )
    folder = local_path(data_dir, "--data-dir")
    folders = Folders([local_path(path, "--allow-path") for path in allow_path], own=folder)
    checked = _source(source, schema_registry, tz)
    listener = Listener.open(addr, Access(users or {}, ca, cert, key))
    with ExitStack() as stack:
        if checked.registry is not None:
            stack.enter_context(checked.registry)
        runner = SparkRunner(
            spark or spark_session(),
            checked.uri,
            folder / "source",
            registry=checked.registry,
            zone=checked.zone,
            cluster_id=cluster_id,
        )
        feeds = Changefeeds(folder / "changefeeds", runner, addr=listener.addr, folders=folders)
        stack.callback(feeds.close, _LAST_STEP_S)
        service = Service(build_app(feeds, listener.access, addr=listener.addr, cluster_id=cluster_id), listener)
        ready(listener.url)
        with service.while_alive(runner.alive):
            service.run()


def inspect(
    source: str | None = None,
    *,
    limit: int = 10,
    hex: str | None = None,  # noqa: A002 - named as the option is
    base64: str | None = None,
    protocol: str | None = None,
    schema_registry: str | None = None,
    tz: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> list[Inspected]:
    """Explain the first `limit` messages of a source, or one message given in hexadecimal or base64.

    Raises ConfigError for a wrong URI or text, Unreachable and RegistryError.
    """
    if source is not None:
        checked = _source(source, schema_registry, tz)
        progress("reading", 0, 0)
        records, protocol = read_records(spark or spark_session(), checked.uri)
    else:
        value, looks_like = parse_message(hex=hex, base64_text=base64)
        protocol = check_protocol(protocol or looks_like)
        checked = _Source("", protocol, _registry(schema_registry), check_zone(tz or local_zone()))
        progress("reading", 0, 0)
        records = Records(single_message(spark or spark_session(), value), ordered=True)
    with (
        source_errors(checked.uri),
        decode_records(records, protocol, registry=checked.registry, zone=checked.zone) as events,
    ):
        progress("explaining", 0, 0)
        return inspect_events(records.frame, events, protocol, limit)


def _registry(url: str | None) -> Registry | None:
    return open_registry(url) if url else None


def _folder(text: str | None, option: str) -> Path | None:
    return None if text is None else local_path(text, option)


def _beside(path: str | None) -> Path:
    return Path(path).parent / DEAD_LETTERS if path else Path("dead-letters")
