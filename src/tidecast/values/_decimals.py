"""Decimals: as text with all digits of their scale, and as the big-endian bytes of their unscaled number."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.values._arrow import BYTES, TEXT, content_of, gather, joined, null_where, numbers, valid

_PLAIN_SCALE = 6
"""Up to which scale Arrow writes no decimal with an exponent."""
_WIDTH = 16
_EXACT = Context(prec=100)
_MOST_DIGITS = 65


def decimal_text(column: pa.Array) -> pa.Array:
    """Return decimals as text with all digits of their scale, such as `-12.500`; text comes back as it is."""
    if not pa.types.is_decimal(column.type):
        return column
    scale = column.type.scale
    if scale <= _PLAIN_SCALE:
        return column.cast(TEXT)
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(column), column.buffers(), offset=column.offset)
    digits = whole.cast(TEXT)
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "").cast(TEXT)
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    text = joined(
        [
            sign,
            pc.utf8_slice_codeunits(padded, 0, -scale),
            pa.scalar(".", TEXT),
            pc.utf8_slice_codeunits(padded, -scale),
        ],
        TEXT,
    )
    return null_where(text, ~valid(column))


def decimal_of_bytes(data: pa.Array, precision: int, scale: int) -> pa.Array:
    """Return the decimals whose unscaled numbers are these big-endian two's complements.

    Out: decimal128, or text beyond 38 digits and where `precision` is 0, as nobody knows it. Null for an empty number,
    and for one with more digits than `precision`.
    """
    if not 0 < precision <= pa.decimal128(38).precision:
        return pa.array([_wide_text(value, precision, scale) for value in data.to_pylist()], TEXT)
    length = np.asarray(pc.fill_null(pc.binary_length(data), 0))
    source, offsets = content_of(data)
    # The number's bytes end at the right edge of 16; those before them repeat its sign.
    places = offsets[1:, None] - _WIDTH + np.arange(_WIDTH)
    matrix = source.take(places, mode="clip")
    negative = source.take(offsets[:-1], mode="clip") >= 0x80
    outside = np.arange(_WIDTH) < (_WIDTH - length)[:, None]
    matrix = np.where(outside, np.where(negative, 0xFF, 0)[:, None], matrix).astype(np.uint8)
    there = valid(data) & (length > 0) & (length <= _WIDTH)
    there &= _within(matrix, precision)
    return numbers(matrix[:, ::-1], there, pa.decimal128(precision, scale))


def _within(matrix: np.ndarray, precision: int) -> np.ndarray:
    """Return which 128-bit numbers have no more digits than `precision`."""
    high = matrix[:, :8].copy().view(">i8").ravel().astype(np.int64)
    low = matrix[:, 8:].copy().view(">u8").ravel().astype(np.uint64)
    limit = 10**precision - 1
    top, bottom = limit >> 64, np.uint64(limit & (2**64 - 1))
    least, lowest = (-limit) >> 64, np.uint64(-limit & (2**64 - 1))
    not_above = (high < top) | ((high == top) & (low <= bottom))
    not_below = (high > least) | ((high == least) & (low >= lowest))
    within: np.ndarray = not_above & not_below
    return within


def _wide_text(value: bytes | None, precision: int, scale: int) -> str | None:
    if not value:
        return None
    unscaled = int.from_bytes(value, "big", signed=True)
    if abs(unscaled) >= 10 ** (precision or _MOST_DIGITS):
        return None
    return format(Decimal(unscaled).scaleb(-scale, _EXACT), "f")


def decimal_bytes(column: pa.Array, scale: int) -> pa.Array:
    """Return the shortest big-endian two's complement of each decimal's unscaled number.

    In: decimal128, or text, of which digits beyond `scale` are rounded down, as the Avro library of TiCDC does it.
    """
    if not pa.types.is_decimal(column.type):
        return pa.array([_wide_bytes(text, scale) for text in column.to_pylist()], BYTES)
    there = valid(column)
    raw = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * _WIDTH : (column.offset + len(column)) * _WIDTH]
    matrix = np.where(there[:, None], raw.reshape(-1, _WIDTH), 0)[:, ::-1].astype(np.uint8)
    sign = np.where(matrix[:, 0] >= 0x80, 0xFF, 0)[:, None]
    # A byte in front may go where it repeats the sign of the next one.
    idle = (matrix[:, :-1] == sign) & ((matrix[:, 1:] >= 0x80) == (sign == 0xFF))
    kept = _WIDTH - np.argmin(np.concatenate([idle, np.zeros((len(matrix), 1), bool)], axis=1), axis=1)
    ends = (np.arange(len(matrix)) + 1) * _WIDTH
    return gather(np.ascontiguousarray(matrix).ravel(), ends - kept, np.where(there, kept, 0), there)


def _wide_bytes(text: str | None, scale: int) -> bytes | None:
    if text is None:
        return None
    unscaled = int(Decimal(text).scaleb(scale, _EXACT).to_integral_value(ROUND_FLOOR))
    size = (unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()) // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)
