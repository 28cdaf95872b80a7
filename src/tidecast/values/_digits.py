"""The texts of values that are written in digits, and so need no escapes in JSON: as TiDB writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.model import DataType, Kind
from tidecast.values._arrow import TEXT, rewritten
from tidecast.values._decimals import decimal_text
from tidecast.values._numbers import bit_number, enum_number, set_mask


def shortest_text(column: pa.Array) -> pa.Array:
    """Return the shortest digits that are this very number when read again, never with an exponent.

    In: float32 or float64. Out: text, such as `0.1`, `-3` or `100000000000000000000`. NaN and the infinities, which
    MySQL does not have, are `NaN`, `Infinity` and `-Infinity`.
    """
    text = column.cast(TEXT)
    odd = np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(text, "e|n"), False)))
    return rewritten(text, odd, lambda number: _NAMED.get(number) or format(Decimal(number), "f"))


_NAMED = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

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
