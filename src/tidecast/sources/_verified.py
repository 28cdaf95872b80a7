"""Rows with the verdict on each, checked where they are read. Source: Avro protocol, row checksum."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidecast.checksum import Verdicts, verdicts
from tidecast.model import TableChanges, TableSchema
from tidecast.protocols import Rows
from tidecast.sources._passes import then_with

VERIFICATION = T.StructType(
    [
        T.StructField("verdict", T.StringType()),
        T.StructField("expected", T.LongType()),
        T.StructField("actual", T.LongType()),
        T.StructField("corrupted", T.BooleanType()),
    ]
)
"""The verdict on a row; see `tidecast.checksum.Verdicts`."""


def verified(changes: TableChanges) -> TableChanges:
    """Return the changes of a table version with the verdict on each.

    Out: their columns and `verification`, a struct of `verdict` string (see `tidecast.checksum.Verdict`), `expected`,
    `actual` bigint and `corrupted` boolean; see `tidecast.checksum.verdicts`.
    """
    return then_with(changes, partial(_with_verification, changes.schema), T.StructField("verification", VERIFICATION))


def with_verdict(changes: TableChanges) -> DataFrame:
    """Return the frame of `verified`."""
    return verified(changes).frame


def verdicts_on(rows: Rows) -> Verdicts:
    """Return the verdict on each row of a table version."""
    return verdicts(
        rows.version.schema, op=rows.op, old=rows.old, data=rows.data, checksum=rows.checksum, reason=rows.reason
    )


def verification(rows: Rows) -> pa.StructArray:
    """Return the verdict on each row: a struct of the columns of `VERIFICATION`."""
    found = verdicts_on(rows)
    parts = [found.verdict, found.expected, found.actual, found.corrupted]
    return pa.StructArray.from_arrays(parts, names=VERIFICATION.names)


def _with_verification(schema: TableSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("verification", verification(Rows.of_changes(schema, rows)))
