"""The checksum of a row. Source: Avro protocol, row checksum."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.checksum._bytes import pieces
from tidecast.model import Column as TableColumn
from tidecast.model import TableSchema


def row_checksum(schema: TableSchema, row: Column) -> Column:
    """Return TiCDC's column-level checksum of a row: CRC-32 (IEEE) over the bytes of its columns by ascending id.

    In: a row of the model (see `tidecast.model.row_type`). Out: bigint 0 … 2^32 - 1, null for a null row. NULL gives
    no bytes; virtual columns take no part. A value outside of its column's type, such as an unknown ENUM element, gives
    bytes that no valid value gives. Where column ids are unknown, columns count in the order of the schema.
    """
    taken = [piece for column in taking_part(schema) for piece in pieces(column.data_type, row[column.name])]
    return F.when(row.isNotNull(), F.crc32(F.concat_ws("", *taken).cast("binary")))


def explain(schema: TableSchema, row: Column) -> list[tuple[str, Column]]:
    """Return the columns that take part, in the checksum's order, each with its bytes as text.

    In: a row of the model. Out: names, and string columns of upper-case hexadecimal digits, null for NULL.
    """
    return [
        (column.name, F.hex(F.concat(*pieces(column.data_type, row[column.name])).cast("binary")))
        for column in taking_part(schema)
        if pieces(column.data_type, row[column.name])
    ]


def taking_part(schema: TableSchema) -> list[TableColumn]:
    """Return the columns that take part, in the checksum's order."""
    columns = [c for c in schema.columns if not c.virtual]
    return sorted(columns, key=lambda c: c.id or 0) if all(c.id is not None for c in columns) else columns
