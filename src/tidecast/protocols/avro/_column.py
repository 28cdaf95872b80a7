"""One column of Avro messages to rows, for those who want no events. Source: Avro protocol, wire format."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import TableSchema, checked, is_tso
from tidecast.protocols.avro._read_schema import WriterSchema, read_schema
from tidecast.protocols.avro._read_values import OPS, checksum_of, extension, is_fallible, or_null, value_of
from tidecast.protocols.avro._schema import COMMIT_TS, OP
from tidecast.protocols.avro._wire import field_of, is_whole, read
from tidecast.registry import CONFLUENT, SchemaId, framing_of, header


def read_table_schema(text: str, version: int = 0) -> TableSchema | None:
    """Return the table that a registered schema describes, None where it is none of TiCDC's.

    Raises InvalidSchema for a table that cannot be.
    """
    writer = read_schema(text)
    return checked(writer.table_schema(version, ())) if writer else None


def decode_column(
    message: Column, schema: str, *, schema_id: SchemaId | None = None, zone: str = "UTC"
) -> Column | None:
    """Return the rows of framed messages of one registered schema, None where the schema is none of TiCDC's.

    Out: struct of `data`, `op`, `commit_ts`, `checksum` as in `TableChanges`, but `op` is null where the schema has no
    extension; null for a message that is not whole, has another schema id than `schema_id`, or a value that is not of
    its column's type. Raises InvalidSchema for a table that cannot be.
    """
    writer = read_schema(schema)
    if writer is None or read_table_schema(schema) is None:
        return None
    framing = CONFLUENT if schema_id is None else framing_of(schema_id)
    record = read([field.type for field in writer.fields], message, framing)
    # As an element of an array, which a function of it names: Spark would read the message once more for each field.
    row = F.get(F.transform(F.array(record), lambda m: _row(writer, m, zone)), 0)
    return F.when(message.startswith(F.lit(framing.magic if schema_id is None else header(schema_id))), row)


def _row(writer: WriterSchema, m: Column, zone: str) -> Column:
    carried = [(f, field_of(m, n, f.type)) for n, f in enumerate(writer.fields) if f.column]
    values = [(f, raw, value_of(f, raw, zone)) for f, raw in carried]
    op, commit_ts = extension(writer, m, OP), extension(writer, m, COMMIT_TS)
    wrong = [~is_whole(m)]
    wrong += [value.isNull() & raw.isNotNull() for f, raw, value in values if is_fallible(f)]
    wrong += [~op.isin(*OPS)] if op is not None else []
    wrong += [~is_tso(commit_ts)] if commit_ts is not None else []
    row = F.struct(
        F.struct(*(value.alias(f.column.name) for f, _, value in values if f.column)).alias("data"),
        or_null(op, "string").alias("op"),
        or_null(commit_ts, "bigint").alias("commit_ts"),
        checksum_of(writer, m).alias("checksum"),
    )
    return F.when(~F.coalesce(reduce(or_, wrong), F.lit(True)), row)
