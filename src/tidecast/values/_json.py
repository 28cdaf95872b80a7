"""Values as JSON text."""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import TEXT, joined, null_where, valid
from tidecast.values._decimals import decimal_text
from tidecast.values._reals import shortest_text

_ESCAPED = '["\\\\\x00-\x1f]'
_QUOTE = pa.scalar('"', TEXT)


def json_string(text: pa.Array, escaped: str = _ESCAPED, quote: Callable[[str], str] | None = None) -> pa.Array:
    """Return texts as JSON strings; null stays null.

    `escaped` is a regular expression that finds texts with a character which is not written as it is; `quote` writes
    such a text, by default as JSON asks for it and no more.
    """
    whole = null_where(joined([_QUOTE, text, _QUOTE], TEXT), ~valid(text))
    odd = np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(text, escaped), False)))
    if not odd.size:
        return whole
    write = quote or _quoted
    return pc.replace_with_mask(
        whole, pa.array(_mask(odd, len(text))), pa.array([write(t) for t in text.take(pa.array(odd)).to_pylist()], TEXT)
    )


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _mask(rows: np.ndarray, count: int) -> np.ndarray:
    mask = np.zeros(count, bool)
    mask[rows] = True
    return mask


def json_value(column: pa.Array) -> pa.Array:
    """Return the values of a column (see `arrow_type`) as JSON: numbers, strings, bytes in base64; null as `null`."""
    kind = column.type
    if pa.types.is_floating(kind):
        text = shortest_text(column)
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        text = decimal_text(column) if pa.types.is_decimal(kind) else column.cast(TEXT)
    elif kind == TEXT:
        text = json_string(column)
    else:
        encoded = [b if b is None else f'"{base64.b64encode(b).decode()}"' for b in column.to_pylist()]
        text = pa.array(encoded, TEXT)
    return pc.fill_null(text, "null")


def json_object(names: list[str], columns: list[pa.Array]) -> pa.Array:
    """Return a JSON object per row, with these members."""
    parts: list[pa.Array | pa.Scalar] = []
    for name, column in zip(names, columns, strict=True):
        parts += [pa.scalar(f"{',' if parts else '{'}{_quoted(name)}:", TEXT), json_value(column)]
    return joined([*parts, pa.scalar("}", TEXT)], TEXT)
