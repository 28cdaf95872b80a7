"""Where row changes come from."""

from tidecast.sources._topic import read_topic

__all__ = ["read_topic"]
