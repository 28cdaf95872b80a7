"""Rows on Arrow columns to Avro messages. Source: Avro protocol, wire format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import LOGICAL_BITS, Column, Op, TableSchema
from tidecast.protocols._avro_fields import written
from tidecast.protocols._codec import Encoder, RoutedTable
from tidecast.protocols._decoded import Rows
from tidecast.protocols._registered import SchemaIds, schema_key
from tidecast.protocols._unencodable import first_named, no_element, no_form
from tidecast.protocols.avro._control import encode_deletes
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import key_schema, value_columns, value_schema
from tidecast.protocols.avro._write_columns import value_of
from tidecast.registry import header
from tidecast.values import BYTES, TEXT, field, joined, null_where, nulls, to_numpy, valid


@dataclass(frozen=True)
class AvroEncoder(Encoder):
    """Makes Avro messages with the schemas that are registered; see `Encoder`."""

    options: AvroOptions
    ids: SchemaIds

    def unencodable(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Name the column: NOT NULL without a value, or an ENUM of the invalid value 0. A tombstone has a key."""
        schema, image, deletes = table.selected, rows.image, np.asarray(pc.equal(rows.op, Op.DELETE.value))
        keys, wrong = {*schema.handle_key}, list[tuple[str, np.ndarray]]()
        if not (keys or self.options.include_before_value):
            wrong.append(("a delete, and no key is left that tells which row it is of", deletes))
        for column in schema.columns:
            bad = _has_no_form(column, field(image, column.name))
            if bad is not None:
                shown = column.name in keys or self.options.include_before_value
                wrong.append((no_form(column, "Avro"), bad if shown else bad & ~deletes))
            if self.options.include_before_value:
                lost = _has_no_form(column, field(rows.old, column.name))
                if lost is not None:
                    wrong.append((f"column {column.name} held nothing that Avro can say", lost & valid(rows.old)))
        return first_named(wrong, len(rows.at))

    def key(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return the handle key's columns."""
        keys, image = {*table.selected.handle_key}, rows.image
        columns = [c for c in table.selected.columns if c.name in keys]
        if not columns:
            return nulls(len(rows.at), BYTES)
        pieces = self._written(_types(key_schema, table.selected, self.options), columns, image)
        return joined([header(self.ids[schema_key(table, "key")]), *pieces])

    def value(self, table: RoutedTable, rows: Rows) -> pa.Array:
        """Return rows and the extension, for deletes see `_deletes`, null for a schema that was not registered."""
        schema_id, deletes = self.ids.get(schema_key(table, "value")), pc.equal(rows.op, Op.DELETE.value)
        before = self.options.include_before_value
        if schema_id is None or (pc.all(deletes).as_py() and not before):
            return self._deletes(rows, deletes)
        types = _types(value_schema, table.selected, self.options)
        columns = value_columns(table.selected, self.options)
        pieces = self._written(types, columns, rows.image if before else rows.data)
        if before:
            row = joined([b"\x02", *self._written(types, columns, rows.old)])
            pieces.append(pc.if_else(pc.is_valid(rows.old), row, pa.scalar(b"\0", BYTES)))
        for kind, value in zip(types[len(columns) + before :], self._extension(rows, deletes), strict=True):
            pieces += written(kind, value)
        message = joined([header(schema_id), *pieces])
        return message if before else pc.if_else(deletes, self._deletes(rows, deletes), message)

    def _deletes(self, rows: Rows, deletes: pa.Array) -> pa.Array:
        """Return the values of deletes: null, or their commit-ts where it is known and the options ask for it."""
        if not self.options.timed_deletes:
            return nulls(len(rows.at), BYTES)
        commit_ts = to_numpy(rows.commit_ts)
        return null_where(encode_deletes(commit_ts), ~(np.asarray(deletes) & (commit_ts > 0)))

    def _written(self, types: Sequence[Any], columns: Sequence[Column], row: pa.StructArray) -> list[pa.Array]:
        pieces = []
        for kind, column in zip(types, columns, strict=False):
            pieces += written(kind, value_of(column.data_type, field(row, column.name), self.options))
        return pieces

    def _extension(self, rows: Rows, deletes: pa.Array) -> list[pa.Array]:
        if not self.options.enable_tidb_extension:
            return [rows.op] if self.options.include_before_value else []
        commit_ts = to_numpy(rows.commit_ts)
        values = [rows.op, pa.array(commit_ts), pa.array(commit_ts >> LOGICAL_BITS)]
        if not self.options.checksum:
            return values
        current, corrupted, version = (field(rows.checksum, name) for name in ("current", "corrupted", "version"))
        if self.options.include_before_value:
            current = pc.if_else(deletes, field(rows.checksum, "previous"), current)
        there = ~valid(rows.checksum)
        return [
            *values,
            pc.fill_null(null_where(current, there).cast(TEXT), ""),
            pc.fill_null(null_where(corrupted, there), False),
            pc.fill_null(null_where(version, there), 0),
        ]


@lru_cache(1024)
def _types(schema_of: Any, schema: TableSchema, options: AvroOptions) -> tuple[Any, ...]:
    """Return the types of a registered schema's fields."""
    return tuple(f["type"] for f in json.loads(schema_of(schema, options))["fields"])


def _has_no_form(column: Column, value: pa.Array) -> np.ndarray | None:
    """Return which values of a column Avro cannot say, None where it can say all."""
    missing = ~valid(value) if value.null_count and not column.nullable and not column.virtual else None
    invalid = no_element(column, value)
    return missing if invalid is None else invalid if missing is None else invalid | missing
