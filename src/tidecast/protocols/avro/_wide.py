"""Decimals of more than 38 digits, between their text and Avro's bytes.

Such numbers are folded group by group inside the JVM, as limbs in an array. That costs tens of microseconds a
value, so numbers that fit Spark's own decimals take the short way, which is 19.7 times as fast. All this can go
when Spark has decimals of 65 digits.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from tidecast.expressions import MAX_LENGTH

_NARROW = '{"type":"bytes","logicalType":"decimal","precision":38,"scale":0}'
_NARROW_DIGITS, _NARROW_BYTES = 38, 15

_DIGITS, _GROUP = 66, 6  # decimal digits of the widest number, and of a group
_BYTES, _TRIPLE = 30, 3  # bytes of the widest number, and of a group
_BINARY, _BINARY_LIMBS = 1 << 24, 10
_DECIMAL, _DECIMAL_LIMBS, _DECIMAL_DIGITS = 10**9, 8, 9


def bytes_of(text: Column) -> Column:
    """Return the shortest two's complement of a decimal's unscaled number, from its text with all its fraction."""
    negative = text.startswith("-")
    digits = F.ltrim(F.regexp_replace(text, "[-.]", ""), F.lit("0"))
    signed = F.concat(F.when(negative, "-").otherwise(""), F.when(digits == "", "0").otherwise(digits))
    short = F.substring(to_avro(signed.try_cast("decimal(38,0)"), _NARROW), 2, MAX_LENGTH)
    long = F.when(text.isNotNull(), _long_bytes(digits, negative))
    return F.when(F.length(digits) <= _NARROW_DIGITS, short).otherwise(long)


def text_of(number: Column, scale: int) -> Column:
    """Return a decimal's text with `scale` digits of fraction, from the two's complement of its unscaled number."""
    framed = F.concat(F.unhex(F.lpad(F.hex(F.octet_length(number) * 2), 2, "0")), number)
    short = from_avro(framed, _NARROW, {"mode": "PERMISSIVE"}).cast("string")
    negative = F.substring(F.hex(number), 1, 1) >= "8"
    long = F.concat(F.when(negative, "-").otherwise(""), _long_digits(number, negative))
    signed = F.when(F.octet_length(number) <= _NARROW_BYTES, short).otherwise(F.when(number.isNotNull(), long))
    sign = F.when(signed.startswith("-"), "-").otherwise("")
    digits = F.ltrim(signed, F.lit("-"))
    if not scale:
        return F.concat(sign, digits)
    padded = F.when(F.length(digits) <= scale, F.lpad(digits, scale + 1, "0")).otherwise(digits)
    whole = F.substr(padded, F.lit(1), F.length(padded) - scale)
    return F.concat(sign, whole, F.lit("."), F.right(padded, F.lit(scale)))


def _long_bytes(digits: Column, negative: Column) -> Column:
    padded = F.lpad(digits, _DIGITS, "0")
    groups = F.array(*(F.substring(padded, at + 1, _GROUP).try_cast("bigint") for at in range(0, _DIGITS, _GROUP)))
    limbs = _fold(groups, 10**_GROUP, _BINARY, _BINARY_LIMBS)
    positive = F.regexp_replace(_hex(limbs), "^(?:00)+(?=[0-7])", "")
    complement = F.translate(_hex(_step(limbs, 1, F.lit(-1), _BINARY)), "0123456789ABCDEF", "FEDCBA9876543210")
    return F.unhex(F.when(negative, F.regexp_replace(complement, "^(?:FF)+(?=[89A-F])", "")).otherwise(positive))


def _long_digits(number: Column, negative: Column) -> Column:
    hexed = F.hex(number)
    magnitude = F.when(negative, F.translate(hexed, "0123456789ABCDEF", "FEDCBA9876543210")).otherwise(hexed)
    padded = F.lpad(magnitude, 2 * _BYTES, "0")
    parts = (F.substring(padded, 2 * at + 1, 2 * _TRIPLE) for at in range(0, _BYTES, _TRIPLE))
    groups = F.array(*(F.conv(part, 16, 10).try_cast("bigint") for part in parts))
    limbs = _fold(groups, 1 << (8 * _TRIPLE), _DECIMAL, _DECIMAL_LIMBS)
    limbs = _step(limbs, 1, F.when(negative, 1).otherwise(0), _DECIMAL)
    texts = F.transform(F.reverse(limbs), lambda limb: F.lpad(limb.cast("string"), _DECIMAL_DIGITS, "0"))
    return F.ltrim(F.array_join(texts, ""), F.lit("0"))


def _fold(groups: Column, base: int, limb: int, count: int) -> Column:
    """Return a number given as groups in `base`, the highest first, as `count` limbs below `limb`, the lowest first."""
    zero = F.array_repeat(F.lit(0).cast("bigint"), count)
    return F.aggregate(groups, zero, lambda limbs, group: _step(limbs, base, group, limb))


def _step(limbs: Column, factor: int, addend: Column, limb: int) -> Column:
    """Return limbs * factor + addend."""

    def carry(state: Column, part: Column) -> Column:
        total = part * F.lit(factor).cast("bigint") + state["carry"]
        rest = F.pmod(total, F.lit(limb).cast("bigint"))
        return F.struct(
            F.concat(state["done"], F.array(rest)).alias("done"),
            F.call_function("div", total - rest, F.lit(limb).cast("bigint")).alias("carry"),
        )

    start = F.struct(F.array().cast("array<bigint>").alias("done"), addend.cast("bigint").alias("carry"))
    return F.aggregate(limbs, start, carry)["done"]


def _hex(limbs: Column) -> Column:
    return F.array_join(F.transform(F.reverse(limbs), lambda limb: F.lpad(F.hex(limb), 6, "0")), "")
