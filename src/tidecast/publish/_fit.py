"""The stage that makes messages fit: compression, and the ways for one that is too large.

Source: Simple protocol, large messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast._errors import EncodeError
from tidecast.config import ChangefeedConfig
from tidecast.protocols import Message, protocol_named
from tidecast.topics import TopicInfo, claim_location, compress, store_claims
from tidecast.values import BYTES, TEXT, null_where, nulls, spread, to_numpy, valid

_OVERHEAD = 36
"""What TiCDC adds to key and value for a message's own bytes."""
_LIMIT_MARGIN = 128
"""How much smaller than its topic allows TiCDC keeps a message."""

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
    `large-message-handle-option`; `storage` is the claim check's, as its readers are told of it, where `raw_claims`
    lie as values alone. `reducible` tells that the protocol has forms for large messages.
    """

    limit: int
    compression: str
    compressed: tuple[str, ...]
    handle: str
    storage: str
    raw_claims: bool
    reducible: bool

    @classmethod
    def of(cls, config: ChangefeedConfig, default_topic: TopicInfo) -> Fitting:
        """Return how messages are made to fit into a changefeed's topics."""
        large, protocol = config.large_message_handle, protocol_named(config.protocol)
        allowed = default_topic.max_message_bytes
        return cls(
            limit=min(config.max_message_bytes, allowed - _LIMIT_MARGIN) if allowed else config.max_message_bytes,
            compression=large.large_message_handle_compression if protocol.compressed else "none",
            compressed=protocol.compressed,
            handle=large.large_message_handle_option,
            storage=large.claim_check_storage_uri.get_secret_value(),
            raw_claims=large.claim_check_raw_value,
            reducible=protocol.large_messages(config.codec_options()),
        )

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

    def size_of(self, message: Message) -> int:
        """Return the length of a message as TiCDC counts it."""
        key, value = message
        return _OVERHEAD + len(key or b"") + len(value)

    def too_large(self, table: str, length: int, where: str) -> EncodeError:
        """Return the error for a message that no form makes fit."""
        other = ", or set large-message-handle-option" if self.reducible else ""
        return EncodeError(
            f"message is too large. table:{table}, length:{length}, maxMessageBytes:{self.limit}",
            code="CDC:ErrMessageTooLarge",
            where=where,
            hint=f"raise max-message-bytes in the sink URI{other}",
        )

    def store(self, fitted: DataFrame) -> None:
        """Put the whole of those messages whose reduced form leaves into the claim check's storage."""
        store_claims(fitted.where(F.col("location").isNotNull()), self.storage, raw=self.raw_claims)

    def _packed(self, part: str, content: pa.Array) -> pa.Array:
        if self.compression == "none" or part not in self.compressed:
            return content
        return pa.array([c if c is None else compress(c, self.compression) for c in content.to_pylist()], BYTES)


def _size(key: pa.Array, value: pa.Array) -> np.ndarray:
    """Return the length of messages as TiCDC counts it, for the comparison with max-message-bytes."""
    size: np.ndarray = to_numpy(pc.binary_length(key)) + to_numpy(pc.binary_length(value)) + _OVERHEAD
    return size
