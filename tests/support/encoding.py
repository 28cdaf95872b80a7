"""Rows of a frame as the messages that an encoder makes of them, in process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tidecast.model import TableSchema
from tidecast.protocols import Encoder, RoutedTable, Rows

_COLUMNS = ("op", "old", "data", "commit_ts", "table_id", "checksum", "reason", "detail")


@dataclass(frozen=True)
class Encoded:
    """A row's key and value, why it has none, and the columns that were kept of it."""

    key: bytes | None
    value: bytes | None
    wrong: str | None
    kept: dict[str, Any]


def encoded(
    frame: DataFrame,
    schema: TableSchema,
    encoder: Callable[[Rows], Encoder],
    *,
    keep: Sequence[str] = ("offset",),
    columns: frozenset[str] | None = None,
    reduced: bool = False,
    location: Callable[[dict[str, Any]], str] | None = None,
) -> list[Encoded]:
    """Return what an encoder makes of the changes of one table; `columns` are those that a selector lets through."""
    named = [name for name in _COLUMNS if name in frame.columns and name not in keep]
    changes = frame.select(*keep, *named).toArrow()
    table = RoutedTable(schema, schema, "topic")
    if columns is not None:
        table = RoutedTable(schema, schema.selecting(columns), "topic")
    (batch,) = changes.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], changes.schema)]
    rows = Rows.of_changes(schema, batch)
    using = encoder(rows)
    kept = changes.select([*keep]).to_pylist()
    wrong = using.unencodable(table, rows).to_pylist()
    places = None if location is None else pa.array(map(location, kept), pa.large_string())
    made = using.reduced(table, rows, places) if reduced else using.value(table, rows)
    parts = zip(using.key(table, rows).to_pylist(), made.to_pylist(), rows.reason.to_pylist(), wrong, kept, strict=True)
    return [Encoded(key, value, reason or why, row) for key, value, reason, why, row in parts]
