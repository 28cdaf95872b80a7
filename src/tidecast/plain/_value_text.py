"""A value of the model as Spark's cast to text shows it."""

from __future__ import annotations

from decimal import Decimal

from tidecast.model import DataType, Kind
from tidecast.plain._from_text import Value
from tidecast.plain._reals import real_text


def value_text(data_type: DataType, value: Value) -> str | None:
    """Return a value as text, bytes as hexadecimal digits; null stays."""
    match value:
        case None | str():
            return value
        case bytes():
            return f"0x{value.hex().upper()}"
        case float():
            return real_text(value, is_float=data_type.kind is Kind.FLOAT)
        case int() | Decimal():
            return str(value)
