"""What the commands do, as functions: one per command, of the same name and with the same options."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast._inspect import Inspected, inspect_events, single_message
from tidecast._progress import Progress, unseen
from tidecast._uri import local_path, parse_place
from tidecast.changefeed import (
    ChangefeedConfig,
    Changefeeds,
    Folders,
    PlannedTable,
    Published,
    SparkRunner,
    load_config,
    publish,
)
from tidecast.changefeed import plan as make_plan
from tidecast.checksum import Judged
from tidecast.checksum import verify as judge
from tidecast.model import Events
from tidecast.registry import Registry, open_registry
from tidecast.replica import Replicated, parse_target
from tidecast.replica import replicate as apply
from tidecast.runtime import local_zone, spark_session
from tidecast.sources import TopicStream, decode_records, read_records, read_topic, source_errors
from tidecast.topics import Records, append_lines, open_topics, write_dead_letters

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

    @property
    def ok(self) -> bool:
        """Whether no row failed its check."""
        return not self.verdicts[Judged.MISMATCH]


def read(spark: SparkSession, source: str, *, schema_registry: str | None = None, tz: str | None = None) -> Events:
    """Return the events of a source, up to its present end.

    `source` is a URI with `protocol=`; `schema_registry` the URL of the registry that Avro needs; `tz` the time
    zone of TIMESTAMP text, by default the system's. Raises ConfigError, Unreachable and RegistryError.
    """
    registry = _registry(schema_registry)
    return read_topic(spark, source, registry=registry, zone=tz or local_zone())


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
    progress: Progress = unseen,
    spark: SparkSession | None = None,
) -> DataFrame | Verified:
    """Check the checksum of every row.

    Given events, return a DataFrame of their rows with the verdict (see `tidecast.checksum.verify`). Given a
    source's URI, read it, count the verdicts and return them; `mismatches` is a folder that gets each mismatch as
    a JSON line, `dead_letters` one for the messages that could not be read. `tz` is the sender's time zone.
    """
    if isinstance(source, Events):
        return judge(source)
    parse_place(source)  # a wrong URI or folder need not wait for Spark to start
    mismatches_in = _folder(mismatches, "--mismatches")
    letters_in = _folder(dead_letters, "--dead-letters")
    progress("reading", 0, 0)
    with (
        source_errors(source),
        read(spark or spark_session(), source, schema_registry=schema_registry, tz=tz) as events,
    ):
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
                append_lines(wrong, mismatches_in)
            wrong.unpersist()
        doubtful = [t for t in events.tables if report.tables.get(t.schema.name, Counter())[Judged.UNREADABLE]]
        letters = events.dead_letters(doubtful)
        if letters_in:
            report.dead_letters = write_dead_letters(letters, letters_in)
        else:
            counts = letters.groupBy("reason").count().collect()
            report.dead_letters = {r["reason"]: r["count"] for r in counts}
        return report


def _mismatches(rows: DataFrame) -> DataFrame:
    wrong = rows.where(F.col("verdict") == Judged.MISMATCH)
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
    progress: Progress = unseen,
    spark: SparkSession | None = None,
) -> Published:
    """Read a topic in one protocol and publish it in another, once, up to its present end.

    `config` is TiCDC's changefeed TOML, `sink` its sink URI. `schema_registry` serves the sink, and the source,
    too, unless `source_schema_registry` names another. `tz` is the zone of TIMESTAMP text, by default the
    system's. Messages that cannot be handled go to the folder `dead_letters`, by default beside the sink's files,
    or `./dead-letters` for Kafka. Raises the errors of `publish`, ConfigError and Unreachable.
    """
    parse_place(source)
    zone = tz or local_zone()
    settings = load_config(sink, config, schema_registry)
    place = settings.place
    beside = _beside(place.path if place.scheme == "file" else None)
    letters = _folder(dead_letters, "--dead-letters") or beside
    topics = open_topics(place)
    with ExitStack() as stack:
        registry = _sink_registry(stack, settings)
        topics.ensure(settings.default_topic)
        progress("reading", 0, 0)
        read_from = _registry(source_schema_registry or schema_registry)
        events = _source_events(stack, source, read_from, zone, spark)
        progress("publishing", 0, 0)
        return publish(
            events,
            settings,
            topics,
            registry,
            zone=zone,
            cluster_id=cluster_id,
            dead_letters=letters,
            on_error=on_error,
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
    progress: Progress = unseen,
    spark: SparkSession | None = None,
) -> list[PlannedTable]:
    """Return what `convert` with the same options would publish, without creating, registering or sending anything.

    For each table version: topic, partitions and their rule, schemas and whether the registry would take them, and the
    columns that the chosen modes damage. Raises as `convert`.
    """
    parse_place(source)
    zone = tz or local_zone()
    settings = load_config(sink, config, schema_registry)
    with ExitStack() as stack:
        registry = _sink_registry(stack, settings)
        progress("reading", 0, 0)
        read_from = _registry(source_schema_registry or schema_registry)
        events = _source_events(stack, source, read_from, zone, spark)
        return make_plan(events, settings, open_topics(settings.place), registry, zone=zone, cluster_id=cluster_id)


def _sink_registry(stack: ExitStack, settings: ChangefeedConfig) -> Registry | None:
    """Open the registry that a sink needs, if it needs one, and ask whether it is there."""
    registry = _registry(settings.schema_registry) if settings.protocol == "avro" else None
    if registry is not None:
        stack.enter_context(registry).check()
    return registry


def _source_events(
    stack: ExitStack, source: str, registry: Registry | None, zone: str, spark: SparkSession | None
) -> Events:
    stack.enter_context(source_errors(source))
    return stack.enter_context(read_topic(spark or spark_session(), source, registry=registry, zone=zone))


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
    progress: Progress = unseen,
    spark: SparkSession | None = None,
) -> Replicated:
    """Apply a topic to tables, once, up to its present end; see `tidecast.replica.replicate`.

    The folder `checkpoint` keeps what has been applied, so that the next run goes on from there; rows whose schema has
    not come yet wait in it. Without one every run reads the whole topic.
    """
    parse_place(source)
    parse_target(to)
    letters = _folder(dead_letters, "--dead-letters")
    folder = _folder(checkpoint, "--checkpoint")
    progress("reading", 0, 0)
    session = spark or spark_session()

    def applied_to(events: Events) -> Replicated:
        return apply(
            session,
            events,
            to,
            dead_letters=letters,
            on_error=on_error,
            on_mismatch=on_mismatch,
            progress=progress,
        )

    if folder is None:
        with source_errors(source), read(session, source, schema_registry=schema_registry, tz=tz) as events:
            return applied_to(events)
    registry, zone = _registry(schema_registry), tz or local_zone()
    stream = TopicStream(session, source, folder, registry=registry, zone=zone)
    with source_errors(source):
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

    parse_place(source)
    if not _CLUSTER_ID.fullmatch(cluster_id) or cluster_id in _NO_CLUSTER_IDS:
        raise ConfigError(
            f"bad cluster-id {cluster_id!r}", hint="letters, digits and - between them, for example tidb-1"
        )
    folder = local_path(data_dir, "--data-dir")
    folders = Folders([local_path(path, "--allow-path") for path in allow_path], own=folder)
    listener = Listener.open(addr, Access(users or {}, ca, cert, key))
    with ExitStack() as stack:
        registry = _registry(schema_registry)
        if registry is not None:
            stack.enter_context(registry)
        runner = SparkRunner(
            spark or spark_session(),
            source,
            folder / "source",
            registry=registry,
            zone=tz or local_zone(),
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
    progress: Progress = unseen,
    spark: SparkSession | None = None,
) -> list[Inspected]:
    """Explain the first `limit` messages of a source, or one message given in hexadecimal or base64.

    Raises ConfigError for a wrong URI or text, Unreachable and RegistryError.
    """
    if source is not None:
        parse_place(source)
    progress("reading", 0, 0)
    session = spark or spark_session()
    registry, zone = _registry(schema_registry), tz or local_zone()
    if source is None:
        frame, looks_like = single_message(session, hex=hex, base64_text=base64)
        records, protocol = Records(frame, ordered=True), (protocol or looks_like).lower()
    else:
        records, protocol = read_records(session, source)
    with source_errors(source or ""), decode_records(records, protocol, registry=registry, zone=zone) as events:
        progress("explaining", 0, 0)
        return inspect_events(records.frame, events, protocol, limit)


def _registry(url: str | None) -> Registry | None:
    return open_registry(url) if url else None


def _folder(text: str | None, option: str) -> Path | None:
    return None if text is None else local_path(text, option)


def _beside(path: str | None) -> Path:
    return Path(path).parent / DEAD_LETTERS if path else Path("dead-letters")
