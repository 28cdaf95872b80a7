"""The stage that makes messages fit: compression, and the ways for one that is too large.

Source: Simple protocol, large messages.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidecast._errors import EncodeError
from tidecast.config import ChangefeedConfig
from tidecast.protocols import Message, protocol_named
from tidecast.publish._fitting import OVERHEAD, Fitting
from tidecast.topics import TopicInfo, store_claims

_LIMIT_MARGIN = 128
"""How much smaller than its topic allows TiCDC keeps a message."""


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

    @property
    def fitting(self) -> Fitting:
        """The rules by which messages of rows are made to fit."""
        return Fitting(self.limit, self._compression, self._compressed, self._handle, self._storage)

    @property
    def refuses_corrupted(self) -> bool:
        """Tell whether a row that its source found damaged ends the run."""
        return self._refuse_corrupted

    def packed(self, message: Message) -> Message:
        """Return a message that is no row's as it leaves."""
        return self.fitting.packed(message)

    def size_of(self, message: Message) -> int:
        """Return the length of a message as TiCDC counts it."""
        key, value = message
        return OVERHEAD + len(key or b"") + len(value)

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
