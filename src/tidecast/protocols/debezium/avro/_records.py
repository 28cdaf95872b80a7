"""Envelopes of Debezium read from Avro for all messages of a schema at once. Source: Avro protocol, wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidecast.protocols._avro_fields import read_field
from tidecast.protocols._avro_reader import Reader
from tidecast.protocols.debezium.avro._layout import SIDES, Leaf, Record
from tidecast.values import BYTES, nulls, spread, text_of_bytes


@dataclass(frozen=True)
class Part:
    """A record within messages: which of them have it, ascending, and the raw values of its fields in these."""

    rows: np.ndarray
    fields: Mapping[str, pa.Array]


@dataclass(frozen=True)
class Envelopes:
    """The content of messages, a value for each: `broken` are those that are no records of their schema.

    `sides` are the rows before and after a change, as far as the schema has these.
    """

    broken: np.ndarray
    op: pa.Array
    database: pa.Array
    table: pa.Array
    connector: pa.Array
    commit_ts: pa.Array
    sides: Mapping[str, Part]


def read_envelopes(envelope: Record, reader: Reader) -> Envelopes:
    """Read messages to their ends."""
    count, parts, op = reader.count, {}, nulls(reader.count, BYTES)
    for field in envelope.fields:
        if isinstance(field, Record):
            parts[field.name] = _part(field, reader)
        else:
            raw = read_field(reader, field.type)
            op = raw if field.name == "op" else op
    origin = parts["source"]

    def told(name: str, kind: pa.DataType) -> pa.Array:
        raw = origin.fields.get(name)
        return nulls(count, kind) if raw is None else spread(raw, origin.rows, count)

    return Envelopes(
        reader.bad | (reader.at != reader.end),
        text_of_bytes(op),
        text_of_bytes(told("db", BYTES)),
        text_of_bytes(told("table", BYTES)),
        text_of_bytes(told("connector", BYTES)),
        told("commit_ts", pa.int64()),
        {side: parts[side] for side in SIDES if side in parts},
    )


def _part(record: Record, reader: Reader) -> Part:
    """Read a record of those messages that have it, and move the reader behind it."""
    rows = None if record.null is None else reader.branch(record.null)
    inner = reader if rows is None else Reader(reader.data, reader.at[rows], reader.end[rows])
    found = {}
    for field in record.fields:
        if isinstance(field, Leaf):
            found[field.name] = read_field(inner, field.type)
        else:
            _part(field, inner)
    if rows is not None:
        reader.at[rows] = inner.at
        reader.bad[rows] |= inner.bad
    return Part(np.arange(reader.count) if rows is None else rows, found)
