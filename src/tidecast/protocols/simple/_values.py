"""Values of Simple JSON, which are text but for TIMESTAMP, as the model's columns."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import DataType, Kind, shift_zone, spark_type

UINT64_MAX = 18446744073709551615

_TIMESTAMP = "location string, value string"


def value(data_type: DataType, text: Column, zone: str) -> Column:
    """Return a value of a MySQL type from its text in a Simple message; null where the text is not one.

    In: string (for TIMESTAMP the JSON text of its object). Out: see `tidecast.model.spark_type`. `zone` is that of
    TIMESTAMP values which name none. Source: Simple protocol, section row values.
    """
    return _READERS.get(data_type.kind, _as_text)(data_type, text, zone)


def fallible(data_type: DataType) -> bool:
    """Tell whether a text may fail to be a value of a type."""
    return data_type.kind in _READERS


def _as_text(data_type: DataType, text: Column, zone: str) -> Column:
    return text


def _cast(data_type: DataType, text: Column, zone: str) -> Column:
    return text.try_cast(spark_type(data_type))


def _base64(data_type: DataType, text: Column, zone: str) -> Column:
    return F.try_to_binary(text, F.lit("base64"))


def _unsigned(text: Column) -> Column:
    """Return an unsigned 64-bit number's text, or null for anything else: `conv` raises on more bits."""
    number = text.try_cast("decimal(20,0)")
    return F.when((number >= 0) & (number <= F.lit(Decimal(UINT64_MAX))), text)


def _bit(data_type: DataType, text: Column, zone: str) -> Column:
    digits = 2 * ((max(data_type.length, 1) + 7) // 8)
    hexed = F.conv(_unsigned(text), 10, 16)
    return F.when(F.length(hexed) <= digits, F.unhex(F.lpad(hexed, digits, "0")))


def _enum(data_type: DataType, text: Column, zone: str) -> Column:
    names = F.array(F.lit(""), *(F.lit(e) for e in data_type.elements))
    return F.get(names, text.try_cast("int"))


def _set(data_type: DataType, text: Column, zone: str) -> Column:
    mask = F.conv(_unsigned(text), 10, -10).cast("bigint")
    chosen = (F.when(mask.bitwiseAND(F.lit(_signed(1 << n))) != 0, e) for n, e in enumerate(data_type.elements))
    unknown = F.lit(_signed(~((1 << len(data_type.elements)) - 1) & UINT64_MAX))
    return F.when(mask.bitwiseAND(unknown) == 0, F.concat_ws(",", *chosen))


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def _timestamp(data_type: DataType, text: Column, zone: str) -> Column:
    said = F.from_json(text, _TIMESTAMP)
    return F.when(
        text.startswith("{"), shift_zone(said["value"], F.coalesce(said["location"], F.lit(zone)), "UTC")
    ).otherwise(shift_zone(text, zone, "UTC"))


_READERS: dict[Kind, Callable[[DataType, Column, str], Column]] = {
    Kind.INTEGER: _cast,
    Kind.YEAR: _cast,
    Kind.FLOAT: _cast,
    Kind.DOUBLE: _cast,
    Kind.DECIMAL: _cast,
    Kind.BINARY: _base64,
    Kind.BIT: _bit,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.TIMESTAMP: _timestamp,
}
