"""Values in messages as the model's columns. Source: Debezium protocol, column types, the real consumer."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast.expressions import shortest_text
from tidecast.model import MAX_DECIMAL_PRECISION, DataType, Kind, bit_width, spark_type
from tidecast.protocols.debezium._decode_schema import Field
from tidecast.protocols.debezium._defaults import EPOCH_TEXT, in_milliseconds

_UINT64 = 1 << 64
_WIDE = Context(prec=MAX_DECIMAL_PRECISION)
_YEAR_0, _YEAR_10000 = -62_167_219_200, 253_402_300_800
"""When years of four digits begin and end, in seconds after 1970."""
_EPOCH, _MINUTES_FROM = "1970-01-01 00:00:00", len("1970-01-01 00:")
_LONG_BYTES = 8
_LONG_DIGITS = 18


def json_type(field: Field) -> T.DataType:
    """Return the Spark type in which a field's value leaves the JSON text without a loss."""
    data_type = field.column.data_type
    match data_type.kind:
        case Kind.INTEGER if _wraps(data_type):
            return T.DecimalType(20, 0)
        case Kind.INTEGER | Kind.YEAR | Kind.DATETIME | Kind.TIME:
            return T.LongType()
        case Kind.DATE:
            return T.IntegerType()
        case Kind.FLOAT | Kind.DOUBLE:
            return T.DoubleType()
        case Kind.DECIMAL if field.form.type == "double":
            # What was rounded to a double may take a digit more.
            narrow = 0 < data_type.length < MAX_DECIMAL_PRECISION
            return T.DecimalType(data_type.length + 1, data_type.decimal) if narrow else T.DoubleType()
        case Kind.BIT if field.form.type == "boolean":
            return T.BooleanType()
    return T.StringType()


def readable(field: Field) -> bool:
    """Tell whether a field's values can be read: Kafka Connect's decimals only up to 18 digits."""
    data_type = field.column.data_type
    return data_type.kind is not Kind.DECIMAL or field.form.type != "bytes" or 0 < data_type.length <= _LONG_DIGITS


def damaged(field: Field, raw: Column) -> Column | None:
    """Return whether a raw value (see `json_type`) is not of the column's type; None where it always is."""
    data_type = field.column.data_type
    if _wraps(data_type):
        return raw >= F.lit(Decimal(_UINT64))
    if data_type.kind is Kind.DATETIME:
        return ~_is_moment(field, raw)
    if json_type(field) != T.StringType() or data_type.kind not in _READERS:
        return None
    if data_type.kind is Kind.TIMESTAMP:
        return ~_is_instant(raw)
    return raw.isNotNull() & value(field, raw).isNull()


def value(field: Field, raw: Column) -> Column:
    """Return the model's value of a raw value (see `json_type`); null where it is not of the column's type."""
    return _READERS.get(field.column.data_type.kind, _as_is)(field, raw)


def _wraps(data_type: DataType) -> bool:
    return data_type.mysql_type == "bigint" and data_type.unsigned


def _as_is(field: Field, raw: Column) -> Column:
    return raw


def _integer(field: Field, raw: Column) -> Column:
    if not _wraps(field.column.data_type):
        return raw.cast(spark_type(field.column.data_type))
    wrapped = (raw + F.lit(Decimal(_UINT64))).cast("decimal(20,0)")
    return F.when(raw < 0, wrapped).otherwise(raw)


def _float(field: Field, raw: Column) -> Column:
    return raw.cast("float")


def _decimal(field: Field, raw: Column) -> Column:
    data_type = field.column.data_type
    if field.form.type == "bytes":
        return _unscaled(F.try_to_binary(raw, F.lit("base64")), data_type)
    if 0 < data_type.length <= MAX_DECIMAL_PRECISION:
        # No minus in Spark: it rounds to 34 digits.
        limit = Decimal(10**data_type.length - 1).scaleb(-data_type.decimal, _WIDE)
        most, least = (F.lit(bound).cast(spark_type(data_type)) for bound in (limit, limit.copy_negate()))
        return F.coalesce(raw.try_cast(spark_type(data_type)), F.when(raw > 0, most).when(raw < 0, least))
    text = shortest_text(raw, is_float=False)
    if not (data_type.length and data_type.decimal):
        return text
    rest = F.when(text.contains("."), F.substring_index(text, ".", -1)).otherwise("")
    return F.concat(F.substring_index(text, ".", 1), F.lit("."), F.rpad(rest, data_type.decimal, "0"))


def _unscaled(unscaled: Column, data_type: DataType) -> Column:
    """Return the number of a two's complement, big-endian, of up to eight bytes."""
    negative = F.substring(unscaled, 1, 1) >= F.lit(b"\x80")
    sign = F.when(negative, F.lit(b"\xff")).otherwise(F.lit(b"\x00"))
    digits = F.conv(F.hex(F.lpad(unscaled, F.lit(_LONG_BYTES), sign)), 16, -10).cast("decimal(19,0)")
    shifted = digits * F.lit(Decimal(1).scaleb(-data_type.decimal)).cast(T.DecimalType(19, data_type.decimal))
    return F.when(F.octet_length(unscaled) <= _LONG_BYTES, shifted.try_cast(spark_type(data_type)))


def _binary(field: Field, raw: Column) -> Column:
    return F.try_to_binary(raw, F.lit("base64"))


def _bit(field: Field, raw: Column) -> Column:
    if field.form.type == "boolean":
        return F.when(raw, F.lit(b"\x01")).when(~raw, F.lit(b"\x00"))
    length = bit_width(field.column.data_type)
    padded = F.rpad(F.try_to_binary(raw, F.lit("base64")), F.lit(length), F.lit(b"\x00"))
    return F.concat(*(F.substring(padded, n, 1) for n in range(length, 0, -1)))


def _date(field: Field, raw: Column) -> Column:
    return F.date_from_unix_date(raw).cast("string")


def _datetime(field: Field, raw: Column) -> Column:
    unit, width = (1000, 3) if in_milliseconds(field.column.data_type) else (1_000_000, 6)
    always = field.digits or not in_milliseconds(field.column.data_type)
    moment = _since_epoch(_div(raw, unit)).cast("string")
    text = F.concat(moment, _fraction(F.pmod(raw, F.lit(unit)), width, field, always))
    return F.when(_is_moment(field, raw), text)


def _is_moment(field: Field, raw: Column) -> Column:
    unit = 1000 if in_milliseconds(field.column.data_type) else 1_000_000
    return raw.between(F.lit(_YEAR_0 * unit), F.lit(_YEAR_10000 * unit - 1))


def _time(field: Field, raw: Column) -> Column:
    size = F.abs(raw)
    hours = _div(size, 3_600_000_000).cast("string")
    clock = F.substring(_since_epoch(_div(size, 1_000_000) % 3600).cast("string"), _MINUTES_FROM, 6)
    fraction = _fraction(size % 1_000_000, 6, field, field.digits)
    return F.concat(
        F.when(raw < 0, "-").otherwise(""),
        F.lpad(hours, F.greatest(F.length(hours), F.lit(2)), F.lit("0")),
        clock,
        fraction,
    )


def _since_epoch(seconds: Column) -> Column:
    """Return so many seconds after 1970 as a wall clock's time, in which the session's zone has no say."""
    return F.timestamp_add("SECOND", seconds, F.lit(_EPOCH).cast("timestamp_ntz"))


def _is_instant(raw: Column) -> Column:
    length = F.octet_length(raw)
    return raw.endswith("Z") & (length >= len(EPOCH_TEXT)) & (length <= len(EPOCH_TEXT) + 7)


def _timestamp(field: Field, raw: Column) -> Column:
    digits = field.column.data_type.decimal
    zero = "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    return F.when(raw == EPOCH_TEXT, zero).otherwise(F.rtrim(F.replace(raw, F.lit("T"), F.lit(" ")), F.lit("Z")))


def _div(number: Column, by: int) -> Column:
    """Return the whole quotient, rounded down."""
    return F.call_function("div", number - F.pmod(number, F.lit(by)), F.lit(by))


def _fraction(part: Column, width: int, field: Field, always: bool) -> Column:
    """Return the fraction of a second with its point: as many digits as the column has, or all if they are unknown."""
    digits = F.lpad(part.cast("string"), width, "0")
    if not always:
        return F.when(part == 0, "").otherwise(F.concat(F.lit("."), digits))
    shown = field.column.data_type.decimal
    return F.concat(F.lit("."), F.substring(digits, 1, shown)) if shown else F.lit("")


_READERS: dict[Kind, Callable[[Field, Column], Column]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: lambda field, raw: raw.cast("int"),
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BINARY: _binary,
    Kind.BIT: _bit,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIME: _time,
}
