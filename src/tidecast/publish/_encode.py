"""The stage that makes messages of rows, and the columns that pass from stage to stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.checksum import row_checksum
from tidecast.model import CHECKSUM, HEADERS, RECORD, Reason, TableSchema
from tidecast.protocols import ColumnCodec, Encoder
from tidecast.publish._batch import Batch, OutgoingTable
from tidecast.publish._fit import MessageSize
from tidecast.publish._rows import SENT, RowPlan, messages_of, messages_of_frame, split_frame
from tidecast.publish._split import MOVED, split_key_updates
from tidecast.spark import ansi_enabled, mapped, reused, union

_SOURCE = T.StructType([*RECORD.fields, T.StructField("commit_ts", T.LongType())])

_HELD = ("timestamp", "key", "value", "headers")
"""What only dead letters tell of a record."""

_PLACED = [
    T.StructField("plan", T.IntegerType()),
    T.StructField("topic", T.StringType()),
    T.StructField("partition", T.IntegerType()),
]
_COMMON = [
    T.StructField("source", _SOURCE),
    T.StructField("op", T.StringType()),
    T.StructField(MOVED, T.BooleanType()),
    T.StructField("reason", T.StringType()),
    T.StructField("detail", T.StringType()),
    T.StructField("corrupted", T.BooleanType()),
    T.StructField("key", T.BinaryType()),
    T.StructField("whole", T.BinaryType()),
]

ENCODED = T.StructType(
    [*_PLACED, T.StructField("reduced", T.BinaryType()), T.StructField("location", T.StringType()), *_COMMON]
)
"""A row as a message: `source` is the record that it came from, `plan` the number of its table version in the batch.

Of the record, what it held is there for rows that cannot go alone: all that is kept is moved about and sorted.

`reason` and `detail` tell why it cannot go. `whole` is its value, `reduced` the one with the handle key alone and
`location` where the whole one will lie, both null where the whole one surely fits.
"""

FITTED = T.StructType(
    [
        *_PLACED,
        T.StructField("location", T.StringType()),
        *_COMMON,
        T.StructField("value", T.BinaryType()),
        T.StructField("stop", T.IntegerType()),
    ]
)
"""An encoded row in the form that fits, `value`; `whole` and `location` are there for a claim check alone.

`stop` tells that the run ends here: the size that nothing fits, or 0 for a row that its source found damaged.
"""


def sent_messages(
    batch: Batch, tables: Sequence[OutgoingTable], encoder: Encoder, size: MessageSize
) -> DataFrame | None:
    """Return the messages of all rows: the columns of `FITTED`, None where there is no table.

    The rows of a source that are just as it gave them are read in one pass; others come from their table's frame.
    """
    whole, frames = dict[str, RowPlan](), []
    for number, outgoing in enumerate(tables):
        plan = _plan(batch, number, outgoing, encoder, size)
        changes, schema = outgoing.changes, outgoing.table.schema
        by_values = batch.filters.reads_values(schema)
        if batch.events.rows and callable(changes.source) and not by_values:
            whole[changes.name] = plan
            continue
        frame = changes.frame
        if by_values:
            # Filters see what is left after the split: a delete and an insert, each by itself.
            split = T.StructType([*frame.schema.fields, T.StructField(MOVED, T.BooleanType())])
            frame = batch.filters.by_values(mapped(frame, partial(split_frame, plan), split), schema)
        frames.append(mapped(frame, partial(messages_of_frame, plan), SENT))
    if whole and batch.events.rows:
        frames.append(batch.events.rows.map(partial(messages_of, whole), SENT))
    return union(frames, batch.events.tasks).select(*_fitted_columns()) if frames else None


def _plan(batch: Batch, number: int, outgoing: OutgoingTable, encoder: Encoder, size: MessageSize) -> RowPlan:
    codec, changes, schema = batch.codec, outgoing.changes, outgoing.table.schema
    return RowPlan(
        number,
        outgoing.table,
        encoder,
        batch.router.partitions(schema, outgoing.partitions),
        size.fitting,
        sum(map(len, filter(None, codec.tails(outgoing.table)))),
        batch.filters.left_out(schema),
        splits=changes.shows_before and not batch.config.output_raw_change_event,
        carries=codec.checksums,
        computes=not batch.events.checksums and not changes.of_key,
        refuse_corrupted=size.refuses_corrupted,
    )


@reused()
def _fitted_columns() -> tuple[Column | str, ...]:
    """Return the columns of `FITTED`, of those of `SENT`."""
    parts = {name: F.col(f"source_{name}") for name in _SOURCE.names}
    parts["headers"] = F.from_json(parts["headers"], HEADERS)
    source = F.struct(*(part.alias(name) for name, part in parts.items())).alias("source")
    return (*(name for name in SENT.names if not name.startswith("source_")), source)


def encode_rows(batch: Batch, number: int, outgoing: OutgoingTable, size: MessageSize) -> DataFrame:
    """Return the messages of one table version, the `number`-th of the batch (see `ENCODED`)."""
    frame, table, codec = outgoing.changes.frame, outgoing.table, cast("ColumnCodec", batch.codec)
    if batch.config.output_raw_change_event or not outgoing.changes.shows_before:
        frame = frame.withColumn(MOVED, F.lit(False))
    else:
        frame = split_key_updates(frame, table.schema)
    # Filters see what is left after the split: a delete and an insert, each by itself.
    frame = batch.filters.passing(replace(outgoing.changes, source=frame))
    if not batch.codec.checksums:
        frame = frame.withColumn("checksum", F.lit(None).cast(CHECKSUM))
    elif not batch.events.checksums and not outgoing.changes.of_key:
        frame = frame.withColumn("checksum", _computed(table.schema))
    detail = F.coalesce("detail", codec.unencodable(table))
    reason = F.coalesce("reason", F.when(detail.isNotNull(), Reason.NOT_IN_PROTOCOL))
    good = reason.isNull()
    routed = frame.select(
        "*",
        reason.alias("why"),
        F.when(~good, detail).alias("cause"),
        F.when(good, codec.key(table)).alias("message_key"),
        F.when(good, codec.value(table)).alias("message_value"),
    )
    reduced, location = size.reduced(codec, table)
    return routed.select(
        F.lit(number).alias("plan"),
        F.lit(table.topic).alias("topic"),
        batch.router.partition_for(table.schema, outgoing.partitions).alias("partition"),
        reduced.alias("reduced"),
        location.alias("location"),
        *_common_columns(),
    )


@reused()
def _common_columns() -> tuple[Column, ...]:
    """Return the columns of `ENCODED` that are the same for every table."""
    stays = F.col("why").isNotNull()
    record = (F.when(stays, F.col(name)).alias(name) if name in _HELD else name for name in _SOURCE.fieldNames())
    return (
        F.struct(*record).alias("source"),
        F.col("op"),
        F.col(MOVED),
        F.col("why").alias("reason"),
        F.col("cause").alias("detail"),
        F.col("checksum.corrupted").alias("corrupted"),
        F.col("message_key").alias("key"),
        F.col("message_value").alias("whole"),
    )


@reused(ansi_enabled)
def _computed(schema: TableSchema) -> Column:
    """Return the checksum of a row whose source knows none, as a version 0 one; that of no row is 0."""
    return F.struct(
        F.lit(0).alias("version"),
        F.lit(False).alias("corrupted"),
        *(
            F.when(F.col(side).isNotNull(), row_checksum(schema, F.col(side))).otherwise(0).alias(name)
            for name, side in (("current", "data"), ("previous", "old"))
        ),
    )


def unsendable_rows(fitted: DataFrame) -> DataFrame:
    """Return the rows that have no form in the protocol: the columns of `RECORD`, `reason` and `detail`."""
    wrong = fitted.where(F.col("reason").isNotNull())
    return wrong.select(*(f"source.{name}" for name in RECORD.fieldNames()), "reason", "detail")
