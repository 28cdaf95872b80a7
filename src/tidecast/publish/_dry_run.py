"""A changefeed's result, found out without publishing or creating anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidecast._errors import EncodeError
from tidecast.config import ChangefeedConfig
from tidecast.model import Ddl, TableSchema
from tidecast.protocols import codec_for
from tidecast.publish._batch import Rules, rules_of
from tidecast.registry import Registry
from tidecast.topics import WritableTopics


@dataclass(frozen=True)
class PlannedSchema:
    """A schema that a table's messages need: its subject, and why the registry would refuse it, None if not."""

    subject: str
    schema: str
    refusal: str | None = None


@dataclass(frozen=True)
class PlannedTable:
    """One table version in a dry run.

    `partitions` is None for a topic that would be created. `skipped` tells why no row of it leaves, `unencodable`
    why the protocol has no form for it. `lossy_columns` are those some of whose values the form damages, and how.
    `target` is the table's name in messages.
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
    target: str = ""


def plan(
    schemas: Iterable[TableSchema],
    ddl: Iterable[Ddl],
    config: ChangefeedConfig,
    sink: WritableTopics,
    registry: Registry | None = None,
    *,
    zone: str = "UTC",
    cluster_id: str = "default",
) -> list[PlannedTable]:
    """Return what publishing a batch of events would do with each of its table versions, in their order.

    In: the table versions, and the schema changes beside their rows. Nothing is registered, created or sent. Raises the
    errors of a configuration that does not fit the tables.
    """
    codec = codec_for(config.protocol, config.codec_options(zone, cluster_id), registry)
    rules = rules_of(ddl, config, sink, codec, zone=zone)
    return [_planned(rules, schema, registry) for schema in schemas]


def _planned(rules: Rules, schema: TableSchema, registry: Registry | None) -> PlannedTable:
    if not rules.wanted(schema):
        return PlannedTable(schema.name, schema.version, skipped="no filter rule lets it through")
    if not rules.eligible(schema):
        reason = "it has neither a primary key nor a unique key on NOT NULL columns"
        return PlannedTable(schema.name, schema.version, skipped=reason)
    table = rules.routed(schema)
    info = rules.topics.sink.look(table.topic)
    schemas, unencodable = [], None
    try:
        for subject, text in rules.codec.schemas_of(table):
            schemas.append(PlannedSchema(subject, text, registry.refusal(subject, text) if registry else None))
    except EncodeError as error:
        unencodable = str(error)
    return PlannedTable(
        schema.name,
        schema.version,
        table.topic,
        info.partitions if info else None,
        rules.router.partition_rule(schema),
        table.selected.handle_key,
        tuple(schemas),
        tuple(rules.codec.lossy_columns(table)),
        unencodable=unencodable,
        target=table.schema.name,
    )
