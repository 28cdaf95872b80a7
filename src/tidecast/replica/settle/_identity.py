"""By what a change is known again when the source sends it once more, where its row has no key."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import TableChanges, TableSchema

IDENTITY = ("message", "hash_0", "hash_1")
_SENT = ("sent_hash_0", "sent_hash_1")


def sent_row(schema: TableSchema) -> dict[str, Column]:
    """Return hashes that tell the row of a change, as it was sent, and its table; for changes that will show others."""
    rows = (_hash_of(schema, F.coalesce("data", "old"), seed, F.lit(schema.name)) for seed in range(2))
    return dict(zip(_SENT, rows, strict=True))


def identity(change: TableChanges, log: bool) -> list[Column]:
    """Return `IDENTITY`. The hashes are of the version's own row: the table's may get columns and types later."""
    hashes = [_hash_of(change.schema, image_of_row(log), seed) for seed in range(2)]
    if set(_SENT) <= set(change.frame.columns):
        hashes = [F.col(name) for name in _SENT]
    return named(dict(zip(IDENTITY, (F.xxhash64("timestamp", "key", "value"), *hashes), strict=True)))


def _hash_of(schema: TableSchema, image: Column, seed: int, *more: Column) -> Column:
    """Return a hash of an operation and a row. Spark's passes over null, so that each value goes with its name."""
    values = [(c.name, image[c.name]) for c in schema.columns]
    named = [F.when(value.isNotNull(), F.struct(F.lit(name), value)) for name, value in values]
    return F.xxhash64(F.lit(seed), "op", *more, *named)


def image_of_row(log: bool) -> Column:
    """Return what a change shows of its row: for a log the row before it where there is none after it."""
    return F.coalesce("data", "old") if log else F.col("data")


def named(columns: Mapping[str, Column]) -> list[Column]:
    """Return columns under names."""
    return [column.alias(name) for name, column in columns.items()]
