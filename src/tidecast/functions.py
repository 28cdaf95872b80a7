"""Functions on columns, for those who want one column and no events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast import checksum
from tidecast._errors import ConfigError
from tidecast.model import InvalidSchema, TableSchema
from tidecast.protocols import avro
from tidecast.runtime import check_zone, local_zone

__all__ = ["from_ticdc_avro", "row_checksum"]

_Read = TypeVar("_Read")


def from_ticdc_avro(
    col: Column | str, schema: str, *, schema_id: int | UUID | None = None, tz: str | None = None
) -> Column:
    """Return the rows of TiCDC's Avro messages, keys or values, that were written with one registered schema.

    In: binary, the message as Kafka has it, with the registry's framing; `schema` is the schema's text in the registry,
    `schema_id` its id there: a number, or the UUID of AWS Glue, without which messages are not taken for Glue's; `tz`
    is the time zone of TIMESTAMP text, by default the system's.
    Out: struct of

    - `data` struct: the row, with the types of the model: integers are int or bigint, BIGINT UNSIGNED is decimal(20,0),
      DECIMAL is decimal or, in string mode, string, FLOAT and DOUBLE are float and double, BINARY, BLOB and BIT are
      binary; all others are string: DATE, DATETIME and TIME as MySQL's text, TIMESTAMP as that text in UTC;
    - `op` string: `c` or `u`; null where the schema has no TiDB extension;
    - `commit_ts` bigint: TSO; null where the schema has no TiDB extension;
    - `checksum` struct of `version` int, `corrupted` boolean, `current` and `previous` bigint: what the message carries
      of the row's checksum; null where it carries none.

    The struct is null for a message that cannot be read, and for one of another id than `schema_id`. Without
    `schema_id` nothing tells a message of another schema, which may then be read as a wrong row: give it wherever a
    topic has, or will have, several schemas. Raises ConfigError for a schema that is none of TiCDC's, and for an
    unknown time zone. Source: Avro protocol, wire format, column types.
    """
    zone = check_zone(tz or local_zone())
    return _known(lambda: avro.decode_column(_column(col), schema, schema_id=schema_id, zone=zone))


def row_checksum(row: Column | str, schema: str | TableSchema) -> Column:
    """Return TiCDC's checksum of a row, to be compared with the one that the message carries.

    In: struct, the `data` of `from_ticdc_avro`, or `data` or `old` of `TableChanges.frame`; `schema` is the Avro
    schema's text, or `TableChanges.schema`. Out: bigint 0 … 2^32 - 1, null for a null row. A message whose
    `checksum.current` is 0 was sent without one. Raises ConfigError for a schema that is none of TiCDC's.
    Source: Avro protocol, row checksum.
    """
    table = _known(lambda: avro.read_table_schema(schema)) if isinstance(schema, str) else schema
    return checksum.row_checksum(table, _column(row))


def _column(col: Column | str) -> Column:
    return F.col(col) if isinstance(col, str) else col


def _known(read: Callable[[], _Read | None]) -> _Read:
    """Return what is read of a schema. Raises ConfigError where it is none of TiCDC's."""
    try:
        found = read()
    except InvalidSchema as invalid:
        raise ConfigError(f"this is not one of TiCDC's Avro schemas: {invalid}") from None
    if found is None:
        hint = "give the text that the registry has: GET /schemas/ids/<id>, member `schema`"
        raise ConfigError("this is not one of TiCDC's Avro schemas", hint=hint)
    return found
