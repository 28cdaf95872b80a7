"""The row checksum of one row in Python: the twin of `_bytes`, `_row` and `_verdict`.

Source: Avro protocol, row checksum, corrupted rows.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidecast.checksum._row import taking_part
from tidecast.checksum._verdict import Verdict
from tidecast.model import DataType, Kind, TableSchema
from tidecast.plain import Value, float_from, need

_UINT64 = 1 << 64
_MOST_SHORT = 255
_WORD = 8
_VECTOR = re.compile(r"\[((?:[^,\[\]]+(?:,[^,\[\]]+)*)?)\]")


@dataclass(frozen=True)
class PlainVerdict:
    """The verdict on a row; see `tidecast.checksum.verdict`."""

    verdict: Verdict
    expected: int | None
    actual: int | None


def plain_bytes(data_type: DataType, value: Value) -> bytes | None:
    """Return the bytes that a value of the model gives to the checksum, None for NULL and for a type without part.

    Raises TakesSpark for a value outside of its column's type.
    """
    make = _MAKERS.get(data_type.kind)
    return None if make is None or value is None else make(data_type, value)


def plain_explain(schema: TableSchema, row: Mapping[str, Value]) -> dict[str, bytes | None]:
    """Return the bytes of the columns that take part, in the checksum's order; see `tidecast.checksum.explain`."""
    return {c.name: plain_bytes(c.data_type, row[c.name]) for c in taking_part(schema)}


def plain_verdict(schema: TableSchema, row: Mapping[str, Value] | None, expected: int | None) -> PlainVerdict:
    """Return the verdict on a row whose checksum is expected to be this."""
    if row is None:
        return PlainVerdict(Verdict.NONE, expected, None)
    actual = zlib.crc32(b"".join(filter(None, plain_explain(schema, row).values())))
    if expected is None:
        return PlainVerdict(Verdict.NONE, None, actual)
    if not expected:
        return PlainVerdict(Verdict.ZERO, 0, actual)
    return PlainVerdict(Verdict.MATCH if expected == actual else Verdict.MISMATCH, expected, actual)


def _integer(data_type: DataType, value: Any) -> bytes:
    return bytes((value % _UINT64).to_bytes(_WORD, "little"))


def _real(data_type: DataType, value: Any) -> bytes:
    return struct.pack("<d", value if math.isfinite(value) else 0.0)


def _text(data_type: DataType, value: Any) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(content)) + content


def _short_text(data_type: DataType, value: Any) -> bytes:
    need(len(value.encode()) <= _MOST_SHORT, "a text too long for its type")
    return _text(data_type, value)


def _decimal(data_type: DataType, value: Any) -> bytes:
    return _short_text(data_type, value if isinstance(value, str) else format(value, "f"))


def _as_listed(data_type: DataType, parts: list[str]) -> list[str]:
    """See `tidecast.expressions.as_listed`."""
    if any("'" in e for e in data_type.elements) and not {*parts} <= {*data_type.elements}:
        return [part.replace("\\'", "'").replace("''", "'") for part in parts]
    return parts


def _enum(data_type: DataType, value: Any) -> bytes:
    (element,) = _as_listed(data_type, [value])
    if element in data_type.elements:
        return _integer(data_type, data_type.elements.index(element) + 1)
    need(element == "", "no element of its ENUM")
    return _integer(data_type, 0)


def _set(data_type: DataType, value: Any) -> bytes:
    mask = 0
    for element in _as_listed(data_type, value.split(",")) if value else []:
        need(element in data_type.elements, "no element of its SET")
        mask |= 1 << data_type.elements.index(element)
    return _integer(data_type, mask)


def _bit(data_type: DataType, value: Any) -> bytes:
    number = int.from_bytes(value, "big")
    need(number < _UINT64, "more than 64 bits")
    return _integer(data_type, number)


def _vector(data_type: DataType, value: Any) -> bytes:
    found = _VECTOR.fullmatch(value)
    need(found is not None, "no vector")
    numbers = [float_from(part) for part in found[1].split(",")] if found and found[1] else []
    return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)


_MAKERS: dict[Kind, Callable[[DataType, Any], bytes]] = {
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
