"""Messages made to fit: compression, and the ways for one that is too large.

Source: Simple protocol, large messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidecast.protocols import Message
from tidecast.topics import claim_location, compress
from tidecast.values import BYTES, TEXT, null_where, nulls, spread, to_numpy, valid

OVERHEAD = 36
"""What TiCDC adds to key and value for a message's own bytes."""

Reduced = Callable[[np.ndarray, pa.Array | None], pa.Array]
"""Makes values with the handle key alone, of the rows at some places, and where the whole ones lie."""


@dataclass(frozen=True)
class Fitted:
    """Messages in the form that fits: `key` and `value`, binary.

    `location` is where the whole of a message will lie, `whole` that, both null where it leaves as it is. `size` is
    the length of a message as TiCDC counts it.
    """

    key: pa.Array
    value: pa.Array
    location: pa.Array
    whole: pa.Array
    size: np.ndarray


@dataclass(frozen=True)
class Fitting:
    """How large a message may be, and what is done with a larger one.

    `limit` is in bytes. `compressed` are the parts that `compression` packs, key or value. `handle` is TiCDC's
    `large-message-handle-option`; `storage` is the claim check's, as its readers are told of it.
    """

    limit: int
    compression: str
    compressed: tuple[str, ...]
    handle: str
    storage: str

    def fit(self, key: pa.Array, whole: pa.Array, joined: int, reduced: Reduced) -> Fitted:
        """Choose the form of each message that fits: the whole one or the reduced one.

        In: keys and values, to which tails of `joined` bytes will be joined.
        """
        packed_key = self._packed("key", key)
        value = self._packed("value", whole)
        size = _size(packed_key, value) + joined
        location, claimed = nulls(len(value), TEXT), nulls(len(value), BYTES)
        large = np.flatnonzero((size > self.limit) & valid(whole))
        if self.handle == "none" or not large.size:
            return Fitted(packed_key, value, location, claimed, size)
        lies = None
        if self.handle == "claim-check":
            chosen = whole.take(pa.array(large)).to_pylist()
            lies = pa.array([claim_location(self.storage, one) for one in chosen], TEXT)
        small = self._packed("value", reduced(large, lies))
        there = valid(small)
        if lies is not None:
            location = spread(null_where(lies, ~there), large, len(value))
            claimed = null_where(value, ~valid(location))
        small = spread(small, large, len(value))
        value = pc.if_else(pc.is_valid(small), small, value)
        return Fitted(packed_key, value, location, claimed, _size(packed_key, value) + joined)

    def packed(self, message: Message) -> Message:
        """Return a message that is no row's as it leaves."""
        key, value = message
        if key is not None and "key" in self.compressed:
            key = compress(key, self.compression)
        return key, compress(value, self.compression)

    def _packed(self, part: str, content: pa.Array) -> pa.Array:
        if self.compression == "none" or part not in self.compressed:
            return content
        return pa.array([c if c is None else compress(c, self.compression) for c in content.to_pylist()], BYTES)


def _size(key: pa.Array, value: pa.Array) -> np.ndarray:
    """Return the length of messages as TiCDC counts it, for the comparison with max-message-bytes."""
    size: np.ndarray = to_numpy(pc.binary_length(key)) + to_numpy(pc.binary_length(value)) + OVERHEAD
    return size
