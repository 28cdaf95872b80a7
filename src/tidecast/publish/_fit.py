"""The stage that makes messages fit: compression, and what becomes of one that is too large.

Source: Simple protocol, large messages.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidecast._errors import EncodeError
from tidecast.config import ChangefeedConfig
from tidecast.protocols import ColumnCodec, Message, RoutedTable, protocol_named
from tidecast.publish._fitting import Fitting
from tidecast.spark import reused
from tidecast.topics import TopicInfo, claim_location, compress, compressed, store_claims

_OVERHEAD = 36
"""What TiCDC adds to key and value for a message's own bytes."""

_LIMIT_MARGIN = 128
"""How much smaller than its topic allows TiCDC keeps a message."""

_FORMS = {"key": ("key",), "value": ("whole", "reduced")}
"""The columns of an encoded row that hold a part of its message."""


class MessageSize:
    """How large a message may be in a changefeed's topics, and what is done with a larger one."""

    def __init__(self, config: ChangefeedConfig, default_topic: TopicInfo) -> None:
        large, protocol = config.large_message_handle, protocol_named(config.protocol)
        allowed = default_topic.max_message_bytes
        self.limit = min(config.max_message_bytes, allowed - _LIMIT_MARGIN) if allowed else config.max_message_bytes
        self._compression = large.large_message_handle_compression if protocol.compressed else "none"
        self._compressed = protocol.compressed
        self._handle = large.large_message_handle_option
        self._storage = large.claim_check_storage_uri.get_secret_value()
        self._raw_claims = large.claim_check_raw_value
        self._reducible = protocol.large_messages(config.codec_options())
        self._refuse_corrupted = config.integrity.corruption_handle_level == "error"

    def reduced(self, codec: ColumnCodec, table: RoutedTable) -> tuple[Column, Column]:
        """Return a row's reduced value and where the whole one will lie, null where the whole message surely fits.

        Reads the columns `message_key` and `message_value`, and those that the codec reads.
        """
        if self._handle == "none":
            return _nothing()
        key, whole = F.col("message_key"), F.col("message_value")
        # Under compression nobody knows yet whether a message is too large.
        doubtful = _size(key, whole) > self.limit if self._compression == "none" else whole.isNotNull()
        if self._handle != "claim-check":
            return F.when(doubtful, codec.reduced(table, None)), F.lit(None).cast("string")
        location = F.when(doubtful, claim_location(self._storage, whole))
        return F.when(doubtful, codec.reduced(table, location)), location

    @property
    def fitting(self) -> Fitting:
        """How messages of rows are made to fit."""
        return Fitting(self.limit, self._compression, self._compressed, self._handle, self._storage)

    @property
    def refuses_corrupted(self) -> bool:
        """Whether a row that its source found damaged ends the run."""
        return self._refuse_corrupted

    def fit(self, encoded: DataFrame, tails: Message) -> DataFrame:
        """Choose the form of each message that fits: the whole one or the reduced one.

        In: `ENCODED`, and the tails that will be joined to every key and value. Out: `FITTED`.
        """
        packed = [form for part in self._compressed for form in _FORMS[part]]
        encoded = compressed(encoded, packed, self._compression)
        joined = sum(map(len, filter(None, tails)))
        chosen, more = _fitting(self.limit, joined, refuse_corrupted=self._refuse_corrupted)
        return encoded.withColumns(chosen).withColumns(more).drop("reduced")

    def packed(self, message: Message) -> Message:
        """Return a message that is no row's as it leaves."""
        key, value = message
        if key is not None and "key" in self._compressed:
            key = compress(key, self._compression)
        return key, compress(value, self._compression)

    def packed_rows(self, frame: DataFrame) -> DataFrame:
        """Return messages that are no rows' as they leave, compressed."""
        return compressed(frame, self._compressed, self._compression)

    def size_of(self, message: Message) -> int:
        """Return the length of a message as TiCDC counts it."""
        key, value = message
        return _OVERHEAD + len(key or b"") + len(value)

    def too_large(self, table: str, length: int, where: str) -> EncodeError:
        """Return the error for a message that no form makes fit."""
        other = ", or set large-message-handle-option" if self._reducible else ""
        return EncodeError(
            f"message is too large. table:{table}, length:{length}, maxMessageBytes:{self.limit}",
            code="CDC:ErrMessageTooLarge",
            where=where,
            hint=f"raise max-message-bytes in the sink URI{other}",
        )

    def store(self, fitted: DataFrame) -> None:
        """Put the whole of those messages whose reduced form leaves into the claim check's storage."""
        store_claims(fitted.where(F.col("location").isNotNull()), self._storage, raw=self._raw_claims)


@reused()
def _nothing() -> tuple[Column, Column]:
    return F.lit(None).cast("binary"), F.lit(None).cast("string")


@reused()
def _fitting(limit: int, joined: int, *, refuse_corrupted: bool) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the value that fits with what is `joined` to it, and what that means for the run and the claim check."""
    fits = _size(F.col("key"), F.col("whole")) + joined <= limit
    value = F.when(fits | F.col("reduced").isNull(), F.col("whole")).otherwise(F.col("reduced"))
    size = _size(F.col("key"), F.col("value")) + joined
    stops = [F.when(size > limit, size)]
    if refuse_corrupted:
        stops.append(F.when(F.col("corrupted"), F.lit(0)))
    claimed = F.when(F.col("location").isNotNull(), F.col("whole"))
    return (
        {"value": value, "location": F.when(~fits, F.col("location"))},
        {"stop": F.coalesce(*stops), "whole": claimed},
    )


def _size(key: Column, value: Column) -> Column:
    """Return the length of a message as TiCDC counts it, for the comparison with max-message-bytes."""
    return F.coalesce(F.octet_length(key), F.lit(0)) + F.coalesce(F.octet_length(value), F.lit(0)) + _OVERHEAD
