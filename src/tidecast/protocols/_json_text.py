"""JSON text as TiCDC's encoders write it, to the byte: they differ in escapes and in exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

from tidecast.values import Quoting

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

ESCAPES = {chr(c): f"\\u{c:04x}" for c in range(0x20)}
ESCAPES |= {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
"""How TiCDC writes what JSON must escape: `\\u0008` and `\\u000c` where Go's own encoder has shorter escapes."""

_PLAIN_FROM, _PLAIN_TO = 1e-6, 1e21


def quoting(escapes: Mapping[str, str]) -> Quoting:
    """Return how texts become strings in which some characters are escaped."""
    table = str.maketrans(dict(escapes))
    return Quoting(bytes({c.encode()[0] for c in escapes}), lambda text: f'"{text.translate(table)}"')


Pieces = list[pa.Array | str]
"""Texts to be put one behind the other: one per row, or one for all."""


def members(values: Iterable[tuple[str, Pieces]], quote: Callable[[str], str]) -> Pieces:
    """Return an object with these members, each a name and its values in JSON."""
    pieces: Pieces = []
    for name, value in values:
        pieces += [f"{',' if pieces else '{'}{quote(name)}:", *value]
    return [*pieces, "}" if pieces else "{}"]


class JsonText(NamedTuple):
    """How JSON is written: `quote` makes strings of texts, `exponent` is the format of a number's exponent."""

    quote: Callable[[str], str]
    exponent: str

    def dumps(self, value: Json) -> str:
        """Return compact JSON, members in their given order."""
        match value:
            case float():
                return self._number(value)
            case str():
                return self.quote(value)
            case Sequence():
                return "[" + ",".join(map(self.dumps, value)) + "]"
            case Mapping():
                return "{" + ",".join(f"{self.quote(k)}:{self.dumps(v)}" for k, v in value.items()) + "}"
            case bool():
                return "true" if value else "false"
            case _:
                return "null" if value is None else str(value)

    def _number(self, value: float) -> str:
        """Return the shortest text that round-trips; an exponent only below 1e-6 and from 1e21 on."""
        plain = value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO
        return format(Decimal(repr(value)).normalize(), "f") if plain else with_exponent(repr(value), self.exponent)


def with_exponent(text: str, exponent: str) -> str:
    """Return a number in the form `-1.5e-7`, from the text of one that is far from 1. In: the exponent's format."""
    shortest = Decimal(text).normalize()
    digits = "".join(map(str, shortest.as_tuple().digits))
    mantissa = ".".join(filter(None, (digits[0], digits[1:])))
    return f"{'-' if shortest < 0 else ''}{mantissa}e{format(shortest.adjusted(), exponent)}"
