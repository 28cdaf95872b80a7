"""Where row changes come from."""

from tidecast.sources._stream import Batch, Progress, TopicStream
from tidecast.sources._topic import decode_records, read_records, read_topic, source_errors

__all__ = ["Batch", "Progress", "TopicStream", "decode_records", "read_records", "read_topic", "source_errors"]
