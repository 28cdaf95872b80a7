"""JSON text as TiCDC's schemas are written, to the byte. Source: Avro protocol, schema serialisation."""

from __future__ import annotations

import json
from decimal import Decimal

from tidecast._go import to_json

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def dumps(value: Json) -> str:
    """Return compact JSON, members in their given order, with the escapes and the number forms of TiCDC."""
    match value:
        case float():
            return _number(value)
        case str():
            return to_json(value)
        case list():
            return "[" + ",".join(map(dumps, value)) + "]"
        case dict():
            return "{" + ",".join(f"{dumps(k)}:{dumps(v)}" for k, v in value.items()) + "}"
        case _:
            return json.dumps(value)


def _number(value: float) -> str:
    """Return the shortest text that round-trips; an exponent only below 1e-6 and from 1e21 on."""
    shortest = Decimal(repr(value)).normalize()
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return format(shortest, "f")
    digits = "".join(map(str, shortest.as_tuple().digits))
    mantissa = ".".join(filter(None, (digits[0], digits[1:])))
    return f"{'-' if value < 0 else ''}{mantissa}e{shortest.adjusted():+d}"
