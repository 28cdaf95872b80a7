"""The messages that leave beside rows because of schemas: schema changes, and schemas that are repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from tidecast._errors import TerminalError
from tidecast._tso import is_tso
from tidecast.model import Ddl, SchemaKey, TableSchema
from tidecast.protocols import protocol_named
from tidecast.publish._batch import Batch, OutgoingTable, Stop, first_stop
from tidecast.publish._bootstrap import Bootstraps, is_same, table_key
from tidecast.publish._control_events import Control, TableTopics, ddl_topic, table_changes
from tidecast.publish._fit import Fitting
from tidecast.publish._order import row_sequence

_KEPT_BACK = "{}.{}: nothing has told its key yet, and a schema change does not leave: {}"


def _version(schema: TableSchema) -> tuple[str, int]:
    return table_key(schema), schema.version


class SchemaEvents:
    """The schema changes of a batch, and the schemas that `rules` ask to be repeated."""

    def __init__(self, batch: Batch, rules: Bootstraps, fitting: Fitting) -> None:
        self._batch, self._rules, self._fitting = batch, rules, fitting
        rules.follow(lambda schema: batch.router.routes.schema(schema).name)

    def bootstraps(
        self, tables: Sequence[OutgoingTable], rows: Mapping[int, int], fitted: DataFrame, *, moved: bool
    ) -> Iterator[Control]:
        """Yield the schemas to be repeated: those of the source, and what the rules of bootstraps ask for beside.

        `rows` counts the rows of each table by its number; `fitted` are their messages (see `FITTED`).
        """
        rules, events, router = self._rules, self._batch.events, self._batch.router
        if not rules.enabled:
            return
        first = min((t.changes.rows_from for t in tables if t.changes.rows_from is not None), default=None)
        yield from self.due(first)
        repeated: dict[tuple[str, int], int] = {}
        for bootstrap in events.bootstraps:
            if self._batch.passes(bootstrap.schema):
                topic = router.topic_for(bootstrap.schema)
                repeated.setdefault(_version(bootstrap.schema), bootstrap.position or 0)
                yield from self._bootstrap(bootstrap.schema, topic, bootstrap.position, ahead=not events.ordered)
        changed = {_version(ddl.schema) for ddl in events.ddl if ddl.schema and self._leaves(ddl)}
        versions: dict[tuple[str, int], tuple[int, TableSchema]] = {}
        for number, outgoing in enumerate(tables):
            schema, start = outgoing.source, outgoing.changes.rows_from
            if number in rows and start is not None:
                earlier, other = versions.get(_version(schema), (start, schema))
                versions[_version(schema)] = min(start, earlier), max(schema, other, key=lambda s: len(s.columns))
        for number, outgoing in enumerate(tables):
            schema, topic, start = outgoing.source, outgoing.table.topic, outgoing.changes.rows_from
            if number not in rows or start is None:
                continue
            version = _version(schema)
            if rules.is_new(schema) or not (rules.is_told(schema) or version in changed):
                start, whole = versions[version]
                if repeated.get(version, start + 1) > start:
                    yield from self._bootstrap(whole, topic, start, ahead=True)
                rules.repeated(whole, topic)
            before, count = rules.rows(schema), rows[number]
            if before + count >= rules.every_rows:
                for position in self._every(fitted, number, rules.every_rows, before, moved):
                    yield from self._bootstrap(schema, topic, position, ahead=True)
                rules.repeated(schema, topic)
                count = (before + count) % rules.every_rows
            rules.took(schema, topic, count)

    def named(self, tables: Sequence[OutgoingTable]) -> list[OutgoingTable]:
        """Return table versions as rows name them: a number stands for one schema of a table, also in later batches.

        A number of TiDB's does. That of a registry may not, as the table's key has a schema of its own there; and some
        sources tell none: a version then has the place of its first row. An Avro delete shows the schema of its key,
        which is no version of its table: it goes by the newest one.
        """
        batch, newest = self._batch, dict(self._rules.newest())
        for changes in batch.events.tables:
            if not changes.of_key:
                name = (changes.schema.database, changes.schema.table)
                newest[name] = max(changes.schema.version, newest.get(name, 0))
        taken: dict[SchemaKey, TableSchema] = {}

        def number(outgoing: OutgoingTable) -> int:
            schema, start = outgoing.source, outgoing.changes.rows_from
            if outgoing.changes.of_key:
                return newest.get(schema.key[:2], schema.version)
            found = schema.version
            if not is_tso(found):
                last = self._rules.last(schema)
                if last:
                    taken.setdefault(last.key, last)
                fresh = max(found or (start or 0) + 1, self._rules.highest(schema) + 1)
                found = last.version if last and is_same(last, schema) else fresh
            while not is_same(taken.setdefault((*schema.key[:2], found), schema), schema):
                found += 1
            newest[schema.key[:2]] = max(found, newest.get(schema.key[:2], 0))
            return found

        def named(outgoing: OutgoingTable, version: int) -> OutgoingTable:
            schema = outgoing.source
            if version == schema.version:
                return outgoing
            return replace(outgoing, table=batch.routed(replace(schema, version=version)))

        numbers = {id(t): number(t) for t in sorted(tables, key=lambda t: t.changes.of_key)}
        return [named(table, numbers[id(table)]) for table in tables]

    def due(self, position: int | None) -> Iterator[Control]:
        """Yield the schemas whose time has come."""
        if self._rules.enabled:
            for schema, topic in self._rules.due():
                self._rules.repeated(schema, topic)
                yield from self._bootstrap(schema, topic, position, ahead=True)

    def _every(self, fitted: DataFrame, number: int, every: int, before: int, moved: bool) -> list[int]:
        """Return the positions of a table's rows at which its schema is due again, by their number."""
        mine = fitted.where((F.col("plan") == number) & F.col("reason").isNull())
        at = F.col("sequence.at")
        placed = mine.select(row_sequence(self._batch.events, moved=moved, alone=False).alias("sequence"))
        nth = F.row_number().over(Window.orderBy("sequence")) + before
        due = placed.select(at.alias("at"), nth.alias("nth")).where(F.col("nth") % every == 0)
        return [row["at"] for row in due.orderBy("nth").collect()]

    def _bootstrap(self, schema: TableSchema, topic: str, position: int | None, *, ahead: bool) -> Iterator[Control]:
        message = self._batch.codec.bootstrap(self._batch.router.routes.schema(schema))
        if message:
            to_all = self._batch.config.sink.send_bootstrap_to_all_partition
            partitions = self._batch.topics.partitions(topic) if to_all else range(1)
            yield Control(position, topic, partitions, self._fitting.packed(message), ahead, schema.table)

    def ddl(self) -> Iterator[list[Control]]:
        """Yield the messages of each schema change that has some."""
        batch = self._batch
        for ddl in batch.events.ddl:
            named = self._named(ddl)
            if isinstance(named, Stop):
                continue
            messages = batch.codec.ddl(named)  # the codec learns from those, too, that do not leave
            if not self._leaves(ddl):
                continue
            topic = ddl_topic(ddl, batch.router, batch.config.default_topic)
            if messages:
                if ddl.schema:
                    self._rules.told(ddl.schema)
                partitions = batch.topics.partitions(topic)[: protocol_named(batch.config.protocol).ddl_partitions]
                packed = map(self._fitting.packed, messages)
                yield [Control(ddl.position, topic, partitions, m, table=ddl.table) for m in packed]

    def _named(self, ddl: Ddl) -> Ddl | Stop:
        """Return a schema change by the names of tables in messages."""
        try:
            return self._batch.router.routes.ddl(ddl)
        except TerminalError as error:
            return Stop(ddl.position, error)

    def misrouted(self, before: TableTopics) -> Stop | None:
        """Return the stop before a schema change that cannot be routed, or before two tables get one name.

        `before` are the tables that earlier runs published.
        """
        batch, routes = self._batch, self._batch.router.routes
        if not routes:
            return None
        stop: Stop | None = None
        for ddl in filter(self._leaves, batch.events.ddl):
            if isinstance(named := self._named(ddl), Stop):
                stop = first_stop(stop, named)
        kept = [name for name in before if batch.tables.matches(*name)]
        owners = {routes.name(*name): name for name in kept}
        schemas = (changes.schema for changes in batch.events.tables)
        for change in table_changes(kept, batch.events.ddl, schemas, batch.passes):
            for name in change.gone:
                owners.pop(routes.name(*name), None)
            if change.come and (conflict := routes.conflict(owners, change.come.key[:2])):
                return first_stop(stop, Stop(change.position, conflict))
        return stop

    def kept_back(self) -> list[str]:
        """Return warnings of the schema changes that do not leave as nothing has told the key of their table yet.

        There is none of a CREATE: the whole table leaves before its first row.
        """
        kept = [ddl for ddl in self._batch.events.ddl if ddl.type != "CREATE" and self._misleads(ddl)]
        return [_KEPT_BACK.format(ddl.database, ddl.table, ddl.sql) for ddl in kept if self._batch.passes_ddl(ddl)]

    def _leaves(self, ddl: Ddl) -> bool:
        return self._batch.passes_ddl(ddl) and not self._misleads(ddl)

    def _misleads(self, ddl: Ddl) -> bool:
        """Tell whether readers would take a table for one without a key."""
        if ddl.schema is None or ddl.is_view or ddl.schema.keys_known:
            return False
        return protocol_named(self._batch.config.protocol).bootstraps

    def renamed_in(self) -> Stop | None:
        """Return the stop before a RENAME that brings a table under the rules: the sink lacks what it had before."""
        for ddl in self._batch.events.ddl:
            before = ddl.renamed_from
            if before and self._batch.is_brought_in(ddl):
                now, then = f"{ddl.database}.{ddl.table}", ".".join(before)
                error = TerminalError(
                    f"the filter rules let table {now} in, but not {then}, as it was called before",
                    code="CDC:ErrSyncRenameTableFailed",
                    where=f"commit-ts {ddl.commit_ts}",
                    hint=f"let {then} in by [filter] rules, or start after the RENAME",
                )
                return Stop(ddl.position, error)
        return None
