"""Functions on columns, for those who want one column and no events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf

from tidecast._errors import ConfigError
from tidecast.checksum import row_checksums
from tidecast.model import CHECKSUM, InvalidSchema, TableSchema, row_type
from tidecast.protocols import avro
from tidecast.runtime import check_zone, local_zone
from tidecast.values import BYTES, TEXT, arrow_type, for_spark, from_text
from tidecast.values import row_type as arrow_row_type

__all__ = ["from_ticdc_avro", "row_checksum"]

_Read = TypeVar("_Read")

_udf: Any = pandas_udf  # whose overloads end at five columns


def from_ticdc_avro(
    col: Column | str, schema: str, *, schema_id: int | UUID | None = None, tz: str | None = None
) -> Column:
    """Return the rows of TiCDC's Avro messages, keys or values, that were written with one registered schema.

    In: binary, the message as Kafka has it, with the registry's framing. `schema` is the schema's text in the registry,
    `schema_id` its id there: a number, or the UUID of AWS Glue. Without a UUID messages are not taken for Glue's. `tz`
    is the time zone of TIMESTAMP text, by default the system's.
    Out: struct of

    - `data` struct: the row, with the types of the model. Integers are int or bigint, BIGINT UNSIGNED is decimal(20,0).
      DECIMAL is decimal or, in string mode, string. FLOAT and DOUBLE are float and double, BINARY, BLOB and BIT are
      binary. All others are string: DATE, DATETIME and TIME as MySQL's text, TIMESTAMP as that text in UTC;
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
    table = _known(lambda: avro.read_table_schema(schema))
    data = row_type(table)
    flat: dict[str, T.DataType] = {
        "read": T.BooleanType(),
        "carried": T.BooleanType(),
        "op": T.StringType(),
        "commit_ts": T.LongType(),
    }
    flat |= {f"checksum.{f.name}": f.dataType for f in CHECKSUM.fields}
    flat |= {f"data.{n}": f.dataType for n, f in enumerate(data.fields)}

    def read(messages: pd.Series) -> pd.DataFrame:
        rows = avro.decode_column(pa.array(messages, BYTES), schema, schema_id=schema_id, zone=zone)
        columns = [rows.reason.is_null(), rows.checksum.is_valid(), rows.op, rows.commit_ts]
        columns += [*rows.checksum.flatten(), *for_spark(rows.data).flatten()]
        return pd.DataFrame(dict(zip(flat, map(_as_it_is, columns), strict=True)))

    decoded = _udf(read, T.StructType([T.StructField(name, kind) for name, kind in flat.items()]))
    # As an element of an array, which a function of it names: Spark would else read the message for each field.
    return F.get(F.transform(F.array(decoded(_column(col))), lambda m: _row(m, data)), 0)


def _row(m: Column, data: T.StructType) -> Column:
    carried = F.struct(*(m[f"checksum.{f.name}"].alias(f.name) for f in CHECKSUM.fields))
    row = F.struct(
        F.struct(*(m[f"data.{n}"].alias(f.name) for n, f in enumerate(data.fields))).alias("data"),
        m["op"].alias("op"),
        m["commit_ts"].alias("commit_ts"),
        F.when(m["carried"], carried).alias("checksum"),
    )
    return F.when(m["read"], row)


def _as_it_is(column: pa.Array) -> pd.Series:
    """Return a column as one of pandas that stays Arrow's: pandas' own numbers have no null."""
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


def row_checksum(row: Column | str, schema: str | TableSchema) -> Column:
    """Return TiCDC's checksum of a row, to be compared with the one that the message carries.

    In: struct, the `data` of `from_ticdc_avro`, or `data` or `old` of `TableChanges.frame`; `schema` is the Avro
    schema's text, or `TableChanges.schema`. Out: bigint 0 … 2^32 - 1, null for a null row. A message whose
    `checksum.current` is 0 was sent without one. Raises ConfigError for a schema that is none of TiCDC's.
    Source: Avro protocol, row checksum.
    """
    table = _known(lambda: avro.read_table_schema(schema)) if isinstance(schema, str) else schema
    stored = replace(table, columns=tuple(c for c in table.columns if not c.virtual))
    kinds = [arrow_type(c.data_type) for c in stored.columns]
    as_text = [pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kinds]

    def checksum(there: pd.Series, *columns: pd.Series) -> pd.Series:
        values = []
        for column, values_of, kind, is_text in zip(stored.columns, columns, kinds, as_text, strict=True):
            read = pa.array(values_of, TEXT if is_text else kind)
            values.append(from_text(column.data_type, read) if is_text else read)
        missing = pa.array(~there.to_numpy(bool))
        rows = pa.StructArray.from_arrays(values, fields=[*arrow_row_type(stored)], mask=missing)
        return _as_it_is(row_checksums(stored, rows))

    of = _column(row)
    # Numbers cross as text: pandas' own have no null, and would take a BIGINT for a double beside one.
    values = [
        of[c.name].cast("string") if text else of[c.name] for c, text in zip(stored.columns, as_text, strict=True)
    ]
    computed: Column = _udf(checksum, T.LongType())(of.isNotNull(), *values)
    return computed


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
