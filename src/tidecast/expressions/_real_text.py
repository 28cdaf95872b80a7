"""Text of floats and doubles as TiDB writes them: the shortest digits that are the number, and never an exponent."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.expressions._text import trimmed
from tidecast.spark import active_java, called, let

_JAVA_IS_SHORTEST = 19
_NO_EXPONENT_FROM, _NO_EXPONENT_TO = 1e-2, 1e7
_AMOUNTS = {1e9: 6, 1e13: 2}
"""Below which numbers how many digits after the point make 15 digits or fewer in all."""


@dataclass(frozen=True)
class _Binary:
    """A binary floating point type.

    Up to `unique` digits no two numbers share a text, `enough` tell any two apart. Numbers below `one_digit` may be
    told by one digit where another text of two is nearer to them.
    """

    name: str
    smallest_normal: float
    unique: int
    enough: int
    one_digit: float


_FLOAT = _Binary("float", 2.0**-126, 6, 9, 2e-43)
_DOUBLE = _Binary("double", 2.0**-1022, 15, 17, 2e-322)
_DIGITS = 18
_WHOLE_FROM, _WHOLE_TO, _HALF = 2.0**53, 2.0**85, 2.0**42


def shortest_text(column: Column, is_float: bool) -> Column:
    """Return the shortest digits that are this very number when read again, never with an exponent.

    In: float or double. Out: string, such as `0.1`, `-3` or `100000000000000000000`. Of several shortest texts it
    is the one nearest to the number. NaN and infinities, which MySQL does not have, come as Spark writes them.

    Java writes the shortest digits since version 19 (JDK-4511638), which is 2.1 times as fast as the search for them
    that older ones need. The search can go when Spark asks for Java 19.
    """
    return java_text(column, is_float) if active_java() >= _JAVA_IS_SHORTEST else searched_text(column, is_float)


def java_text(column: Column, is_float: bool) -> Column:
    """Return `shortest_text` from the text that Java gives; for Java 19 and later."""
    binary, java = _FLOAT if is_float else _DOUBLE, column.cast("string")
    written = F.concat(_sign(column), _without_exponent(F.abs(column), binary))
    return _common(column, java, binary).when(java.contains("E"), written).otherwise(trimmed(java))


def searched_text(column: Column, is_float: bool) -> Column:
    """Return `shortest_text` in any Java."""
    # Java 17 writes some numbers with a digit too many, or the last digit off by one, but none without an exponent.
    binary, java = _FLOAT if is_float else _DOUBLE, column.cast("string")
    searched = F.concat(_sign(column), called(_search(binary), F.abs(column)))
    return _common(column, java, binary).when(java.contains("E"), searched).otherwise(trimmed(java))


def _common(number: Column, java: Column, binary: _Binary) -> Column:
    """Return the text of most numbers, null for the rest: 6.6 times as fast as a search for it."""
    # Java writes no exponent here, and no zero at the end but for whole numbers.
    magnitude, whole = F.abs(number), number.try_cast("bigint")
    common = (magnitude >= _NO_EXPONENT_FROM) & (magnitude < _NO_EXPONENT_TO)
    text = F.when(common & (whole.cast(binary.name) == number), whole.cast("string")).when(common, java)
    # No two decimals of so few digits are the same double, so that one which is this double is the shortest.
    for below, scale in _AMOUNTS.items() if binary is _DOUBLE else ():
        amount = number.try_cast(f"decimal({binary.unique},{scale})")
        same = (magnitude >= _NO_EXPONENT_TO) & (magnitude < below) & (amount.cast("double") == number)
        text = text.when(same, F.rtrim(F.rtrim(amount.cast("string"), F.lit("0")), F.lit(".")))
    return text


def _sign(number: Column) -> Column:
    return F.when(number < 0, "-").otherwise("")


def _without_exponent(number: Column, binary: _Binary) -> Column:
    """Return the text of a positive number, which Java writes with an exponent, without one."""
    java = number.cast("string")
    digits = F.rtrim(F.replace(F.substring_index(java, "E", 1), F.lit("."), F.lit("")), F.lit("0"))
    power = F.substring_index(java, "E", -1).try_cast("int")

    def small(digits: Column, places: Column) -> Column:
        return F.concat(F.lit("0."), F.rtrim(F.lpad(digits, places, F.lit("0")), F.lit("0")))

    # Java writes two digits at least, those nearest to the number, where one may do.
    one = small(F.call_function("div", digits.try_cast("int") + 5, F.lit(10)).cast("string"), -power)
    is_one = (number < F.lit(binary.one_digit).cast(binary.name)) & (one.try_cast(binary.name) == number)
    rest = F.substr(digits, power + 2, F.lit(_DIGITS))
    whole = F.concat(
        F.rpad(F.left(digits, power + 1), power + 1, F.lit("0")), F.when(rest != "", ".").otherwise(""), rest
    )
    return F.when(power > 0, whole).when(is_one, one).otherwise(small(digits, F.length(digits) - 1 - power))


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
