"""Rows on Arrow columns to Simple messages. Source: Simple protocol, messages, row values, large messages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Op
from tidecast.protocols._codec import Encoder, RoutedTable
from tidecast.protocols._decoded import Rows
from tidecast.protocols._unencodable import without_digits
from tidecast.protocols.simple._avro_rows import avro_messages
from tidecast.protocols.simple._json_rows import json_messages
from tidecast.protocols.simple._message import RowMessages
from tidecast.protocols.simple._options import SimpleOptions
from tidecast.values import field, null_where, to_numpy, valid

_WRITERS = {"json": json_messages, "avro": avro_messages}


@dataclass(frozen=True)
class SimpleEncoder(Encoder):
    """Makes Simple messages; see `Encoder`. `build_ts` is when they are made, in milliseconds since the epoch:
    a time for all, or one per row."""

    options: SimpleOptions
    build_ts: int | np.ndarray

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Name the column: a number that is not finite, a BIT of more than 64 bits, an element that is none."""
        return without_digits((c for c in table.schema.columns if not c.virtual), rows, "Simple")

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return a row's message."""
        return self._messages(table, rows, None, reduced=False)

    def reduced(self, table: RoutedTable, rows: Rows, location: pa.Array | None) -> pa.Array:
        """Return the message with the handle key alone; a table without one shows all its columns."""
        return self._messages(table, rows, location, reduced=True)

    def _messages(self, table: RoutedTable, rows: Rows, location: pa.Array | None, *, reduced: bool) -> pa.Array:
        schema, shown = table.schema, table.shown
        keys = [c for c in shown if c.name in schema.handle_key]
        reduced = reduced and bool(keys)
        sides = {
            name: null_where(side, np.asarray(pc.equal(rows.op, absent.value)))
            for name, side, absent in (("data", rows.data, Op.DELETE), ("old", rows.old, Op.CREATE))
        }
        table_id = to_numpy(pc.fill_null(rows.table_id, schema.table_id))
        message = RowMessages(
            schema.database,
            schema.table,
            schema.version,
            sorted(keys if reduced else shown, key=lambda c: c.name.encode()),
            reduced,
            rows.op,
            table_id,
            to_numpy(rows.commit_ts),
            self.build_ts,
            location,
            _told(rows.checksum),
            sides,
        )
        return _WRITERS[self.options.encoding_format](message, self.options.zone)


def _told(checksum: pa.StructArray) -> pa.StructArray:
    """Return checksums that say something: both numbers 0 mean that the source had none."""
    members = [pc.fill_null(field(checksum, f.name), pa.scalar(0).cast(f.type)) for f in checksum.type]
    current, previous = (to_numpy(field(checksum, name)) for name in ("current", "previous"))
    nothing = ~valid(checksum) | ((current == 0) & (previous == 0))
    return pa.StructArray.from_arrays(members, fields=[*checksum.type], mask=pa.array(nothing))
