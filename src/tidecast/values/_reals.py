"""Text of floats and doubles as TiDB writes them: the shortest digits that are the number, never an exponent."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import TEXT


def shortest_text(column: pa.Array) -> pa.Array:
    """Return the shortest digits that are this very number when read again, never with an exponent.

    In: float32 or float64. Out: text, such as `0.1`, `-3` or `100000000000000000000`. NaN and the infinities, which
    MySQL does not have, are `NaN`, `Infinity` and `-Infinity`.
    """
    text = column.cast(TEXT)
    odd = np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(text, "e|n"), False)))
    if not odd.size:
        return text
    written = text.to_pylist()
    for row in odd:
        written[row] = _written_out(written[row])
    return pa.array(written, TEXT)


_NAMED = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _written_out(text: str) -> str:
    return _NAMED.get(text) or format(Decimal(text), "f")
