"""Rows on Arrow columns to messages. Source: Debezium protocol, Avro, messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import LOGICAL_BITS, Column, Op
from tidecast.protocols._avro_fields import branches, long_bytes, string_bytes, written
from tidecast.protocols._codec import Encoder, RoutedTable
from tidecast.protocols._decoded import Rows
from tidecast.protocols._registered import SchemaIds, schema_key
from tidecast.protocols._unencodable import first_named
from tidecast.protocols.debezium._encode import CONNECTOR, VERSION
from tidecast.protocols.debezium._encoder import shown_columns, without_values
from tidecast.protocols.debezium._schema import key_columns, value_columns
from tidecast.protocols.debezium.avro._options import DebeziumAvroOptions
from tidecast.protocols.debezium.avro._schema import goes_as_text, is_large, key_schema, value_schema
from tidecast.protocols.debezium.avro._write_values import avro_column
from tidecast.registry import header
from tidecast.values import BYTES, field, joined, nulls, spread, to_numpy, valid

Pieces = list[pa.Array | bytes]

_NULL, _PRESENT, _ZERO = b"\0", b"\2", b"\0"
"""The branches of an optional field, and a number that is 0 or a text that is empty."""
_LONG_MAX = pa.scalar(2**63 - 1, pa.uint64())


@dataclass(frozen=True)
class DebeziumAvroEncoder(Encoder):
    """Makes messages with the schemas that are registered; see `Encoder`. `build_ts` is when they are made, in
    milliseconds since the epoch.
    """

    options: DebeziumAvroOptions
    build_ts: int
    ids: SchemaIds

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Name the column: NOT NULL without a value, or a BIGINT UNSIGNED too large for a long."""
        return first_named([*without_values(table, rows), *self._too_large(table, rows)], len(rows.at))

    def _too_large(self, table: RoutedTable, rows: Rows) -> Iterator[tuple[str, np.ndarray]]:
        for column in shown_columns(table):
            if not is_large(column) or goes_as_text(column, self.options):
                continue
            words = f"column {column.name} overflows avro long: set avro-bigint-unsigned-handling-mode=string"
            for side in (rows.old, rows.data):
                wrong = np.asarray(pc.fill_null(pc.greater(field(side, column.name), _LONG_MAX), False)) & valid(side)
                if wrong.any():
                    yield words, wrong

    def key(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return the handle key's columns, whatever the selector says; nothing but the id for a table without one."""
        types = _types(key_schema(table.schema, self.options))
        record = self._record(types, key_columns(table.schema), rows.image)
        return joined([header(self.ids[schema_key(table, "key")]), *record])

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return a row's message. An update whose old row is not known is written as one without old values."""
        schema_id = self.ids.get(schema_key(table, "value"))
        if schema_id is None:
            return nulls(len(rows.at), BYTES)
        types = _types(value_schema(table.schema, self.options, table.columns), "before")
        columns = value_columns(table.schema, table.columns)
        creates, deletes = (np.asarray(pc.equal(rows.op, op.value)) for op in (Op.CREATE, Op.DELETE))
        with_old = valid(rows.old) & (~creates if self.options.output_old_value else deletes)
        return joined(
            [
                header(schema_id),
                self._side(types, columns, rows.old, with_old),
                self._side(types, columns, rows.data, ~deletes),
                *self._source(table, to_numpy(rows.commit_ts)),
                *written("string", rows.op),
                long_bytes(self.build_ts),
            ]
        )

    def _side(
        self, types: Sequence[Any], columns: Sequence[Column], side: pa.StructArray, shown: np.ndarray
    ) -> pa.Array:
        """Return an optional record: that of the messages that show it, null for the others."""
        places = np.flatnonzero(shown)
        some = side if places.size == len(side) else side.take(pa.array(places))
        record = spread(joined([_PRESENT, *self._record(types, columns, some)]), places, len(side))
        return pc.fill_null(record, _NULL)

    def _record(self, types: Sequence[Any], columns: Sequence[Column], side: pa.StructArray) -> Pieces:
        pieces: Pieces = [pa.array([b""] * len(side), BYTES)]
        for kind, column in zip(types, columns, strict=True):
            pieces += written(kind, avro_column(column, field(side, column.name), self.options))
        return pieces

    def _source(self, table: RoutedTable, commit_ts: np.ndarray) -> Pieces:
        schema, cluster = table.schema, self.options.cluster_id
        snapshot, server_id, gtid, file, pos, row, thread, query = (_NULL, _ZERO, _NULL, *[_ZERO] * 3, _NULL, _NULL)
        return [
            *map(string_bytes, (VERSION, CONNECTOR, cluster)),
            *written("long", pa.array(commit_ts >> LOGICAL_BITS)),
            snapshot,
            *map(string_bytes, (schema.database, schema.table)),
            server_id + gtid + file + pos + row + thread + query,
            *written("long", pa.array(commit_ts)),
            string_bytes(cluster),
        ]


@lru_cache(1024)
def _types(text: str, inside: str | None = None) -> tuple[Any, ...]:
    """Return the types of the fields of a registered schema, or of the record that one of its fields is."""
    schema = json.loads(text)
    if inside is not None:
        schema, _ = branches(next(f["type"] for f in schema["fields"] if f["name"] == inside))
    return tuple(f["type"] for f in schema["fields"])
