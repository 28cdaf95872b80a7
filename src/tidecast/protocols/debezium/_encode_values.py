"""Values of the model as JSON text. Source: Debezium protocol, column types, NULL values."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.expressions import shift_zone, trimmed
from tidecast.model import Column as TableColumn
from tidecast.model import DataType, Kind, bit_width
from tidecast.protocols.debezium import _json
from tidecast.protocols.debezium._defaults import (
    EPOCH_TEXT,
    EXACT_DIGITS,
    FIRST_TIMESTAMP,
    in_milliseconds,
    null_stand_in,
)
from tidecast.protocols.debezium._options import DebeziumOptions

_UINT64, _INT64_MAX = 1 << 64, (1 << 63) - 1
_PLAIN_SCALE = 6
_SECOND_DAY, _ZERO = "1970-01-02", "0000"


def value(column: TableColumn, value: Column, options: DebeziumOptions) -> Column:
    """Return a column's value as JSON text, never null. In: see `tidecast.model.spark_type`; NULL may be null."""
    stand_in = null_stand_in(column, options)
    known = value if stand_in is None else F.coalesce(value, stand_in)
    if column.data_type.kind is Kind.TIMESTAMP and options.zone != "UTC":
        early = (known < _SECOND_DAY) & (shift_zone(known, "UTC", options.zone) < FIRST_TIMESTAMP)
        known = F.when(early, _ZERO).otherwise(known)
    unreal = column.data_type.kind in (Kind.DATE, Kind.DATETIME) and not column.nullable
    return F.coalesce(
        _WRITERS.get(column.data_type.kind, _text)(column.data_type, known), F.lit("0" if unreal else "null")
    )


def _text(data_type: DataType, value: Column) -> Column:
    return _json.string(value)


def _as_is(data_type: DataType, value: Column) -> Column:
    return value.cast("string")


def _integer(data_type: DataType, value: Column) -> Column:
    if not (data_type.mysql_type == "bigint" and data_type.unsigned):
        return value.cast("string")
    wraps = value > F.lit(Decimal(_INT64_MAX))
    return F.when(wraps, (value - F.lit(Decimal(_UINT64))).cast("bigint").cast("string")).otherwise(
        value.cast("string")
    )


def _float(data_type: DataType, value: Column) -> Column:
    return _json.number(value, is_float=True)


def _double(data_type: DataType, value: Column) -> Column:
    return _json.number(value, is_float=False)


def _decimal(data_type: DataType, value: Column) -> Column:
    if not (0 < data_type.length <= EXACT_DIGITS and data_type.decimal <= _PLAIN_SCALE):
        return _json.number(value.try_cast("double"), is_float=False)
    text = value.cast("string")
    return trimmed(text) if data_type.decimal else text


def _bit(data_type: DataType, value: Column) -> Column:
    if data_type.length <= 1:
        return F.when(value == F.lit(b"\x00"), "false").when(value.isNotNull(), "true")
    backwards = [F.substring(value, n, 1) for n in range(bit_width(data_type), 0, -1)]
    return _quoted(F.base64(F.concat(*backwards)))


def _binary(data_type: DataType, value: Column) -> Column:
    # Spark may cut Base64 into lines.
    return _quoted(F.replace(F.base64(value), F.lit("\r\n"), F.lit("")))


def _date(data_type: DataType, value: Column) -> Column:
    return F.unix_date(_full_year(value).try_cast("date")).cast("string")


def _datetime(data_type: DataType, value: Column) -> Column:
    moment = F.concat(_full_year(value), F.lit("Z")).try_cast("timestamp")
    return (F.unix_millis(moment) if in_milliseconds(data_type) else F.unix_micros(moment)).cast("string")


def _full_year(value: Column) -> Column:
    rest = F.substring(value, 3, 24)
    return (
        F.when(value >= "0100", value)
        .when(value < "0070", F.concat(F.lit("20"), rest))
        .otherwise(F.concat(F.lit("19"), rest))
    )


def _timestamp(data_type: DataType, value: Column) -> Column:
    text = F.concat(F.replace(value, F.lit(" "), F.lit("T")), F.lit("Z"))
    return _quoted(F.when(value.startswith("0000"), EPOCH_TEXT).otherwise(text))


def _time(data_type: DataType, value: Column) -> Column:
    unsigned = F.ltrim(value, F.lit("-"))
    hours = F.substring_index(unsigned, ":", 1).try_cast("bigint")
    minutes = F.substring_index(F.substring_index(unsigned, ":", 2), ":", -1).try_cast("bigint")
    microseconds = (F.substring_index(unsigned, ":", -1).try_cast("decimal(8,6)") * 1_000_000).cast("bigint")
    whole = (hours * 60 + minutes) * 60_000_000 + microseconds
    return F.when(value.startswith("-"), -whole).otherwise(whole).cast("string")


def _quoted(text: Column) -> Column:
    return F.concat(F.lit('"'), text, F.lit('"'))


_WRITERS: dict[Kind, Callable[[DataType, Column], Column]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _as_is,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
}
