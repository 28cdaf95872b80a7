"""Real servers for tests, each a context manager: Kafka, a Schema Registry, S3, Spark Connect, on loopback ports."""

from servers._connect import ConnectServer
from servers._kafka import KafkaBroker
from servers._registry import SchemaRegistry
from servers._s3 import S3Server

__all__ = ["ConnectServer", "KafkaBroker", "S3Server", "SchemaRegistry"]
