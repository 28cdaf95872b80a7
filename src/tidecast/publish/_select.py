"""The first two stages: which table versions leave, and the registration of the schemas that their rows need."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from tidecast._errors import EncodeError, SchemaRefused
from tidecast.model import TableChanges
from tidecast.protocols import Codec, RoutedTable
from tidecast.publish._batch import Batch, OutgoingTable, Stop
from tidecast.publish._control_events import TableTopics

_log = logging.getLogger(__name__)


def select_tables(batch: Batch, before: TableTopics) -> tuple[list[OutgoingTable], Counter[str]]:
    """Return the table versions that leave, and by table the rows that are left out for want of a key.

    `before` are the tables that earlier runs published, with their topics. Raises ConfigError where the rules do not
    fit the tables.
    """
    chosen, skipped = [], Counter[str]()
    for changes in batch.events.tables:
        schema = changes.schema
        if not batch.wanted(schema):
            continue
        if batch.eligible(schema):
            chosen.append((changes, batch.routed(schema)))
        else:
            skipped[schema.name] += changes.rows
    batch.router.check_fixed_topics([changes.schema for changes, _ in chosen])
    _warn_of_lossy_columns(batch.codec, chosen, before)
    outgoing = [OutgoingTable(changes, table, len(batch.topics.partitions(table.topic))) for changes, table in chosen]
    return outgoing, skipped


def _warn_of_lossy_columns(
    codec: Codec, tables: Iterable[tuple[TableChanges, RoutedTable]], before: TableTopics
) -> None:
    """Tell in the log, when a table comes to a topic, what the protocol's form does to values."""
    topics = dict(before)
    for changes, table in tables:
        name = changes.schema.key[:2]
        lossy = codec.lossy_columns(table) if topics.get(name) != table.topic else ()
        topics[name] = table.topic
        if lossy:
            words = "; ".join(f"{column}: {damage}" for column, damage in lossy)
            _log.warning("topic %s, table %s: %s", table.topic, changes.schema.name, words)


def register_schemas(codec: Codec, tables: list[OutgoingTable]) -> tuple[Stop | None, list[OutgoingTable]]:
    """Register every schema that a row needs, in the order in which rows need them; stop at the first refusal.

    Returns the tables whose rows, or at least whose deletes, can leave.
    """
    steps: list[tuple[int, int, OutgoingTable, Callable[[RoutedTable], None]]] = []
    for table in tables:
        if table.changes.rows_from is not None:
            steps.append((table.changes.rows_from, 0, table, codec.prepare_key))
        changes = table.changes
        deletes = codec.deletes_need_value(of_key=changes.of_key)
        first = changes.rows_from if deletes else changes.upserts_from
        if first is not None:
            steps.append((first, 1, table, codec.prepare_value))
    ready, stop = [], None
    for position, is_value, table, prepare in sorted(steps, key=lambda s: s[:2]):
        try:
            prepare(table.table)
        except (SchemaRefused, EncodeError) as error:
            stop = Stop(position, error)
            break
        if not is_value:
            ready.append(table)
    return stop, [table for table in tables if table in ready]
