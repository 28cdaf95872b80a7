"""Real servers for tests, each a context manager: Kafka, a Schema Registry, Spark Connect, on free loopback ports."""

from servers._connect import ConnectServer
from servers._kafka import KafkaBroker
from servers._registry import SchemaRegistry

__all__ = ["ConnectServer", "KafkaBroker", "SchemaRegistry"]
