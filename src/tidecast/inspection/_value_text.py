"""A value of the model as text for people."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from tidecast.model import DataType
from tidecast.values import arrow_type, shortest_text

Value: TypeAlias = int | float | Decimal | str | bytes | None
"""A value of the model in Python; see `tidecast.values.arrow_type`."""


def value_text(data_type: DataType, value: Value) -> str | None:
    """Return a value as text, bytes as hexadecimal digits; null stays."""
    match value:
        case None | str():
            return value
        case bytes():
            return f"0x{value.hex().upper()}"
        case float():
            (text,) = shortest_text(pa.array([value], arrow_type(data_type))).to_pylist()
            return str(text)
        case int() | Decimal():
            return str(value)
