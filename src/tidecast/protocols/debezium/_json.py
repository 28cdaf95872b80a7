"""JSON text as TiCDC's Debezium encoder writes it. Source: Debezium protocol, JSON text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from tidecast.values import Quoting

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

_BACKSLASH, _QUOTE = ("\\", "\\\\"), ('"', '\\"')
_CONTROLS = {chr(c): f"\\u{c:04x}" for c in range(0x20)} | {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSAFE = {*_CONTROLS, "\\", '"'}
_ESCAPES = str.maketrans(_CONTROLS | dict([_BACKSLASH, _QUOTE]))

_PLAIN_FROM, _PLAIN_TO = 1e-6, 1e21


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
