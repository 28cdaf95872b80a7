"""Where row changes come from."""

from tidecast.sources._database import DATABASE_SCHEMES, Database, database_errors, parse_database, read_database
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
    "DATABASE_SCHEMES",
    "Batch",
    "Database",
    "Progress",
    "TopicStream",
    "check_source",
    "database_errors",
    "decode_records",
    "parse_database",
    "read_database",
    "read_records",
    "read_topic",
    "source_errors",
    "unpacked",
]
