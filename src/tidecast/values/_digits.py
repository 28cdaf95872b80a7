"""The texts of values that are written in digits, and so need no escapes in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidecast.model import DataType, Kind
from tidecast.values._decimals import decimal_text
from tidecast.values._numbers import bit_number, enum_number, set_mask
from tidecast.values._reals import shortest_text

DIGITS: Mapping[Kind, Callable[[DataType, pa.Array], pa.Array]] = {
    Kind.INTEGER: lambda data_type, value: value,
    Kind.YEAR: lambda data_type, value: value,
    Kind.FLOAT: lambda data_type, value: shortest_text(value),
    Kind.DOUBLE: lambda data_type, value: shortest_text(value),
    Kind.DECIMAL: lambda data_type, value: decimal_text(value),
    Kind.ENUM: enum_number,
    Kind.SET: set_mask,
    Kind.BIT: lambda data_type, value: bit_number(value),
}
"""By kind, what makes the text, or a number whose text it is. ENUM and SET are numbers."""
