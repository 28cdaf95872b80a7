"""ENUM, SET and BIT as the numbers that they are in MySQL, and back. Source: Simple protocol, row values."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import DataType, Kind, bit_width

_UINT64_MAX = (1 << 64) - 1
_UINT64_BYTES = 8
_SURELY_INT64 = 18
_LONG_EXPONENT = "[eE][+-]?[0-9]{4}"


def as_listed(data_type: DataType, value: Column) -> Column:
    """Return the text of an ENUM or SET as its type's elements spell it.

    Avro's schemas show elements with their quotes unescaped, and rows do not: a text that is none of the elements
    counts as the one that it is without those escapes. Source: Avro protocol, allowed.
    """
    if not any("'" in element for element in data_type.elements):
        return value
    parts = F.split(value, ",") if data_type.kind is Kind.SET else F.array(value)
    unlisted = F.array_except(parts, F.array(*map(F.lit, data_type.elements)))
    unescaped = F.replace(F.replace(value, F.lit("\\'"), F.lit("'")), F.lit("''"), F.lit("'"))
    return F.when(F.size(unlisted) == 0, value).otherwise(unescaped)


def enum_number(data_type: DataType, element: Column) -> Column:
    """Return an element's number from 1 as bigint, 0 for the invalid value '' and for any other text."""
    return F.array_position(_array(data_type.elements), as_listed(data_type, element))


def enum_element(data_type: DataType, number: Column) -> Column:
    """Return the element of a number, '' for 0 and null for a number without element."""
    return F.get(_array(("", *data_type.elements)), number.try_cast("int"))


def set_mask(data_type: DataType, elements: Column) -> Column:
    """Return a bit for each element as bigint, the first one's is the lowest; '' has none, nor has other text."""
    listed = as_listed(data_type, elements)
    bits = [
        F.when(F.find_in_set(F.lit(e), listed) > 0, signed(1 << n)).otherwise(signed(0))
        for n, e in enumerate(data_type.elements)
    ]
    return F.when(elements == "", signed(0)).when(elements.isNotNull(), reduce(Column.bitwiseOR, bits, signed(0)))


def set_number(data_type: DataType, elements: Column) -> Column:
    """Return the mask of a SET as the decimal text of an unsigned number."""
    return F.conv(F.hex(set_mask(data_type, elements)), 16, 10)


def set_elements(data_type: DataType, mask: Column) -> Column:
    """Return the elements of a mask (bigint), joined by commas; null where it has bits of no element."""
    chosen = (F.when(mask.bitwiseAND(signed(1 << n)) != 0, e) for n, e in enumerate(data_type.elements))
    unknown = signed(_UINT64_MAX ^ ((1 << len(data_type.elements)) - 1))
    return F.when(mask.bitwiseAND(unknown) == 0, F.concat_ws(",", *chosen))


def signed(unsigned: int) -> Column:
    """Return 64 bits as the bigint that has them."""
    return F.lit(unsigned - (1 << 64) if unsigned >> 63 else unsigned).cast("bigint")


def bit_number(bits: Column) -> Column:
    """Return the decimal text of bits (binary) as an unsigned number; null for more than 64 of them."""
    return F.when(F.octet_length(bits) <= _UINT64_BYTES, F.conv(F.hex(bits), 16, 10))


def bit_bytes(data_type: DataType, text: Column) -> Column:
    """Return a number's text as binary of the column's length; null where it is no number or too large."""
    digits = 2 * bit_width(data_type)
    hexed = F.conv(unsigned_text(text), 10, 16)
    return F.when(F.length(hexed) <= digits, F.unhex(F.lpad(hexed, digits, "0")))


def bounded(text: Column) -> Column:
    """Return the text of a number, null for one whose exponent has more than three digits.

    Spark writes 1e-99999999 out before it rounds it, which takes minutes; nothing that MySQL has is written so.
    """
    return F.when(~text.rlike(_LONG_EXPONENT), text)


def unsigned_text(text: Column) -> Column:
    """Return an unsigned 64-bit number's text, null for anything else: `conv` raises on more bits."""
    number = bounded(text).try_cast("decimal(20,0)")
    return F.when((number >= 0) & (number <= F.lit(Decimal(_UINT64_MAX))), text)


def unsigned_number(text: Column) -> Column:
    """Return the text of a BIGINT UNSIGNED as decimal(20,0), null for any other text. Short ones go quicker.

    A number is written in one way: Spark takes blanks, a sign, zeros in front, a fraction or an exponent as well. The
    short way took as long as the other in the last measurement (0.9 times as fast), and may go.
    """
    short, long = text.try_cast("bigint"), bounded(text).try_cast("decimal(20,0)")
    quick = F.when((short >= 0) & (short.cast("string") == text), short.cast("decimal(20,0)"))
    fits = (long >= 0) & (long <= F.lit(Decimal(_UINT64_MAX))) & (long.cast("string") == text)
    return F.when(F.octet_length(text) <= _SURELY_INT64, quick).otherwise(F.when(fits, long))


def _array(elements: tuple[str, ...]) -> Column:
    return F.array(*map(F.lit, elements)).cast("array<string>")
