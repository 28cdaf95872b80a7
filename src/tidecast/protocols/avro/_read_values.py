"""Values of Avro messages as the model holds them. Source: Avro protocol, column types, consumers compared."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.expressions import shift_zone, unsigned_number
from tidecast.model import CHECKSUM as CHECKSUM_TYPE
from tidecast.model import DataType, Kind, Op, bit_width
from tidecast.protocols.avro import _wide
from tidecast.protocols.avro._read_schema import Field, WriterSchema, avro_type, branches
from tidecast.protocols.avro._schema import CHECKSUM, CHECKSUM_VERSION, CORRUPTED
from tidecast.protocols.avro._wire import field_of, is_narrow_decimal

OPS = (Op.CREATE, Op.UPDATE, Op.DELETE)
_UINT64 = 1 << 64
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?\z"


def extension(writer: WriterSchema, m: Column, name: str) -> Column | None:
    """Return a field of the extension, None where the schema has none of this name."""
    position = writer.position(name)
    return None if position is None else field_of(m, position, writer.fields[position].type)


def or_null(column: Column | None, spark_type: str) -> Column:
    """Return a column that may not be there, null where it is not."""
    return F.lit(None).cast(spark_type) if column is None else column.cast(spark_type)


def checksum_of(writer: WriterSchema, m: Column) -> Column:
    """Return the row checksum that a message carries (see `tidecast.model.CHECKSUM`), null where it carries none."""
    text = extension(writer, m, CHECKSUM)
    if text is None:
        return F.lit(None).cast(CHECKSUM_TYPE)
    carried = F.struct(
        or_null(extension(writer, m, CHECKSUM_VERSION), "int").alias("version"),
        or_null(extension(writer, m, CORRUPTED), "boolean").alias("corrupted"),
        F.coalesce(text.try_cast("bigint"), F.lit(-1).cast("bigint")).alias("current"),
        F.lit(0).cast("bigint").alias("previous"),
    )
    return F.when(text != "", carried)


def value_of(field: Field, value: Column, zone: str) -> Column:
    """Return a field's value as the model holds it."""
    assert field.column is not None
    return _READERS.get(field.column.data_type.kind, _as_is)(field, field.column.data_type, value, zone)


def is_fallible(field: Field) -> bool:
    """Tell whether a field of the right form may hold what is no value of its column."""
    return avro_type(field.type) == "string"


def _as_is(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return F.try_validate_utf8(value) if avro_type(field.type) == "string" else value


def _integer(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return value
    if avro_type(field.type) == "string":
        return unsigned_number(value)
    number = value.try_cast("decimal(20,0)")
    return F.when(value < 0, (number + F.lit(Decimal(_UINT64))).cast("decimal(20,0)")).otherwise(number)


def _decimal(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    block, _ = branches(field.type)
    if avro_type(field.type) == "string":
        return F.when(value.rlike(_NUMBER), value)
    return value if is_narrow_decimal(block) else _wide.text_of(value, data_type.decimal)


def _bit(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    """Old releases trim leading zero bytes; the model has all bytes of the column's length."""
    length = bit_width(data_type)
    return F.when(F.octet_length(value) < length, F.lpad(value, length, F.lit(b"\x00"))).otherwise(value)


def _timestamp(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return shift_zone(F.try_validate_utf8(value), zone, "UTC")


def _float(field: Field, data_type: DataType, value: Column, zone: str) -> Column:
    return value.cast("float") if avro_type(field.type) == "double" else value


_READERS: dict[Kind, Callable[[Field, DataType, Column, str], Column]] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.TIMESTAMP: _timestamp,
}
