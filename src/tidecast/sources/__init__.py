"""Where row changes come from."""

from tidecast.sources._stream import Batch, Progress, TopicStream
from tidecast.sources._topic import (
    check_source,
    decode_records,
    read_records,
    read_topic,
    source_errors,
)
from tidecast.sources._unpack import unpacked

__all__ = [
    "Batch",
    "Progress",
    "TopicStream",
    "check_source",
    "decode_records",
    "read_records",
    "read_topic",
    "source_errors",
    "unpacked",
]
