"""Values as JSON text."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import TEXT, content_of, joined, null_where, valid
from tidecast.values._decimals import decimal_text
from tidecast.values._digits import shortest_text

_QUOTE = pa.scalar('"', TEXT)
_CONTROLS = bytes(range(0x20))


class Quoting(NamedTuple):
    """How texts become JSON strings: `quote` writes one that has any of the bytes `odd`, others stand as they are."""

    odd: bytes
    quote: Callable[[str], str]


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


PLAIN = Quoting(_CONTROLS + b'"\\', _quoted)
"""As JSON asks for it and no more."""


def json_string(text: pa.Array, quoting: Quoting = PLAIN) -> pa.Array:
    """Return texts as JSON strings; null stays null."""
    whole = null_where(joined([_QUOTE, text, _QUOTE], TEXT), ~valid(text))
    odd = _rows_with(text, quoting.odd)
    if not odd.size:
        return whole
    mask = np.zeros(len(text), bool)
    mask[odd] = True
    written = pa.array([quoting.quote(t) for t in text.take(pa.array(odd)).to_pylist()], TEXT)
    return pc.replace_with_mask(whole, pa.array(mask), written)


def _rows_with(text: pa.Array, odd: bytes) -> np.ndarray:
    """Return the rows whose text has any of some bytes."""
    data, offsets = content_of(text)
    found = _table(odd)[data[offsets[0] : offsets[-1]]]
    if not found.any():
        return np.zeros(0, np.int64)
    rows = np.unique(np.searchsorted(offsets, np.flatnonzero(found) + offsets[0], side="right") - 1)
    there: np.ndarray = rows[valid(text)[rows]]
    return there


@lru_cache(8)
def _table(odd: bytes) -> np.ndarray:
    table = np.zeros(256, bool)
    table[[*odd]] = True
    return table


def base64_text(column: pa.Array) -> pa.Array:
    """Return bytes in base64; null stays null."""
    return pa.array([b if b is None else base64.b64encode(b).decode() for b in column.to_pylist()], TEXT)


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
        text = json_string(base64_text(column))
    return pc.fill_null(text, "null")


def json_object(names: list[str], columns: list[pa.Array]) -> pa.Array:
    """Return a JSON object per row, with these members."""
    parts: list[pa.Array | pa.Scalar] = []
    for name, column in zip(names, columns, strict=True):
        parts += [pa.scalar(f"{',' if parts else '{'}{_quoted(name)}:", TEXT), json_value(column)]
    return joined([*parts, pa.scalar("}", TEXT)], TEXT)
