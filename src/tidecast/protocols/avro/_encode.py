"""Rows of the model as Avro messages. Source: Avro protocol, wire format."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast._errors import EncodeError
from tidecast.expressions import decimal_text, shift_zone
from tidecast.model import MAX_DECIMAL_PRECISION, DataType, Kind, Op, TableSchema, physical_ms_of
from tidecast.model import Column as TableColumn
from tidecast.protocols.avro import _wide
from tidecast.protocols.avro._options import AvroOptions
from tidecast.protocols.avro._schema import avro_form, key_schema, value_columns, value_schema
from tidecast.protocols.avro._wire import write
from tidecast.registry import SchemaId, header
from tidecast.spark import reused

_UINT64, _INT64_MAX = 1 << 64, (1 << 63) - 1


@reused()
def encode_key(schema: TableSchema, schema_id: SchemaId, options: AvroOptions) -> Column:
    """Return the message key of a row: binary, null for a table without a handle key.

    Reads the columns `op`, `old` and `data` of a table's changes (see `tidecast.model.TableChanges`).
    """
    keys = set(schema.handle_key)
    columns = [c for c in schema.columns if c.name in keys]
    if not columns:
        return F.lit(None).cast("binary")
    types = [f["type"] for f in json.loads(key_schema(schema, options))["fields"]]
    row = F.when(F.col("op") == Op.DELETE, F.col("old")).otherwise(F.col("data"))
    return write(types, [_value(c.data_type, row[c.name], options) for c in columns], header(schema_id))


@reused()
def encode_value(schema: TableSchema, schema_id: SchemaId, options: AvroOptions) -> Column:
    """Return the message value of a row: binary, null for a delete.

    Reads the columns `op`, `data`, `commit_ts` and `checksum` of a table's changes.
    """
    types = [f["type"] for f in json.loads(value_schema(schema, options))["fields"]]
    columns = value_columns(schema, options)
    values = [_value(c.data_type, F.col("data")[c.name], options) for c in columns]
    if options.enable_tidb_extension:
        commit_ts = F.coalesce(F.col("commit_ts"), F.lit(0).cast("bigint"))
        values += [F.col("op"), commit_ts, physical_ms_of(commit_ts)]
        if options.checksum:
            checksum = F.col("checksum")
            values += [
                F.coalesce(checksum["current"].cast("string"), F.lit("")),
                F.coalesce(checksum["corrupted"], F.lit(False)),
                F.coalesce(checksum["version"], F.lit(0)),
            ]
    return F.when(F.col("op") != Op.DELETE, write(types, values, header(schema_id)))


@reused()
def unencodable(schema: TableSchema) -> Column:
    """Return why a row has no form in Avro, as text naming the column; null for a row that has one.

    A NOT NULL column without a value and an ENUM of the invalid value 0 have none.
    """
    row = F.when(F.col("op") == Op.DELETE, F.col("old")).otherwise(F.col("data"))
    keys = set(schema.handle_key)
    reasons: list[Column] = []
    for column in schema.columns:
        wrong = _wrong(column, row[column.name])
        if wrong is not None:
            here = wrong if column.name in keys else wrong & (F.col("op") != Op.DELETE)
            reasons.append(F.when(here, F.lit(f"column {column.name} holds nothing that Avro can say")))
    return F.coalesce(*reasons) if reasons else F.lit(None).cast("string")


def _wrong(column: TableColumn, value: Column) -> Column | None:
    tests = []
    if not column.nullable and not column.virtual:
        tests.append(value.isNull())
    if column.data_type.kind is Kind.ENUM and "" not in column.data_type.elements:
        tests.append(F.coalesce(value == "", F.lit(False)))
    return reduce(or_, tests) if tests else None


def _value(data_type: DataType, value: Column, options: AvroOptions) -> Column:
    """Return a value of the model as its Avro form wants it."""
    return _WRITERS.get(data_type.kind, _as_is)(data_type, value, options)


def _as_is(data_type: DataType, value: Column, options: AvroOptions) -> Column:
    return value


def _integer(data_type: DataType, value: Column, options: AvroOptions) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return value
    if avro_form(data_type, options).avro == "string":
        return value.cast("string")
    limit = F.lit(Decimal(_INT64_MAX))
    return F.when(value > limit, value - F.lit(Decimal(_UINT64))).otherwise(value).cast("bigint")


def _decimal(data_type: DataType, value: Column, options: AvroOptions) -> Column:
    precise = avro_form(data_type, options).avro == "bytes"
    if precise and not data_type.length:
        raise EncodeError(
            "a decimal of unknown precision cannot be written in mode precise",
            code="CDC:ErrAvroEncodeFailed",
            hint="set avro-decimal-handling-mode=string",
        )
    narrow = 0 < data_type.length <= MAX_DECIMAL_PRECISION
    if precise:
        return value if narrow else _wide.bytes_of(value)
    return decimal_text(value, data_type.length, data_type.decimal) if narrow else value


def _timestamp(data_type: DataType, value: Column, options: AvroOptions) -> Column:
    return shift_zone(value, "UTC", options.zone)


_WRITERS: dict[Kind, Callable[[DataType, Column, AvroOptions], Column]] = {
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.TIMESTAMP: _timestamp,
}
