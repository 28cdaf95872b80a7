"""Rows on Arrow columns to Debezium messages. Source: Debezium protocol, messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import LOGICAL_BITS, Column, Op
from tidecast.protocols._codec import Encoder, RoutedTable
from tidecast.protocols._decoded import Rows
from tidecast.protocols._json_text import Pieces, members
from tidecast.protocols._unencodable import REALS, beyond_digits, first_named
from tidecast.protocols.debezium._encode import source, tail
from tidecast.protocols.debezium._json import dumps
from tidecast.protocols.debezium._options import DebeziumOptions
from tidecast.protocols.debezium._schema import key_columns, key_schema, value_schema
from tidecast.protocols.debezium._value_columns import json_column
from tidecast.values import BYTES, TEXT, field, joined, spread, to_numpy, valid


@dataclass(frozen=True)
class DebeziumEncoder(Encoder):
    """Makes Debezium messages; see `Encoder`. `build_ts` is when they are made, in milliseconds since the
    epoch: a time for all, or one per row.

    With `whole` they have the schemas with which they end; otherwise these must still be joined to them.
    """

    options: DebeziumOptions
    build_ts: int | np.ndarray
    whole: bool

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Name the column: NOT NULL without a value, where the schema says that there is one; no finite number."""
        endless = beyond_digits(shown_columns(table), rows, "Debezium", REALS)
        return first_named([*without_values(table, rows), *endless], len(rows.at))

    def key(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return the handle key's columns, whatever the selector says; an empty object for a table without one."""
        end = tail(key_schema(table.schema, self.options), self.options).decode() if self.whole else ""
        return self._message([*self._object(key_columns(table.schema), rows.image), end], len(rows.at))

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return a row's message. An update whose old row is not known is written as one without old values."""
        schema, options, columns = table.schema, self.options, table.shown
        before, middle, after = source(schema.database, schema.table, options)
        commit_ts = to_numpy(rows.commit_ts)
        creates, deletes = (np.asarray(pc.equal(rows.op, op.value)) for op in (Op.CREATE, Op.DELETE))
        with_old = valid(rows.old) & (~creates if options.output_old_value else deletes)
        nothing = np.where(creates, '","before":null', np.where(deletes, '","after":null', '"'))
        pieces: Pieces = [
            f'{{"source":{before}',
            pa.array(commit_ts >> LOGICAL_BITS).cast(TEXT),
            middle,
            pa.array(commit_ts).cast(TEXT),
            f'{after},"ts_ms":',
            str(self.build_ts) if isinstance(self.build_ts, int) else pa.array(self.build_ts).cast(TEXT),
            ',"transaction":null,"op":"',
            rows.op.cast(TEXT),
            pa.array(nothing, TEXT),
            *self._side("before", columns, rows.old, with_old),
            *self._side("after", columns, rows.data, ~deletes),
            "}",
            tail(value_schema(schema, options, table.columns), options).decode() if self.whole else "",
        ]
        return self._message(pieces, len(rows.at))

    def _message(self, payload: Pieces, count: int) -> pa.Array:
        return joined(['{"payload":', pa.array([""] * count, TEXT), *payload], TEXT).cast(BYTES)

    def _side(self, name: str, columns: Sequence[Column], side: pa.StructArray, shown: np.ndarray) -> Pieces:
        """Return the pieces of a member that shows a row, for the messages that have it."""
        places = np.flatnonzero(shown)
        if places.size == len(side):
            return [f',"{name}":', *self._object(columns, side)]
        some = side.take(pa.array(places))
        texts = joined([f',"{name}":', pa.array([""] * len(some), TEXT), *self._object(columns, some)], TEXT)
        return [spread(texts, places, len(side))]

    def _object(self, columns: Sequence[Column], side: pa.StructArray) -> Pieces:
        values = ((c.name, [json_column(c, field(side, c.name), self.options)]) for c in columns)
        return members(values, dumps)


def without_values(table: RoutedTable, rows: Rows) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the columns of messages that are NOT NULL and have no value in some rows, in words, and these rows."""
    for column in shown_columns(table):
        if column.nullable or column.virtual:
            continue
        for side in (rows.old, rows.data):
            value = field(side, column.name)
            if value.null_count:
                yield f"column {column.name} is NOT NULL and has no value", valid(side) & ~valid(value)


def shown_columns(table: RoutedTable) -> list[Column]:
    """Return the columns that are in a table's keys or values."""
    keys = {*table.schema.handle_key}
    return [c for c in table.schema.columns if table.columns is None or c.name in table.columns or c.name in keys]
