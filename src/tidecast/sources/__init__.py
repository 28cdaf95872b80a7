"""Where row changes come from."""

from tidecast.sources._database import DATABASE_SCHEMES, Database, database_errors, parse_database, read_database
from tidecast.sources._progress import Progress, check_source_of, read_progress, source_name
from tidecast.sources._stream import Batch, TopicStream
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
    "check_source_of",
    "database_errors",
    "decode_records",
    "parse_database",
    "read_database",
    "read_progress",
    "read_records",
    "read_topic",
    "source_errors",
    "source_name",
    "unpacked",
]
