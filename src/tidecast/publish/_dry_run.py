"""What a changefeed would publish, found out without publishing or creating anything."""

from __future__ import annotations

from dataclasses import dataclass

from tidecast._errors import EncodeError
from tidecast.config import ChangefeedConfig
from tidecast.model import Events, TableSchema
from tidecast.protocols import Codec, RoutedTable, codec_for
from tidecast.registry import Registry
from tidecast.routing import Router, TableFilter
from tidecast.topics import Topics


@dataclass(frozen=True)
class PlannedSchema:
    """A schema that a table's messages need: its subject, and why the registry would refuse it, None if not."""

    subject: str
    schema: str
    refusal: str | None = None


@dataclass(frozen=True)
class PlannedTable:
    """What becomes of one table version.

    `partitions` is None for a topic that would be created. `skipped` tells why no row of it leaves, `unencodable`
    why the protocol has no form for it. `damages` are columns some of whose values the form damages, and how.
    """

    table: str
    version: int
    topic: str = ""
    partitions: int | None = None
    partition_rule: str = ""
    handle_key: tuple[str, ...] = ()
    schemas: tuple[PlannedSchema, ...] = ()
    lossy_columns: tuple[tuple[str, str], ...] = ()
    skipped: str | None = None
    unencodable: str | None = None


def plan(
    events: Events,
    config: ChangefeedConfig,
    sink: Topics,
    registry: Registry | None = None,
    *,
    zone: str = "UTC",
    cluster_id: str = "default",
) -> list[PlannedTable]:
    """Return what publishing a batch of events would do with each of its table versions, in the order of their rows.

    Nothing is registered, created or sent. Raises the errors of a configuration that does not fit the tables.
    """
    codec = codec_for(config.protocol, config.codec_options(zone, cluster_id), registry)
    router = Router(config.routing, zone)
    wanted = TableFilter(config.filter.rules, case_sensitive=config.case_sensitive)
    return [_planned(changes.schema, config, codec, router, wanted, sink, registry) for changes in events.tables]


def _planned(
    schema: TableSchema,
    config: ChangefeedConfig,
    codec: Codec,
    router: Router,
    wanted: TableFilter,
    sink: Topics,
    registry: Registry | None,
) -> PlannedTable:
    if not wanted.matches(schema.database, schema.table):
        return PlannedTable(schema.name, schema.version, skipped="no filter rule lets it through")
    if not (schema.handle_key or config.force_replicate):
        reason = "it has neither a primary key nor a unique key on NOT NULL columns"
        return PlannedTable(schema.name, schema.version, skipped=reason)
    table = RoutedTable(schema, router.select_columns(schema), router.topic_for(schema))
    info = sink.look(table.topic)
    schemas, unencodable = [], None
    try:
        for subject, text in codec.schemas_of(table):
            schemas.append(PlannedSchema(subject, text, registry.refusal(subject, text) if registry else None))
    except EncodeError as error:
        unencodable = str(error)
    return PlannedTable(
        schema.name,
        schema.version,
        table.topic,
        info.partitions if info else None,
        router.partition_rule(schema),
        table.selected.handle_key,
        tuple(schemas),
        tuple(codec.lossy_columns(table)),
        unencodable=unencodable,
    )
