"""What a row's checksum says about it. Source: Avro protocol, corrupted rows, consumers compared."""

from __future__ import annotations

import enum

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.checksum._row import row_checksum
from tidecast.model import TableSchema


class Verdict(enum.StrEnum):
    """What became of a row's check."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"
    ZERO = "zero"
    DELETE = "delete"
    UNREADABLE = "unreadable"


def verdict(schema: TableSchema, row: Column, checksum: Column, *, member: str = "current") -> Column:
    """Return the verdict on a row.

    In: a row of the model and its checksum (see `tidecast.model.CHECKSUM`); `member` is `current` for
    the row after a change, `previous` for the row before. Out: struct of `verdict` string: `match`, `mismatch`, `none`
    (there is no checksum, or no row) or `zero` (the source did not know it: not checked); `expected` bigint, null where
    the source's text is no number; `actual` bigint; and `corrupted` boolean: the source itself found the row damaged,
    which says nothing about the verdict.
    """
    expected, actual = checksum[member], row_checksum(schema, row)
    return F.struct(
        # The match comes first, as Spark computes what is in a first condition once, and in others once more.
        F.when((expected == actual) & (expected != 0), F.lit(Verdict.MATCH))
        .when(expected.isNull() | row.isNull(), F.lit(Verdict.NONE))
        .when(expected == 0, F.lit(Verdict.ZERO))
        .otherwise(F.lit(Verdict.MISMATCH))
        .alias("verdict"),
        F.when(expected >= 0, expected).alias("expected"),
        actual.alias("actual"),
        F.coalesce(checksum["corrupted"], F.lit(False)).alias("corrupted"),
    )
