"""Verdicts on rows, on Arrow columns: counted, or row by row. Source: Avro protocol, row checksum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tidecast.checksum import Verdict
from tidecast.model import Kind, TableSchema
from tidecast.protocols import Decoded, Rejected, Rows
from tidecast.sources import dead_letters, verdicts_on
from tidecast.values import TEXT, json_object, valid

COUNTS = T.StructType(
    [
        T.StructField("database", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("timed", T.BooleanType()),
        T.StructField("verdict", T.StringType()),
        T.StructField("corrupted", T.BooleanType()),
        T.StructField("reason", T.StringType()),
        T.StructField("unknown", T.BinaryType()),
        T.StructField("rows", T.LongType()),
    ]
)
"""How many rows of a table have a verdict, and how many messages are dead letters for a reason, or lack a schema.

`timed` tells that the table has TIMESTAMP columns, `unknown` is the name of what rows need; see
`tidecast.protocols.Decoded`.
"""
_COUNT_TYPES = (pa.string(), pa.string(), pa.bool_(), pa.string(), pa.bool_(), pa.string(), pa.binary(), pa.int64())

VERDICTS = T.StructType(
    [
        T.StructField("database", T.StringType()),
        T.StructField("table", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("op", T.StringType()),
        T.StructField("commit_ts", T.LongType()),
        T.StructField("key", T.StringType()),
        T.StructField("verdict", T.StringType()),
        T.StructField("expected", T.LongType()),
        T.StructField("actual", T.LongType()),
        T.StructField("corrupted", T.BooleanType()),
    ]
)
"""The verdict on each row; see `tidecast.verify`."""


def count_verdicts(batches: Iterable[tuple[Decoded, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield how many rows have which verdict: the columns of `COUNTS`."""
    counts = Counter[tuple[object, ...]]()
    for decoded, _ in batches:
        for rows in decoded.rows:
            schema, found = rows.version.schema, verdicts_on(rows)
            timed = any(c.data_type.kind is Kind.TIMESTAMP for c in schema.columns)
            table = (schema.database, schema.table, timed)
            for number, parts in _counted(found.verdict, found.corrupted, rows.reason):
                counts[(*table, *parts, None)] += number
        for part in decoded.rejected:
            for number, parts in _counted(part.reason):
                counts[(*_NO_ROW, *parts, None)] += number
        for name, at in decoded.unknown:
            counts[(*_NO_ROW, None, name)] += len(at)
    if counts:
        lists = [[*column] for column in zip(*((*key, number) for key, number in counts.items()), strict=True)]
        arrays = [pa.array(column, kind) for column, kind in zip(lists, _COUNT_TYPES, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=COUNTS.names)


_NO_ROW = (None,) * 5


def _counted(*columns: pa.Array) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield how often each combination of values is there. In: columns of few distinct values."""
    encoded = [column.dictionary_encode("encode") for column in columns]
    code = np.zeros(len(columns[0]), np.int64)
    for column in encoded:
        code = code * len(column.dictionary) + np.asarray(column.indices)
    for number, times in enumerate(np.bincount(code)):
        if times:
            parts: list[object] = []
            for column in reversed(encoded):
                number, place = divmod(number, len(column.dictionary))
                parts.append(column.dictionary[place].as_py())
            yield int(times), tuple(reversed(parts))


def list_verdicts(
    batches: Iterable[tuple[Decoded, pa.RecordBatch]], only: Verdict | None = None, of: frozenset[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the verdict on each row, or on the rows with one of them: the columns of `VERDICTS`.

    `of` names table versions, None for all.
    """
    for rows, messages in ((rows, messages) for decoded, messages in batches for rows in decoded.rows):
        if of is not None and rows.version.name not in of:
            continue
        schema, found = rows.version.schema, verdicts_on(rows)
        keys = [rows.image.field(rows.image.type.get_field_index(name)) for name in schema.handle_key]
        record = messages.take(pa.array(rows.at))
        count = len(rows.at)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([schema.database] * count, pa.string()),
                pa.array([schema.table] * count, pa.string()),
                *(record.column(name) for name in ("topic", "partition", "offset")),
                rows.op,
                rows.commit_ts,
                json_object([*schema.handle_key], keys) if keys else pa.nulls(count, TEXT),
                found.verdict,
                found.expected,
                found.actual,
                found.corrupted,
            ],
            names=VERDICTS.names,
        )
        yield batch if only is None else batch.filter(pc.equal(found.verdict, str(only)))


def list_verdicts_of(schema: TableSchema, changes: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the verdict on each row of a table: the columns of `VERDICTS`. In: those of `TableChanges.frame`."""
    return list_verdicts([(Decoded([Rows.of_changes(schema, changes)]), changes)])


def list_unread(batches: Iterable[tuple[Decoded, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yield the messages that could not be read, and why: the columns of `DEAD_LETTER`."""
    for decoded, messages in batches:
        bad = [rows.take(valid(rows.reason)) for rows in decoded.rows if rows.reason.null_count < len(rows.at)]
        parts: list[Rejected | Rows] = [*decoded.rejected, *bad]
        for part in parts:
            yield dead_letters(messages, part.at, part.reason, part.detail)
