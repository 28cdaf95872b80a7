"""The stage that makes messages of rows, for all tables in one pass: split, filter, checksum, encode, fit.

This code runs in Spark's tasks, on Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tidecast.checksum import row_checksums
from tidecast.model import Reason
from tidecast.protocols import CHECKSUM, Decoded, Encoder, RoutedTable, Rows
from tidecast.publish._fit import Fitting
from tidecast.publish._split import split_key_updates
from tidecast.routing import Partitions, RowFilter
from tidecast.values import field, null_where, nulls, spread, valid

MOVED = "moved"
"""The column that marks the insert half of a split update: it leaves at the end of its table's transaction."""

PLACE = ("topic", "partition", "offset")
"""What tells where a row came from."""
HELD = ("timestamp", "key", "value", "headers")
"""What only dead letters tell of the record that a row came from."""

SENT = T.StructType(
    [
        T.StructField("plan", T.IntegerType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("location", T.StringType()),
        T.StructField("whole", T.BinaryType()),
        T.StructField("op", T.StringType()),
        T.StructField(MOVED, T.BooleanType()),
        T.StructField("reason", T.StringType()),
        T.StructField("detail", T.StringType()),
        T.StructField("stop", T.IntegerType()),
        T.StructField("source_topic", T.StringType()),
        T.StructField("source_partition", T.IntegerType()),
        T.StructField("source_offset", T.LongType()),
        T.StructField("source_timestamp", T.TimestampType()),
        T.StructField("source_key", T.BinaryType()),
        T.StructField("source_value", T.BinaryType()),
        T.StructField("source_headers", T.StringType()),
        T.StructField("source_commit_ts", T.LongType()),
    ]
)
"""A row as a message, in the form that fits. `plan` is the number of its table version in the batch.

`reason` and `detail` tell why it cannot go, and only then `source_key` and the like tell what its record held.
`location` and `whole` are there for a claim check alone. `stop` tells that the run ends here: the size that nothing
fits, or 0 for a row that its source found damaged.
"""


@dataclass(frozen=True)
class RowPlan:
    """How the rows of one table version leave.

    `number` is that of the version in the batch, `tails` how many bytes will be joined to a message. `filter` tells
    which rows do not leave: it sees a split update as what it became. `splits` tells whether updates of a key are split
    here; `carries` whether messages carry checksums, and `computes` whether these are computed here, as the source
    knows none. `refuse_corrupted` ends the run at a row that the source found damaged.
    """

    number: int
    table: RoutedTable
    encoder: Encoder
    partitions: Partitions
    fitting: Fitting
    tails: int = 0
    filter: RowFilter | None = None
    splits: bool = False
    carries: bool = False
    computes: bool = False
    refuse_corrupted: bool = False

    def messages(self, rows: Rows, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the messages of rows: the columns of `SENT`. In: `records` are what `Rows.at` speaks of."""
        moved = np.zeros(len(rows.at), bool)
        if self.splits:
            rows, moved = split_key_updates(rows, self.table.schema)
        if self.filter:
            kept = self.filter.kept(rows.op, rows.old, rows.data, rows.reason)
            rows, moved = rows.take(kept), moved[kept]
        count = len(rows.at)
        rows = replace(rows, checksum=self._checksums(rows))
        detail = pc.coalesce(rows.detail, self.encoder.unencodable(self.table, rows))
        reason = pc.coalesce(
            rows.reason, pc.if_else(pc.is_valid(detail), str(Reason.NOT_IN_PROTOCOL), pa.scalar(None, pa.string()))
        )
        bad = valid(reason)
        good = np.flatnonzero(~bad)
        sendable = rows.take(~bad)
        fitted = self.fitting.fit(
            self.encoder.key(self.table, sendable),
            self.encoder.value(self.table, sendable),
            self.tails,
            lambda places, location: self.encoder.reduced(self.table, sendable.at_places(places), location),
        )
        corrupted = null_where(field(rows.checksum, "corrupted"), ~valid(rows.checksum))
        stops = np.asarray(pc.fill_null(corrupted, False)) & self.refuse_corrupted
        stop = np.zeros(count, np.int32)
        large = fitted.size > self.fitting.limit
        stop[good[large]], stops[good[large]] = fitted.size[large], True
        came = records.take(pa.array(rows.at))
        names = set(records.schema.names)
        held = {
            f"source_{name}": null_where(came.column(name), ~bad) if name in names else nulls(count, pa.null())
            for name in HELD
        }
        columns = {
            "plan": pa.array(np.full(count, self.number, np.int32)),
            "topic": pa.array([self.table.topic] * count, pa.string()),
            "partition": self.partitions.of(rows.image, rows.commit_ts),
            "key": spread(fitted.key, good, count),
            "value": spread(fitted.value, good, count),
            "location": spread(fitted.location, good, count),
            "whole": spread(fitted.whole, good, count),
            "op": rows.op,
            MOVED: moved,
            "reason": reason,
            "detail": null_where(detail, ~bad),
            "stop": pa.array(stop, mask=~stops),
            **{f"source_{name}": came.column(name) for name in PLACE},
            **held,
            "source_commit_ts": rows.commit_ts,
        }
        return pa.RecordBatch.from_pydict({name: columns[name] for name in SENT.names})

    def _checksums(self, rows: Rows) -> pa.StructArray:
        if not self.carries:
            return nulls(len(rows.at), CHECKSUM)
        if not self.computes:
            return rows.checksum
        sums = [pc.fill_null(row_checksums(self.table.schema, side), 0) for side in (rows.data, rows.old)]
        zero = pa.array(np.zeros(len(rows.at), np.int32))
        return pa.StructArray.from_arrays([zero, pc.not_equal(zero, 0), *sums], fields=[*CHECKSUM])


def messages_of(
    plans: Mapping[str, RowPlan], batches: Iterable[tuple[Decoded, pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of the rows of all tables that leave. In: how they do, by `TableVersion.name`."""
    for decoded, records in batches:
        for rows in decoded.rows:
            if plan := plans.get(rows.version.name):
                yield plan.messages(rows, records)


def messages_of_frame(plan: RowPlan, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the messages of one table's rows. In: columns of `TableChanges.frame`."""
    yield plan.messages(Rows.of_changes(plan.table.schema, batch), batch)
