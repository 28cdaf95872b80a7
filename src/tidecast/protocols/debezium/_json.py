"""JSON text as TiCDC's Debezium encoder writes it, in Python and in Spark. Source: Debezium protocol, JSON text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.expressions import has_any, shortest_text
from tidecast.spark import called, sql_text
from tidecast.values import Quoting

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

_BACKSLASH, _QUOTE = ("\\", "\\\\"), ('"', '\\"')
_CONTROLS = {chr(c): f"\\u{c:04x}" for c in range(0x20)} | {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSAFE = {*_CONTROLS, "\\", '"'}
_ESCAPES = str.maketrans(_CONTROLS | dict([_BACKSLASH, _QUOTE]))

_PLAIN_FROM, _PLAIN_TO = 1e-6, 1e21
_LEAST_EXPONENT_DIGITS = 2


def dumps(value: Json) -> str:
    """Return compact JSON, members in their given order."""
    match value:
        case float():
            return _number(value)
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case Sequence():
            return "[" + ",".join(map(dumps, value)) + "]"
        case Mapping():
            return "{" + ",".join(f"{dumps(k)}:{dumps(v)}" for k, v in value.items()) + "}"
        case bool():
            return "true" if value else "false"
        case _:
            return "null" if value is None else str(value)


def _number(value: float) -> str:
    plain = value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO
    return format(Decimal(repr(value)).normalize(), "f") if plain else number_with_exponent(repr(value))


QUOTING = Quoting(bytes({character.encode()[0] for character in _UNSAFE}), dumps)
"""How texts of rows become strings."""


def number_with_exponent(text: str) -> str:
    """Return a number in the form `-1.5e-07`, from the text of one that is far from 1."""
    shortest = Decimal(text).normalize()
    digits = "".join(map(str, shortest.as_tuple().digits))
    mantissa = ".".join(filter(None, (digits[0], digits[1:])))
    return f"{'-' if shortest < 0 else ''}{mantissa}e{shortest.adjusted():+03d}"


def string(text: Column) -> Column:
    """Return text as a JSON string. Bytes that are no UTF-8 stay as they are."""
    escaped = text
    for character, escape in (_BACKSLASH, _QUOTE):
        escaped = F.replace(escaped, F.lit(character), F.lit(escape))
    wholly = called(f"text -> {_escaped('text')}", text)
    safe = F.when(~has_any(text, _UNSAFE), text).when(has_any(text, _CONTROLS), wholly).otherwise(escaped)
    return F.concat(F.lit('"'), safe, F.lit('"'))


def _escaped(text: str) -> str:
    """Return SQL that escapes all that a JSON string cannot show as it is."""
    for character, escape in [_BACKSLASH, _QUOTE, *_CONTROLS.items()]:
        text = f"replace({text}, {sql_text(character)}, {sql_text(escape)})"
    return text


def number(value: Column, is_float: bool) -> Column:
    """Return a float or double as a JSON number: the shortest digits, an exponent below 1e-6 and from 1e21 on."""
    magnitude, spark_type = F.abs(value), "float" if is_float else "double"
    low, high = (F.lit(bound).cast(spark_type) for bound in (_PLAIN_FROM, _PLAIN_TO))
    shortest = shortest_text(value, is_float)
    plain = (value == 0) | ((magnitude >= low) & (magnitude < high))
    return F.when(plain, shortest).otherwise(called(f"text -> {_with_exponent('text')}", shortest))


def _with_exponent(text: str) -> str:
    """Return SQL that writes a number in the form `-1.5e-07`, from the text of one that is far from 1."""
    unsigned = f"trim(LEADING '-' FROM {text})"
    digits = f"trim(LEADING '0' FROM replace({unsigned}, '.', ''))"
    whole = f"NOT contains({unsigned}, '.')"
    exponent = f"length({unsigned}) - 1 - IF({whole}, 0, length({digits}))"
    return (
        f"concat(IF(startswith({text}, '-'), '-', ''), "
        f"regexp_replace(trim(TRAILING '0' FROM {digits}), '^(.)(.+)$', '$1.$2'), "
        f"IF({whole}, 'e+', 'e-'), "
        f"lpad({exponent}, greatest(length({exponent}), {_LEAST_EXPONENT_DIGITS}), '0'))"
    )
