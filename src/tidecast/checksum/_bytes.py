"""The bytes that a column's value gives to the row checksum. Source: Avro protocol, row checksum.

Each is a string column that holds raw bytes, or several that follow each other; all are null for NULL. Strings, since
Spark drops nulls when it joins strings, and neither checks nor changes the bytes in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro, to_avro

from tidecast.expressions import as_listed, decimal_text, signed
from tidecast.model import DataType, Kind, spark_type
from tidecast.spark import ansi_enabled

Pieces = tuple[Column, ...]

_SMALLEST = 5e-324
_EXACT = 1 << 53
_HALF = (1 << 32) - 1
_SIGN = 1 << 63
_MOST = (1 << 64) - 1
_WORD = 8
_NEVER = b"\xff"  # No value has a single byte, so a value outside of its column's type fits no checksum.

_DOUBLE = json.dumps("double")
_STRINGS = json.dumps({"type": "array", "items": "string"})
_FLOATS = json.dumps({"type": "array", "items": "float"})
_LATIN1 = "ISO-8859-1"
_NUMBER = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_VECTOR = rf"^\[({_NUMBER}(,{_NUMBER})*+)?\]\z"  # possessive: Java recurses for each number otherwise

_SHORT = 256


def pieces(data_type: DataType, value: Column) -> Pieces:
    """Return the bytes of a value of the model, in order; none for a type that takes no part."""
    make = _MAKERS.get(data_type.kind)
    return make(data_type, value) if make else ()


def _raw(binary: Column) -> Column:
    return binary.cast("string")


def _small(number: Column) -> Column:
    """Return a number of 0 … 2^53 - 1 as 8 bytes, little-endian.

    The number n times the smallest double is the double whose bits are n, and Avro writes a double's bits like that:
    2.3 times as fast as hexadecimal digits turned round. It can go when Spark has a function for a number's bytes.
    """
    return to_avro(number.cast("double") * F.lit(_SMALLEST), _DOUBLE)


def _int64(number: Column, width: int = 8) -> Column:
    """Return a bigint's two's complement as 8 bytes, little-endian.

    It must fit into `width` bytes. Its bytes are turned round, as Spark casts a number to big-endian bytes; where ANSI
    forbids that cast, Avro writes them in two halves, which takes several times as long. 2.1 times as fast as
    hexadecimal digits; it can go with `_small`.
    """
    if ansi_enabled():
        low, high = number.bitwiseAND(F.lit(_HALF)), F.shiftrightunsigned(number, 32)
        both = F.concat(F.substring(_small(low), 1, 4), F.substring(_small(high), 1, 4))
        return F.when((number >= 0) & (number < _EXACT), _small(number)).otherwise(both)
    turned = [_moved(number, at) for at in range(width)]
    if width < _WORD:
        turned.append(F.shiftright(number, 63).bitwiseAND(signed((1 << 8 * (_WORD - width)) - 1)))
    return reduce(Column.bitwiseOR, turned).cast("binary")


def _moved(number: Column, at: int) -> Column:
    """Return one byte of a bigint, counted from its low end, where it stands when the bytes are turned round."""
    source, target = 8 * at, 8 * (_WORD - 1 - at)
    if target > source:
        return F.shiftleft(number.bitwiseAND(signed(0xFF << source)), target - source)
    return F.shiftrightunsigned(number, source - target).bitwiseAND(signed(0xFF << target))


def _uint64(number: Column) -> Column:
    """Return a decimal(20,0) of 0 … 2^64 - 1 as 8 bytes, little-endian, and null for any other."""
    if ansi_enabled():
        shifted = (number - F.lit(Decimal(_SIGN))).try_cast("bigint")
        return _int64(shifted.bitwiseXOR(signed(_SIGN)))
    low = number.cast("bigint")  # the low 64 bits, also of a larger number
    small = (low >= 0) & (low.cast("decimal(20,0)") == number)  # compares faster than with a larger number
    return F.when(small | number.between(F.lit(Decimal(0)), F.lit(Decimal(_MOST))), _int64(low))


def _short_length(number: Column) -> Column:
    """Return a length below 256 as 4 bytes, little-endian, and nothing for a longer one."""
    return F.get(_table(n.to_bytes(4, "little") for n in range(_SHORT)), number)


def _length(number: Column) -> Column:
    """Return a length as 4 bytes, little-endian; most are short and only looked up."""
    return F.coalesce(_short_length(number), _raw(F.substring(_small(number), 1, 4)))


def _table(entries: Iterable[bytes]) -> Column:
    """Return an array of texts that hold these bytes, each shorter than 64.

    Avro's reader makes one literal of it while Spark plans: looking up takes no time, and the plan stays small. It
    gives a length 2.6 times as fast as `_small`, and can go when that is as fast.
    """
    blocks = (b"\x02" + bytes([2 * len(entry)]) + entry for entry in entries)
    return from_avro(F.lit(b"".join(blocks) + b"\0"), _STRINGS)


def _integer(data_type: DataType, value: Column) -> Pieces:
    if isinstance(spark_type(data_type), T.IntegerType):
        return (_raw(_int64(value.cast("bigint"), 4)),)
    if not isinstance(spark_type(data_type), T.DecimalType):
        return (_raw(_int64(value)),)
    return (_raw(F.coalesce(_uint64(value), F.when(value.isNotNull(), F.lit(_NEVER)))),)


def _real(data_type: DataType, value: Column) -> Pieces:
    """A double; NaN and the infinities count as 0."""
    number = value.cast("double")
    finite = F.when(number - number == 0, number).when(number.isNotNull(), F.lit(0.0))
    return (_raw(to_avro(finite, _DOUBLE)),)


def _text(data_type: DataType, value: Column) -> Pieces:
    return _length(F.octet_length(value)), value.cast("string")


def _short_text(data_type: DataType, value: Column) -> Pieces:
    return _short_length(F.octet_length(value)), value


def _decimal(data_type: DataType, value: Column) -> Pieces:
    return _short_text(data_type, decimal_text(value, data_type.length, data_type.decimal))


def _enum(data_type: DataType, value: Column) -> Pieces:
    """An element's number from 1, and 0 for the invalid value ''."""
    known = [*data_type.elements, *([] if "" in data_type.elements else [""])]
    numbers = [*range(1, len(data_type.elements) + 1), 0]
    table = _table([_NEVER, *(n.to_bytes(8, "little") for n in numbers)])
    position = F.array_position(F.array(*map(F.lit, known)), as_listed(data_type, value)).cast("int")
    return (F.get(table, position),)


def _set(data_type: DataType, value: Column) -> Pieces:
    """A bit for each element, the first one's is the lowest."""
    elements = F.array(*map(F.lit, data_type.elements))
    bits = F.array(
        F.lit(None), *(F.lit(1 << n if n < 63 else -_SIGN).cast("bigint") for n in range(len(data_type.elements)))
    )
    nothing = F.lit(0).cast("bigint")
    found = F.aggregate(
        F.split(as_listed(data_type, value), ","),
        nothing,
        lambda m, e: m.bitwiseOR(F.get(bits, F.array_position(elements, e))),
    )
    mask = F.when(value == "", nothing).otherwise(found)
    # A lambda names the mask, which is long, for once.
    number = F.get(F.transform(F.array(mask), lambda m: _int64(m)), 0)
    return (_raw(F.coalesce(number, F.when(value.isNotNull(), F.lit(_NEVER)))),)


def _bit(data_type: DataType, value: Column) -> Pieces:
    """The bits as one number of 8 bytes; zeros in front don't count, the last byte comes first."""
    reversed_ = F.rtrim(F.reverse(F.decode(value, _LATIN1)), F.lit("\0"))
    padded = F.encode(F.rpad(reversed_, 8, "\0"), _LATIN1)
    return (_raw(F.when(F.length(reversed_) <= 8, padded).when(value.isNotNull(), F.lit(_NEVER))),)


def _vector(data_type: DataType, value: Column) -> Pieces:
    """The number of dimensions, and each as a 4-byte float; Avro writes them like that between its own bytes."""
    parts = F.split(F.regexp_replace(value, r"[\[\]]", ""), ",")
    numbers = F.when(value == "[]", F.array().cast("array<float>")).otherwise(parts.cast("array<float>"))
    framed, size = to_avro(numbers, _FLOATS), F.size(numbers)
    floats = F.substring(framed, F.octet_length(framed) - size * 4, size * 4)
    whole = F.when(value.rlike(_VECTOR), F.concat(_length(size), _raw(floats)))
    return (F.coalesce(whole, F.when(value.isNotNull(), _raw(F.lit(_NEVER)))),)


_MAKERS: dict[Kind, Callable[[DataType, Column], Pieces]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: _real,
    Kind.DOUBLE: _real,
    Kind.ENUM: _enum,
    Kind.SET: _set,
    Kind.BIT: _bit,
    Kind.VECTOR: _vector,
    Kind.DECIMAL: _decimal,
    **dict.fromkeys((Kind.TEXT, Kind.BINARY, Kind.JSON), _text),
    **dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME), _short_text),
}
