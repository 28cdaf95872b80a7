"""By what a change is known again when the source sends it once more, where its row has no key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import TableChanges, TableSchema, row_type
from tidecast.sources import columns_of, then_with

IDENTITY = ("message", "hash_0", "hash_1")
SENT, SENT_TABLE = "sent", "sent_table"
"""A change's row as it was sent, and its table at the source; see `as_sent`."""


def as_sent(changes: TableChanges, schema: TableSchema) -> TableChanges:
    """Return changes that will show other rows, or another table, with the row and the table as they were sent."""
    columns = T.StructField(SENT, row_type(schema)), T.StructField(SENT_TABLE, T.StringType())
    return then_with(changes, partial(_with_sent, schema.name), *columns)


def _with_sent(name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    sent = row_image(rows, of_deletes=True)
    return rows.append_column(SENT, sent).append_column(SENT_TABLE, pa.repeat(name, rows.num_rows))


def row_image(rows: pa.RecordBatch, *, of_deletes: bool) -> pa.StructArray:
    """Return what changes show of their rows; with `of_deletes` the row before where there is none after it."""
    old, data = rows.column("old"), rows.column("data")
    return pc.if_else(data.is_valid(), data, old) if of_deletes and data.null_count else data


def is_sent(changes: TableChanges) -> bool:
    """Tell whether changes show their rows as they were sent beside others."""
    return SENT in columns_of(changes).names


def identity(names: Sequence[str], row: Column, told: Sequence[Column], message: Column) -> list[Column]:
    """Return `IDENTITY` of the columns of a row, and of `told`: the change's operation, and its table as it was sent.

    The hashes are of the version's own row: the table's may get columns and types later. Spark's passes over null, so
    that each value goes with its name.
    """
    values = [F.when(row[name].isNotNull(), F.struct(F.lit(name), row[name])) for name in names]
    hashes = [F.xxhash64(F.lit(seed), *told, *values) for seed in range(2)]
    of_message = F.xxhash64(*(message[name] for name in ("timestamp", "key", "value")))
    return [column.alias(name) for name, column in zip(IDENTITY, (of_message, *hashes), strict=True)]
