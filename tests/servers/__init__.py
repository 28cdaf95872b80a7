"""Real servers for tests, each a context manager: a Kafka broker and a Schema Registry, on free loopback ports."""

from servers._kafka import KafkaBroker
from servers._registry import SchemaRegistry

__all__ = ["KafkaBroker", "SchemaRegistry"]
