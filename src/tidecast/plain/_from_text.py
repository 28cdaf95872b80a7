"""Values of the model from the text that MySQL shows of them. The twin of `tidecast.expressions.from_text`."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import TypeAlias

from tidecast.model import MAX_DECIMAL_PRECISION, DataType, Kind, bit_width
from tidecast.plain._reals import float_from, real_of
from tidecast.plain._takes_spark import need

Value: TypeAlias = int | float | Decimal | str | bytes | None
"""A value of the model in Python; see `tidecast.model.spark_type`."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,19}")
_PLAIN = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")
_UINT64 = 1 << 64
_EXACT = Context(prec=100)


def from_text(data_type: DataType, text: str) -> Value:
    """Return a value of the model from its text. Raises TakesSpark for a text that is not as TiDB writes it."""
    return _READERS.get(data_type.kind, _as_is)(data_type, text)


def checked_integer(data_type: DataType, number: int) -> int:
    """Return a number that the type of Spark's which holds such columns has. Raises TakesSpark for another one."""
    low, high = 0, _UINT64
    if not is_uint64(data_type):
        wide = data_type.mysql_type == "bigint" or (data_type.mysql_type == "int" and data_type.unsigned)
        high = 1 << (63 if wide else 31)
        low = -high
    need(low <= number < high, "a number out of its range")
    return number


def checked_decimal(data_type: DataType, number: Decimal) -> Decimal:
    """Return a number with all digits of its scale. Raises TakesSpark for one that has more, or more in all."""
    scaled = number.scaleb(data_type.decimal, _EXACT)
    whole = int(scaled)
    need(scaled == whole and abs(whole) < 10**data_type.length, "more digits than its column has")
    return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -data_type.decimal))


def is_narrow(data_type: DataType) -> bool:
    """Tell whether the model holds a DECIMAL as a number, and not as text."""
    return 0 < data_type.length <= MAX_DECIMAL_PRECISION


def is_uint64(data_type: DataType) -> bool:
    """Tell whether a type is BIGINT UNSIGNED."""
    return data_type.mysql_type == "bigint" and data_type.unsigned


def _as_is(data_type: DataType, text: str) -> str:
    return text


def _whole(text: str) -> int:
    need(_WHOLE.fullmatch(text) is not None, "no whole number")
    return int(text)


def _unsigned(text: str) -> int:
    number = _whole(text)
    need(0 <= number < _UINT64, "no unsigned number")
    return number


def _integer(data_type: DataType, text: str) -> int:
    return checked_integer(data_type, _whole(text))


def _decimal(data_type: DataType, text: str) -> Decimal | str:
    if not is_narrow(data_type):
        return text
    need(_PLAIN.fullmatch(text) is not None, "no decimal number")
    return checked_decimal(data_type, Decimal(text))


def _bit(data_type: DataType, text: str) -> bytes:
    number, width = _unsigned(text), bit_width(data_type)
    need(number < 1 << 8 * width, "more bits than its column has")
    return number.to_bytes(width, "big")


def _enum(data_type: DataType, text: str) -> str:
    elements, number = ("", *data_type.elements), _unsigned(text)
    need(number < len(elements), "a number without element")
    return elements[number]


def _set(data_type: DataType, text: str) -> str:
    mask = _unsigned(text)
    need(mask < 1 << len(data_type.elements), "a bit of no element")
    return ",".join(e for n, e in enumerate(data_type.elements) if mask >> n & 1)


_READERS: dict[Kind, Callable[[DataType, str], Value]] = {
    Kind.INTEGER: _integer,
    Kind.YEAR: _integer,
    Kind.FLOAT: lambda data_type, text: float_from(text),
    Kind.DOUBLE: lambda data_type, text: real_of(text),
    Kind.DECIMAL: _decimal,
    Kind.BIT: _bit,
    Kind.ENUM: _enum,
    Kind.SET: _set,
}
