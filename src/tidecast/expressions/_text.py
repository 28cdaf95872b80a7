"""Text: numbers as TiDB writes them, plain digits and never an exponent; what characters a text holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import MAX_DECIMAL_PRECISION
from tidecast.spark import called, let

MAX_LENGTH = (1 << 31) - 1
"""More characters or bytes than any text has: a length for what is left of one."""

_PLAIN_SCALE = 6
_NO_EXPONENT_FROM, _NO_EXPONENT_TO = 1e-2, 1e7
_AMOUNTS = {1e9: 6, 1e13: 2}
"""Below which numbers how many digits after the point make 15 digits or fewer in all."""
_BYTE = 0x100


@dataclass(frozen=True)
class _Binary:
    """A binary floating point type: up to `unique` digits no two numbers share a text, `enough` tell any two apart."""

    name: str
    smallest_normal: float
    unique: int
    enough: int


_FLOAT = _Binary("float", 2.0**-126, 6, 9)
_DOUBLE = _Binary("double", 2.0**-1022, 15, 17)
_DIGITS = 18
_WHOLE_FROM, _WHOLE_TO, _HALF = 2.0**53, 2.0**85, 2.0**42


def decimal_text(column: Column, precision: int, scale: int) -> Column:
    """Return a DECIMAL(precision, scale) of the model as text with all digits of its scale, never an exponent.

    In: decimal(precision, scale), or string where the model holds the column as text (see `spark_type`), which
    comes back as it is. Out: string, such as `-12.500` or `0.0000000`.
    """
    if not 0 < precision <= MAX_DECIMAL_PRECISION:
        return column
    text = column.cast("string")
    if scale <= _PLAIN_SCALE:
        return text
    # Without ANSI, Spark writes decimals below a millionth with an exponent; one plus such a number has none.
    # Neither `abs` nor a minus sign before the cast: Spark rounds what they give to 34 digits.
    least, most = (F.lit(bound).cast("decimal(7,6)") for bound in ("-0.000001", "0.000001"))
    tiny = (column > least) & (column < most)
    one_more = F.abs(column.try_cast(f"decimal({scale + 1},{scale})")) + F.lit(1).cast("decimal(1,0)")
    plain = F.concat(F.when(column < 0, "-0").otherwise("0"), F.substring(one_more.cast("string"), 2, scale + 1))
    return F.when(tiny, plain).otherwise(text)


def shortest_text(column: Column, is_float: bool) -> Column:
    """Return the shortest digits that are this very number when read again, never with an exponent.

    In: float or double. Out: string, such as `0.1`, `-3` or `100000000000000000000`. Of several shortest texts it
    is the one nearest to the number. NaN and infinities, which MySQL does not have, come as Spark writes them.
    """
    # Java 17 writes some numbers with a digit too many, or the last digit off by one, but none without an exponent.
    java, magnitude = column.cast("string"), F.abs(column)
    sign = F.when(column < 0, "-").otherwise("")
    binary = _FLOAT if is_float else _DOUBLE
    searched = F.concat(sign, called(_search(binary), magnitude))
    # Most numbers are in this range, where Java writes no exponent, and no zero at the end but for whole numbers.
    common = (magnitude >= _NO_EXPONENT_FROM) & (magnitude < _NO_EXPONENT_TO)
    whole = column.try_cast("bigint")
    text = F.when(common & (whole.cast(binary.name) == column), whole.cast("string")).when(common, java)
    # No two decimals of so few digits are the same double, so that one which is this double is the shortest.
    for below, scale in () if is_float else _AMOUNTS.items():
        amount = column.try_cast(f"decimal({_DOUBLE.unique},{scale})")
        same = (magnitude >= _NO_EXPONENT_TO) & (magnitude < below) & (amount.cast("double") == column)
        text = text.when(same, F.rtrim(F.rtrim(amount.cast("string"), F.lit("0")), F.lit(".")))
    return text.when(java.contains("E"), searched).otherwise(trimmed(java))


def trimmed(text: Column) -> Column:
    """Return the text of a decimal number without the zeros that end its fraction; it must have a point."""
    return F.when(text.endswith("0"), F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))).otherwise(text)


def has_any(text: Column, characters: Iterable[str]) -> Column:
    """Tell whether a text holds any of some characters. In: string. Out: boolean, null for null.

    Java's regular expressions look a character up in one table where all of a class are below 256, and else try each
    range in turn, which takes several times as long; a search for a whole text is faster than either.
    """
    low = "".join(f"\\x{ord(c):02x}" for c in sorted(characters) if ord(c) < _BYTE)
    found = [text.contains(c) for c in sorted(characters) if ord(c) >= _BYTE]
    if low:
        found.insert(0, ~text.rlike(rf"^[^{low}]*+\z"))
    return reduce(or_, found, F.lit(False))


def _search(binary: _Binary) -> str:
    """Return the function from a positive number to its shortest text: its digits are rounded and read again."""
    seed = f"IF(number >= {_WHOLE_FROM}D AND number < {_WHOLE_TO}D, {_whole_digits('number')}, {_digits('number')})"
    units = f"IF(number < {binary.smallest_normal}D, {_units(1, binary)}, {_units(binary.unique, binary)})"
    roundings = f"flatten(transform({units}, unit -> {_roundings('seed.digits', 'unit')}))"
    read = f"try_cast(concat(CAST(rounded AS STRING), 'E', CAST(seed.exponent AS STRING)) AS {binary.name})"
    found = f"CAST(get(filter({roundings}, rounded -> {read} = number), 0) AS STRING)"
    return "number -> " + let("seed", seed, let("digits", found, _plain("digits", "seed.exponent")))


def _digits(number: str) -> str:
    """Return `digits` and `exponent` of a number as Java writes it."""
    digits = f"CAST(concat(left(written, 1), substring(written, 3, {_DIGITS - 1})) AS BIGINT)"
    exponent = f"CAST(substring(written, {_DIGITS + 3}, 5) AS INT) - {_DIGITS - 1}"
    written = f"format_string('%.{_DIGITS - 1}e', CAST({number} AS DOUBLE))"
    return let("written", written, f"named_struct('digits', {digits}, 'exponent', {exponent})")


def _whole_digits(number: str) -> str:
    """Return `digits` and `exponent` of a whole number in the range where Java's digits are not good enough.

    A digit 0 or 5 that is not exact is raised by one, so that rounding sees that it is no tie.
    """
    high = f"CAST({number} / {_HALF}D AS BIGINT)"
    low = f"CAST(CAST({number} AS DOUBLE) - CAST({high} AS DOUBLE) * {_HALF}D AS BIGINT)"
    half = f"CAST({int(_HALF)} AS DECIMAL(13, 0))"
    exact = f"CAST(CAST({high} AS DECIMAL(20, 0)) * {half} + CAST({low} AS DECIMAL(20, 0)) AS STRING)"
    digits = f"CAST(rpad(left(exact, {_DIGITS}), {_DIGITS}, '0') AS BIGINT)"
    inexact = f"length(trim(TRAILING '0' FROM exact)) > {_DIGITS} AND {digits} % 5 = 0"
    raised = f"{digits} + IF({inexact}, 1, 0)"
    return let("exact", exact, f"named_struct('digits', {raised}, 'exponent', length(exact) - {_DIGITS})")


def _units(fewest: int, binary: _Binary) -> str:
    """Return the array of the units to which `_DIGITS` digits are rounded to keep `fewest` or more of them."""
    return f"array({', '.join(f'{10 ** (_DIGITS - n)}L' for n in range(fewest, binary.enough + 1))})"


def _roundings(digits: str, unit: str) -> str:
    """Return the two multiples of `unit` around `digits`, the nearer one first."""
    rest = f"({digits} % {unit})"
    below, above = f"({digits} - {rest})", f"({digits} - {rest} + {unit})"
    down = f"{rest} * 2 < {unit} OR ({rest} * 2 = {unit} AND {below} % ({unit} * 2) = 0)"
    return f"IF({down}, array({below}, {above}), array({above}, {below}))"


def _plain(digits: str, exponent: str) -> str:
    """Return `digits` times a power of ten without trailing zeros after the point."""
    padded = f"lpad({digits}, greatest(length({digits}), 1 - {exponent}), '0')"
    pointed = f"concat(left(padded, length(padded) + {exponent}), '.', right(padded, -{exponent}))"
    fraction = let("padded", padded, f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {pointed}))")
    return f"IF({exponent} >= 0, concat({digits}, repeat('0', {exponent})), {fraction})"
