"""Events to messages: published, or only planned."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack, overload

from pyspark.sql import SparkSession

from tidecast._policy import OnError
from tidecast._progress import Progress, no_progress
from tidecast.api._source import GivenEvents, TopicSource, folder, row_count
from tidecast.config import ChangefeedConfig, load_config
from tidecast.model import Events, with_commit_ts
from tidecast.protocols import protocol_named
from tidecast.publish import PlannedTable, Published, check_publishable, publish
from tidecast.publish import plan as plan_tables
from tidecast.registry import Registry, open_registry
from tidecast.sources import Here, read_here
from tidecast.storage import AnyPath, path_of
from tidecast.topics import DEAD_LETTERS, WritableTopics


@dataclass(frozen=True)
class _Route:
    """The checked arguments that `convert` and `plan` share: the source, and the sink with its settings."""

    source: TopicSource | GivenEvents
    settings: ChangefeedConfig
    topics: WritableTopics

    @classmethod
    def check(
        cls,
        source: str | Events,
        sink: str,
        *,
        config: str | None,
        schema_registry: str | None,
        source_schema_registry: str | None,
        tz: str | None,
        spark: SparkSession | None,
    ) -> _Route:
        origin: TopicSource | GivenEvents
        if isinstance(source, Events):
            origin = GivenEvents.check(source, tz, source_schema_registry=source_schema_registry, spark=spark)
        else:
            registry = source_schema_registry or schema_registry
            origin = TopicSource.check(source, schema_registry=registry, tz=tz, spark=spark)
        settings = load_config(sink, config, schema_registry)
        check_publishable(settings)
        return cls(origin, settings, settings.open_sink(origin.zone))

    def registry(self) -> Registry | None:
        """Open the registry that the sink needs, if it needs one, and ask whether it is there."""
        needed = protocol_named(self.settings.protocol).needs_registry
        if not needed or not self.settings.schema_registry:
            return None
        registry = open_registry(self.settings.schema_registry)
        registry.check()
        return registry

    def here(self, progress: Progress) -> Here | None:
        """Return what the source says, if it takes no Spark to read it."""
        source = self.source
        if isinstance(source, GivenEvents) or source.spark is not None:
            return None
        progress("reading", 0, 0)
        return read_here(source.uri, registry=source.registry, zone=source.zone, values=False)


class PlanEventsOptions(TypedDict, total=False):
    """Options of `plan` for events."""

    config: str | None
    schema_registry: str | None
    tz: str | None
    cluster_id: str
    progress: Progress


class PlanTopicOptions(PlanEventsOptions, total=False):
    """Options of `plan` for a topic, which is read first."""

    source_schema_registry: str | None
    spark: SparkSession | None


class ConvertEventsOptions(PlanEventsOptions, total=False):
    """Options of `convert` for events."""

    dead_letters: str | None
    on_error: str


class ConvertTopicOptions(PlanTopicOptions, ConvertEventsOptions, total=False):
    """Options of `convert` for a topic, which is read first."""


@overload
def convert(source: Events, sink: str, **options: Unpack[ConvertEventsOptions]) -> Published: ...
@overload
def convert(source: str, sink: str, **options: Unpack[ConvertTopicOptions]) -> Published: ...


def convert(
    source: str | Events,
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
    """Publish a topic in another protocol, once, up to its present end, or publish events.

    `source` is a URI, or events. `config` is TiCDC's changefeed TOML, `sink` its sink URI. `schema_registry` serves
    the sink, and the source's URI, too, unless `source_schema_registry` names another. `tz` is the zone of TIMESTAMP
    text, by default the system's. Messages that cannot be handled go to the folder `dead_letters`, by default beside
    the sink's files, or `./dead-letters` for Kafka. Raises the errors of `publish`, Unreachable, and ConfigError, also
    for `source_schema_registry` or `spark` beside events.
    """
    policy = OnError.parse(on_error)
    dead_letter_folder = folder(dead_letters, "--dead-letters")
    route = _Route.check(
        source,
        sink,
        config=config,
        schema_registry=schema_registry,
        source_schema_registry=source_schema_registry,
        tz=tz,
        spark=spark,
    )
    settings = route.settings
    registry = route.registry()
    route.topics.ensure(settings.default_topic)
    with route.source.events(progress) as events:
        progress("publishing rows", 0, row_count(events))
        return publish(
            with_commit_ts(events),
            settings,
            route.topics,
            registry,
            zone=route.source.zone,
            cluster_id=cluster_id,
            dead_letters=dead_letter_folder or _beside(settings),
            on_error=policy,
        )


@overload
def plan(source: Events, sink: str, **options: Unpack[PlanEventsOptions]) -> list[PlannedTable]: ...
@overload
def plan(source: str, sink: str, **options: Unpack[PlanTopicOptions]) -> list[PlannedTable]: ...


def plan(
    source: str | Events,
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
    route = _Route.check(
        source,
        sink,
        config=config,
        schema_registry=schema_registry,
        source_schema_registry=source_schema_registry,
        tz=tz,
        spark=spark,
    )
    registry = route.registry()
    with ExitStack() as stack:
        here = route.here(progress)
        if here:
            schemas, ddl = here.schemas(), here.ddl()
        else:
            events = stack.enter_context(route.source.events(progress))
            schemas, ddl = [changes.schema for changes in events.tables], [*events.ddl]
        return plan_tables(
            schemas, ddl, route.settings, route.topics, registry, zone=route.source.zone, cluster_id=cluster_id
        )


def _beside(settings: ChangefeedConfig) -> AnyPath:
    """Return the folder of dead letters beside a sink's files; there is none beside a whole bucket."""
    place = settings.place
    whole = place.is_kafka or not place.path.strip("/")
    return Path("dead-letters") if whole else path_of(place).parent / DEAD_LETTERS
