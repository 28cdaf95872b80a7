"""The bytes that a column's value gives to the row checksum. Source: Avro protocol, row checksum, algorithm.

Each is a string column that holds raw bytes, or several that follow each other; all are null for NULL. Strings, since
Spark drops nulls when it joins strings, and neither checks nor changes the bytes in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from tidecast.model import DataType, Kind, decimal_text

Pieces = tuple[Column, ...]

_SMALLEST = 5e-324
_EXACT = 1 << 53
_HALF = (1 << 32) - 1
_INT64_MAX, _UINT64 = (1 << 63) - 1, 1 << 64
_NEVER = b"\xff"  # No value has a single byte, so a value outside of its column's type fits no checksum.

_DOUBLE = json.dumps("double")
_FLOATS = json.dumps({"type": "array", "items": "float"})

_SHORT = 256
_LENGTHS = b"".join(n.to_bytes(4, "little") for n in range(_SHORT))


def pieces(data_type: DataType, value: Column) -> Pieces:
    """Return the bytes of a value of the model, in order; none for a type that takes no part."""
    make = _MAKERS.get(data_type.kind)
    return make(data_type, value) if make else ()


def _bytes(binary: Column) -> Column:
    return binary.cast("string")


def _small(number: Column) -> Column:
    """Return a number of 0 … 2^53 as 8 bytes, little-endian.

    The number n times the smallest double is the double whose bits are n, and Avro writes a double's bits like that.
    """
    return to_avro(number.cast("double") * F.lit(_SMALLEST), _DOUBLE)


def _int64(number: Column) -> Column:
    """Return a bigint's two's complement as 8 bytes, little-endian."""
    low, high = _small(number.bitwiseAND(F.lit(_HALF))), _small(F.shiftrightunsigned(number, 32))
    halves = F.concat(F.substring(low, 1, 4), F.substring(high, 1, 4))
    return _bytes(F.when((number >= 0) & (number < _EXACT), _small(number)).otherwise(halves))


def _int32(number: Column) -> Column:
    """Return a number of 0 … 2^32 - 1 as 4 bytes, little-endian; most are small and only looked up."""
    looked_up = F.substring(F.lit(_LENGTHS), number * 4 + 1, F.lit(4))
    return _bytes(F.when(number < _SHORT, looked_up).otherwise(F.substring(_small(number), 1, 4)))


def _integer(data_type: DataType, value: Column) -> Pieces:
    if not data_type.unsigned:
        return (_int64(value.cast("bigint")),)
    if data_type.mysql_type != "bigint":
        return (_bytes(_small(value)),)
    signed = F.when((value >= 0) & (value <= F.lit(Decimal(_INT64_MAX))), value.cast("bigint"))
    signed = signed.when(value < F.lit(Decimal(_UINT64)), (value - F.lit(Decimal(_UINT64))).cast("bigint"))
    return (_int64(signed),)


def _year(data_type: DataType, value: Column) -> Pieces:
    return (_bytes(_small(value)),)


def _real(data_type: DataType, value: Column) -> Pieces:
    number = value.cast("double")
    finite = F.when(number - number == 0, number).when(number.isNotNull(), F.lit(0.0))
    return (_bytes(to_avro(finite, _DOUBLE)),)


def _text(data_type: DataType, value: Column) -> Pieces:
    return _int32(F.octet_length(value)), value.cast("string")


def _decimal(data_type: DataType, value: Column) -> Pieces:
    return _text(data_type, decimal_text(value, data_type.length, data_type.decimal))


def _enum(data_type: DataType, value: Column) -> Pieces:
    """An element's number from 1, and 0 for the invalid value ''."""
    known = [*data_type.elements, *([] if "" in data_type.elements else [""])]
    numbers = [-1, *range(1, len(data_type.elements) + 1), 0]
    table = b"".join(n.to_bytes(8, "little", signed=True) for n in numbers)
    position = F.array_position(F.array(*map(F.lit, known)), value).cast("int")
    return (_bytes(F.substring(F.lit(table), position * 8 + 1, F.lit(8))),)


def _set(data_type: DataType, value: Column) -> Pieces:
    """A bit for each element, the first one's is the lowest."""
    bits = [
        F.when(F.find_in_set(F.lit(e), value) > 0, F.lit(1 << n if n < 63 else -(1 << 63))).otherwise(F.lit(0))
        for n, e in enumerate(data_type.elements)
    ]
    mask = F.lit(0).cast("bigint")
    for bit in bits:
        mask = mask.bitwiseOR(bit.cast("bigint"))
    mask = F.when(value == "", F.lit(0).cast("bigint")).when(value.isNotNull(), mask)
    named = F.when(value == "", 0).otherwise(F.size(F.split(value, ",")))
    return (F.when(F.bit_count(mask) == named, _int64(mask)).when(value.isNotNull(), _bytes(F.lit(_NEVER))),)


def _bit(data_type: DataType, value: Column) -> Pieces:
    """The bits as one number; zeros in front don't count."""
    digits = F.ltrim(F.hex(value), F.lit("0"))
    number = F.conv(F.lpad(digits, 16, "0"), 16, -10).cast("bigint")
    return (F.when(F.length(digits) <= 16, _int64(number)).when(value.isNotNull(), _bytes(F.lit(_NEVER))),)


def _vector(data_type: DataType, value: Column) -> Pieces:
    """The number of dimensions, and each as a 4-byte float; Avro writes them like that between its own bytes."""
    inner = F.substring(value, F.lit(2), F.length(value) - 2)
    parts = F.when(inner == "", F.array().cast("array<string>")).otherwise(F.split(inner, ","))
    numbers = F.transform(parts, lambda p: p.try_cast("float"))
    framed, size = to_avro(numbers, _FLOATS), F.size(numbers)
    floats = F.substring(framed, F.octet_length(framed) - size * 4, size * 4)
    good = ~F.exists(numbers, lambda n: n.isNull())
    return (F.when(good, F.concat(_int32(size), _bytes(floats))).when(value.isNotNull(), _bytes(F.lit(_NEVER))),)


_MAKERS: dict[Kind, Callable[[DataType, Column], Pieces]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _year,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.BIT: _bit,
    Kind.VECTOR: _vector,
    Kind.DECIMAL: _decimal,
    **dict.fromkeys((Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME), _text),
}
