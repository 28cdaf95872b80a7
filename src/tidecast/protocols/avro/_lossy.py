"""Values that Avro's forms damage. Source: Avro protocol, column types."""

from __future__ import annotations

from collections.abc import Iterator

from tidecast.model import Column, TableSchema
from tidecast.protocols.avro._options import AvroOptions


def lossy_columns(schema: TableSchema, options: AvroOptions) -> list[tuple[str, str]]:
    """Return the columns with values that a reader without TiDB's types misreads, and what it takes them for.

    A reader that knows TiDB's types (see `decode`) gets all of them back.
    """
    return [(c.name, damage) for c in schema.columns if not c.virtual for damage in _damages(c, options)]


def _damages(column: Column, options: AvroOptions) -> Iterator[str]:
    data_type = column.data_type
    long = options.bigint_unsigned_handling_mode == "long"
    if data_type.mysql_type == "bigint" and data_type.unsigned and long:
        yield "numbers from 2^63 on become negative (avro-bigint-unsigned-handling-mode=string keeps them)"
