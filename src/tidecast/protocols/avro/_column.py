"""One column of Avro messages to rows, for those who want no events. Source: Avro protocol, wire format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import Reason, TableSchema, checked
from tidecast.protocols._decoded import Rows, TableVersion
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.protocols.avro._read_schema import read_schema
from tidecast.registry import CONFLUENT, RegisteredSchema, SchemaId, framing_of, header
from tidecast.values import BYTES, null_where, nulls


def read_table_schema(text: str, version: int = 0) -> TableSchema | None:
    """Return the table that a registered schema describes, None where it is none of TiCDC's.

    Raises InvalidSchema for a table that cannot be.
    """
    writer = read_schema(text)
    return checked(writer.table_schema(version, ())) if writer else None


def decode_column(messages: pa.Array, schema: str, *, schema_id: SchemaId | None = None, zone: str = "UTC") -> Rows:
    """Return the rows of framed messages, keys or values, of one registered schema, which must be one of TiCDC's.

    In: binary. Out: `op` is null where the schema has no extension, and `reason` null for a message that is whole, has
    the schema id and values of its columns' types. Without `schema_id` messages of any number are read.
    """
    framing = CONFLUENT if schema_id is None else framing_of(schema_id)
    head = header(0 if schema_id is None else schema_id)
    messages = pc.fill_null(messages.cast(BYTES), b"")
    strange = ~np.asarray(pc.starts_with(messages, framing.magic if schema_id is None else head))
    decoder = AvroDecoder(framing, {head: RegisteredSchema(schema, 0)}, zone)
    version = decoder.version(b"", head)
    assert isinstance(version, TableVersion)
    rows = decoder.rows(version, head, np.arange(len(messages)), messages)
    writer = read_schema(schema)
    assert writer is not None
    if not writer.extended:
        rows = replace(rows, op=nulls(len(messages), rows.op.type))
    reason = pc.if_else(pa.array(strange), str(Reason.BAD_MESSAGE), null_where(rows.reason, strange))
    return replace(rows, reason=reason)
