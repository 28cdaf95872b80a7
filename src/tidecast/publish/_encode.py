"""The stage that makes messages of rows, and the columns that pass from stage to stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.model import HEADERS, RECORD
from tidecast.protocols import Encoder
from tidecast.publish._batch import Batch, OutgoingTable
from tidecast.publish._fit import Fitting
from tidecast.publish._rows import SENT, RowPlan, messages_of, messages_of_frame
from tidecast.spark import mapped, reused, union

_SOURCE = T.StructType([*RECORD.fields, T.StructField("commit_ts", T.LongType())])
_OWN = tuple(field for field in SENT.fields if not field.name.startswith("source_"))

FITTED = T.StructType([*_OWN, T.StructField("source", _SOURCE)])
"""A row as a message: the columns of `SENT`, with those of the record that it came from in `source`.

Of the record, what it held is there for rows that cannot go alone: all that is kept is moved about and sorted.
"""


def sent_messages(
    batch: Batch, tables: Sequence[OutgoingTable], encoder: Encoder, fitting: Fitting
) -> DataFrame | None:
    """Return the messages of all rows: the columns of `FITTED`, None where there is no table.

    The rows of a source that are just as it gave them are read in one pass; others come from their table's frame.
    """
    whole, frames = dict[str, RowPlan](), []
    for number, outgoing in enumerate(tables):
        plan = _plan(batch, number, outgoing, encoder, fitting)
        changes = outgoing.changes
        if batch.events.rows and changes.is_whole:
            whole[changes.name] = plan
            continue
        frames.append(mapped(changes.frame, partial(messages_of_frame, plan), SENT))
    if whole and batch.events.rows:
        frames.append(batch.events.rows.map(partial(messages_of, whole), SENT))
    return union(frames, batch.events.tasks).select(*_fitted_columns()) if frames else None


def _plan(batch: Batch, number: int, outgoing: OutgoingTable, encoder: Encoder, fitting: Fitting) -> RowPlan:
    codec, changes, schema = batch.codec, outgoing.changes, outgoing.source
    return RowPlan(
        number,
        outgoing.table,
        encoder,
        batch.router.partitions(schema, outgoing.partitions),
        fitting,
        sum(map(len, filter(None, codec.tails(outgoing.table)))),
        batch.filters.of_rows(schema),
        splits=changes.shows_before and batch.config.splits_updates,
        carries=codec.checksums,
        computes=not batch.events.checksums and not changes.of_key,
        refuse_corrupted=batch.config.file.integrity.corruption_handle_level == "error",
    )


@reused()
def _fitted_columns() -> tuple[Column | str, ...]:
    """Return the columns of `FITTED`, of those of `SENT`."""
    parts = {name: F.col(f"source_{name}") for name in _SOURCE.names}
    parts["headers"] = F.from_json(parts["headers"], HEADERS)
    source = F.struct(*(part.alias(name) for name, part in parts.items())).alias("source")
    return (*(name for name in SENT.names if not name.startswith("source_")), source)


def unsendable_rows(fitted: DataFrame) -> DataFrame:
    """Return the rows that have no form in the protocol: the columns of `RECORD`, `reason` and `detail`."""
    wrong = fitted.where(F.col("reason").isNotNull())
    return wrong.select(*(f"source.{name}" for name in RECORD.fieldNames()), "reason", "detail")
