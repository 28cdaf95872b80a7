"""Rows with the verdict on each, checked where they are read. Source: Avro protocol, row checksum."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidecast.checksum import Verdicts, verdicts
from tidecast.model import TableChanges, TableSchema
from tidecast.protocols import Rows
from tidecast.sources._passes import TypedRows
from tidecast.spark import mapped

VERIFICATION = T.StructType(
    [
        T.StructField("verdict", T.StringType()),
        T.StructField("expected", T.LongType()),
        T.StructField("actual", T.LongType()),
        T.StructField("corrupted", T.BooleanType()),
    ]
)
"""The verdict on a row; see `tidecast.checksum.Verdicts`."""


def with_verdict(changes: TableChanges) -> DataFrame:
    """Return the frame of a table version's changes with the verdict on each.

    Out: the frame's columns and `verification`, a struct of `verdict` string (see `tidecast.checksum.Verdict`),
    `expected`, `actual` bigint and `corrupted` boolean; see `tidecast.checksum.verdicts`.
    """
    if isinstance(changes.source, TypedRows):
        return changes.source.more(T.StructField("verification", VERIFICATION), verification)
    frame = changes.frame
    out = T.StructType([*frame.schema.fields, T.StructField("verification", VERIFICATION)])
    return mapped(frame, partial(_with_verification, changes.schema), out)


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


def _with_verification(schema: TableSchema, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield batch.append_column("verification", verification(Rows.of_changes(schema, batch)))
