"""Avro's binary form, read for all messages of a batch at once: a field at a time, one position a message.

No length in a message is believed: positions never pass a message's end, and a message that lies about a length is
marked as bad. Source: Avro protocol, wire format.
"""

from __future__ import annotations

import numpy as np

Spans = tuple[np.ndarray, np.ndarray]
"""Where texts or bytes start, and how long they are."""

_MOST_SHIFT = 63
_LOW_BITS = 0x7F
_SECOND = 2
"""The byte of the second branch of a union; that of the first is 0."""


class Reader:
    """A position in each message. Every read moves all of them, or those of `rows`.

    `bad` marks the messages that end too early, or hold what their type does not have.
    """

    def __init__(self, data: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        self.data, self.at, self.end = data, start.copy(), end
        self.bad = np.zeros(len(start), bool)

    @property
    def count(self) -> int:
        """The number of messages."""
        return len(self.at)

    def _here(self, rows: np.ndarray | None) -> Spans:
        return (self.at, self.end) if rows is None else (self.at[rows], self.end[rows])

    def _move(self, rows: np.ndarray | None, at: np.ndarray, wrong: np.ndarray) -> None:
        if rows is None:
            self.at = at
            self.bad |= wrong
        else:
            self.at[rows] = at
            self.bad[rows] |= wrong

    def long(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Read a number of 64 bits: int64."""
        at, end = self._here(rows)
        byte = self.data.take(at, mode="clip")
        value = (byte & _LOW_BITS).astype(np.uint64)
        at, more, shift = at + 1, np.flatnonzero(byte & 0x80), 7
        while more.size and shift <= _MOST_SHIFT:  # only the rows that go on
            byte = self.data.take(at[more], mode="clip")
            value[more] |= (byte & _LOW_BITS).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more, shift = more[(byte & 0x80) != 0], shift + 7
        wrong = at > end
        wrong[more] = True
        self._move(rows, np.minimum(at, end), wrong)
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def integer(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Read a number of 32 bits: int64."""
        value = self.long(rows)
        wrong = value != value.astype(np.int32)
        if wrong.any():
            self.bad[wrong if rows is None else rows[wrong]] = True
        return value

    def _fixed(self, width: int, kind: str, rows: np.ndarray | None) -> np.ndarray:
        at, end = self._here(rows)
        places = at[:, None] + np.arange(width)
        value: np.ndarray = self.data.take(places, mode="clip").reshape(-1, width).copy().view(kind).ravel()
        self._move(rows, np.minimum(at + width, end), at + width > end)
        return value

    def double(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Read a float64."""
        return self._fixed(8, "<f8", rows)

    def single(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Read a float32."""
        return self._fixed(4, "<f4", rows)

    def boolean(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Read a byte that is 0 or 1: bool."""
        value = self._fixed(1, "u1", rows)
        wrong = value > 1
        self.bad[wrong if rows is None else rows[wrong]] = True
        return value.astype(bool)

    def span(self, rows: np.ndarray | None = None) -> Spans:
        """Pass over a text or bytes, and return where they lie."""
        length = self.long(rows)
        at, end = self._here(rows)
        wrong = (length < 0) | (length > end - at)
        length = np.where(wrong, 0, length)
        self._move(rows, at + length, wrong)
        return at, length

    def branch(self, null: int) -> np.ndarray | None:
        """Read the branch of a union of null and one type: the rows with a value, None where all have one."""
        first = self.data.take(self.at, mode="clip")
        self.bad |= (first > _SECOND) | (first & 1 != 0) | (self.at >= self.end)
        self.at = np.minimum(self.at + 1, self.end)
        rows = np.flatnonzero(first != null * _SECOND)
        return None if len(rows) == self.count else rows
