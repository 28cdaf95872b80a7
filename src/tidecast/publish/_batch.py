"""The objects that publishing shares: a batch of events, the rules of its changefeed, and the sink's topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast._errors import TidecastError
from tidecast.config import ChangefeedConfig
from tidecast.model import Ddl, Events, TableChanges, TableSchema
from tidecast.protocols import Codec, RoutedTable, SinkCodec
from tidecast.routing import EventFilters, Router, TableFilter
from tidecast.topics import TopicInfo, WritableTopics


class SinkTopics:
    """The topics of a sink; each is made or looked at once."""

    def __init__(self, sink: WritableTopics) -> None:
        self.sink = sink
        self._known: dict[str, TopicInfo] = {}

    def info(self, topic: str) -> TopicInfo:
        """Return what is to be known of a topic that is going to be written; it is made where it is not there."""
        if topic not in self._known:
            self._known[topic] = self.sink.ensure(topic)
        return self._known[topic]

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic that is going to be written."""
        return range(self.info(topic).partitions)


@dataclass(frozen=True)
class Rules:
    """The rules by which rows leave: which of them, where to, and in which form."""

    config: ChangefeedConfig
    topics: SinkTopics
    codec: Codec
    router: Router
    filters: EventFilters
    tables: TableFilter

    def wanted(self, schema: TableSchema) -> bool:
        """Tell whether the filter rules let a table through."""
        return self.tables.matches(schema.database, schema.table)

    def eligible(self, schema: TableSchema) -> bool:
        """Tell whether a table may have a key, or needs none."""
        return schema.may_have_key or self.config.force_replicate

    def passes(self, schema: TableSchema) -> bool:
        """Tell whether the rules let a table through and it is eligible."""
        return self.wanted(schema) and self.eligible(schema)

    def passes_ddl(self, ddl: Ddl) -> bool:
        """Tell whether a schema change leaves: of a table that passes by its name before, and by no event filter out.

        An exchange of a partition leaves for the other table's sake, too, whatever event filters say then.
        """
        if not ddl.table:
            return self.tables.matches_schema(ddl.database) and not self.filters.drops_ddl(ddl)
        if not self._is_of_eligible(ddl):
            return False
        if self.tables.matches(*(ddl.renamed_from or (ddl.database, ddl.table))):
            return not self.filters.drops_ddl(ddl)
        return ddl.exchanged is not None and self.tables.matches(*ddl.shown_as)

    def is_brought_in(self, ddl: Ddl) -> bool:
        """Tell whether a RENAME brings a table under the filter rules."""
        was, matches = ddl.renamed_from, self.tables.matches
        return was is not None and matches(ddl.database, ddl.table) and not matches(*was) and self._is_of_eligible(ddl)

    def _is_of_eligible(self, ddl: Ddl) -> bool:
        """Tell whether a schema change is of an eligible table, which without its schema nobody knows."""
        return ddl.schema is None or ddl.is_view or self.eligible(ddl.schema)

    def routed(self, schema: TableSchema) -> RoutedTable:
        """Return a table version with its topic and the columns that leave. Raises ConfigError for unfit rules."""
        routes, selected = self.router.routes, self.router.select_columns(schema)
        named = routes.schema(schema)
        kept = named if selected is schema else routes.schema(selected)
        return RoutedTable(named, kept, self.router.topic_for(schema))


def rules_of(
    ddl: Iterable[Ddl],
    config: ChangefeedConfig,
    sink: WritableTopics,
    codec: Codec,
    filters: EventFilters | None = None,
    *,
    zone: str = "UTC",
) -> Rules:
    """Return the rules of a configuration; `zone` is the time zone of TIMESTAMP text.

    In: `ddl` are the schema changes among the events, which may say what table versions are called.
    """
    tables = TableFilter(config.file.filter.rules, case_sensitive=config.file.case_sensitive)
    router = Router(config.routing, zone, codec.folder if isinstance(codec, SinkCodec) else None)
    if isinstance(codec, SinkCodec):
        codec.learn((router.routes.schema(change.schema), change.commit_ts) for change in ddl if change.schema)
    return Rules(config, SinkTopics(sink), codec, router, filters or EventFilters(()), tables)


@dataclass(frozen=True)
class Batch(Rules):
    """One batch of events on its way out, by the rules of its changefeed."""

    events: Events

    @classmethod
    def of(cls, events: Events, rules: Rules) -> Batch:
        """Return events on their way out by some rules."""
        return cls(**vars(rules), events=events)


@dataclass(frozen=True)
class OutgoingTable:
    """The rows of one table version on their way out, and how many partitions its topic has."""

    changes: TableChanges
    table: RoutedTable
    partitions: int

    @property
    def source(self) -> TableSchema:
        """The table version by the name that its source gives it."""
        return replace(self.changes.schema, version=self.table.schema.version)


@dataclass(frozen=True)
class Stop:
    """Why a run ends before its last row, and the position of the row at which it does; None for before all rows."""

    position: int | None
    error: TidecastError

    def before(self, events: Events) -> Column:
        """Return which encoded rows come before it; none where the source's rows have no common order."""
        if self.position is None or events.position is None:
            return F.lit(False)
        return F.col(f"source.{events.position}") < self.position


def first_stop(one: Stop | None, other: Stop | None) -> Stop | None:
    """Return the stop that comes first, None where there is none."""
    stops = [s for s in (one, other) if s]
    return min(stops, key=lambda s: (s.position is not None, s.position or 0), default=None)
