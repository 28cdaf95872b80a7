"""Rows on Arrow columns to Canal-JSON messages. Source: Canal-JSON protocol, members, rows, values and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import LOGICAL_BITS, Column, Kind, Op
from tidecast.protocols._codec import Encoder, RoutedTable
from tidecast.protocols._decoded import Rows
from tidecast.protocols._json_text import Json, Pieces, members
from tidecast.protocols._unencodable import without_digits
from tidecast.protocols.canal_json._column_types import mysql_type, sql_type
from tidecast.protocols.canal_json._json import QUOTING, dumps
from tidecast.protocols.canal_json._message import ROW_OPS
from tidecast.protocols.canal_json._options import CanalOptions
from tidecast.values import (
    BYTES,
    DIGITS,
    TEXT,
    field,
    joined,
    json_string,
    null_where,
    shift_zone,
    spread,
    to_numpy,
    valid,
)


@dataclass(frozen=True)
class CanalEncoder(Encoder):
    """Makes Canal-JSON messages; see `Encoder`. `build_ts` is when they are made, in milliseconds since the
    epoch: a time for all, or one per row."""

    options: CanalOptions
    build_ts: int | np.ndarray

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Name the column: a number that is not finite, an element that is none, a BIT beyond 64 bits."""
        return without_digits((c for c in table.schema.columns if not c.virtual), rows, "Canal-JSON")

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return a row's message."""
        return self._messages(table, rows, None, reduced=False)

    def reduced(self, table: RoutedTable, rows: Rows, location: pa.Array | None) -> pa.Array:
        """Return the message with the handle key alone; a table without one shows all its columns."""
        return self._messages(table, rows, location, reduced=True)

    def _messages(self, table: RoutedTable, rows: Rows, location: pa.Array | None, *, reduced: bool) -> pa.Array:
        shown = table.shown
        keys = [c for c in shown if c.name in table.schema.handle_key] or shown
        messages = pa.nulls(len(rows.at), BYTES)
        for kind, op in ROW_OPS.items():
            places = np.flatnonzero(np.asarray(pc.equal(rows.op, op.value)))
            if not places.size:
                continue
            mine = rows.at_places(places)
            alone = reduced or (op is Op.DELETE and self.options.delete_only_output_handle_key_columns)
            made_at = self.build_ts if isinstance(self.build_ts, int) else self.build_ts[places]
            lies = None if location is None else location.take(pa.array(places))
            columns = keys if alone else shown
            pieces = [
                *self._head(table, kind, mine, made_at, columns),
                *self._sides(op, mine, columns),
                *self._extension(mine, lies, reduced=reduced),
                "}",
            ]
            made = spread(joined(pieces, TEXT).cast(BYTES), places, len(rows.at))
            messages = pc.coalesce(messages, made)
        return messages

    def _head(
        self, table: RoutedTable, kind: str, rows: Rows, made_at: int | np.ndarray, columns: Sequence[Column]
    ) -> Pieces:
        schema, whole = table.schema, self.options.content_compatible
        head: dict[str, Json] = {
            "id": 0,
            "database": schema.database,
            "table": schema.table,
            "pkNames": schema.primary_key,
            "isDdl": False,
            "type": kind,
        }
        types = {c.name: mysql_type(c.data_type, whole=whole) for c in sorted(columns, key=lambda c: c.name.encode())}
        row = rows.image
        numbers: dict[str, Pieces] = {c.name: [sql_type(c.data_type, field(row, c.name))] for c in columns}
        return [
            dumps(head)[:-1],
            ',"es":',
            pa.array(to_numpy(rows.commit_ts) >> LOGICAL_BITS).cast(TEXT),
            ',"ts":',
            str(made_at) if isinstance(made_at, int) else pa.array(made_at).cast(TEXT),
            ',"sql":"","sqlType":',
            *members(numbers.items(), dumps),
            f',"mysqlType":{dumps(types)}',
        ]

    def _sides(self, op: Op, rows: Rows, columns: Sequence[Column]) -> Pieces:
        """Return the pieces of `old` and `data`. The old row of an update that nobody knows is null."""
        texts = {c.name: self._texts(c, field(rows.image, c.name)) for c in columns}
        data: Pieces = [',"data":[', *_object(texts), "]"]
        if op is not Op.UPDATE:
            return [',"old":null', *data]
        before = {c.name: self._texts(c, field(rows.old, c.name)) for c in columns}
        old = _changed(columns, before, texts) if self.options.only_updated else _object(before)
        known = valid(rows.old)
        if known.all():
            return [',"old":[', *old, "]", *data]
        shown = null_where(joined(["[", *old, "]"], TEXT), ~known)
        return [',"old":', pc.fill_null(shown, "null"), *data]

    def _extension(self, rows: Rows, location: pa.Array | None, *, reduced: bool) -> Pieces:
        if not self.options.enable_tidb_extension:
            return []
        pieces: Pieces = [',"_tidb":{"commitTs":', pa.array(to_numpy(rows.commit_ts)).cast(TEXT)]
        if location is not None:
            pieces += [',"claimCheckLocation":', json_string(location, QUOTING)]
        elif reduced:
            pieces.append(',"onlyHandleKey":true')
        return [*pieces, "}"]

    def _texts(self, column: Column, value: pa.Array) -> pa.Array:
        """Return a column's values as JSON, never null."""
        kind = column.data_type.kind
        if write := DIGITS.get(kind):
            text = null_where(joined(['"', write(column.data_type, value).cast(TEXT), '"'], TEXT), ~valid(value))
        else:
            shown = shift_zone(value, "UTC", self.options.zone) if kind is Kind.TIMESTAMP else value
            text = json_string(_latin(value) if kind is Kind.BINARY else shown, QUOTING)
        return pc.fill_null(text, "null")


def _object(texts: dict[str, pa.Array]) -> Pieces:
    return members(((name, [text]) for name, text in texts.items()), dumps)


def _changed(columns: Sequence[Column], before: dict[str, pa.Array], after: dict[str, pa.Array]) -> Pieces:
    """Return the pieces of an object with the columns whose text changed."""
    pieces: Pieces = []
    written = np.zeros(len(next(iter(before.values()))), bool)
    for column in columns:
        changed = np.asarray(pc.not_equal(before[column.name], after[column.name]))
        comma = pa.array(np.where(written, ",", ""), TEXT)
        member = joined([comma, f"{dumps(column.name)}:", before[column.name]], TEXT)
        pieces.append(null_where(member, ~changed))
        written |= changed
    return ["{", *pieces, "}"]


def _latin(value: pa.Array) -> pa.Array:
    """Return each byte as the character with its number."""
    return pa.array([None if one is None else one.decode("latin-1") for one in value.to_pylist()], TEXT)
