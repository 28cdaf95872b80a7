"""Where row changes come from."""

from tidecast.sources._topic import decode_records, read_records, read_topic

__all__ = ["decode_records", "read_records", "read_topic"]
