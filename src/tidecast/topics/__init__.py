"""Where messages live: Kafka, or files of Kafka-shaped records. Knows nothing of what is in them."""

from tidecast.topics._base import (
    Counts,
    Int64,
    Offsets,
    ReadableTopics,
    Records,
    Spans,
    Split,
    TopicInfo,
    Topics,
    WritableTopics,
)
from tidecast.topics._dead_letters import (
    DeadLetter,
    DeadLetters,
    append_lines,
    dead_letters_folder,
    dead_letters_in,
    first_dead_letters,
    read_dead_letters,
    refuse_dead_letters,
    replace_dead_letters,
    write_dead_letters,
)
from tidecast.topics._files import DEAD_LETTERS, FileTopics, file_errors
from tidecast.topics._here import RecordsHere
from tidecast.topics._kafka_errors import kafka_errors
from tidecast.topics._kafka_options import KafkaOptions
from tidecast.topics._open import open_sink_folder, open_topics
from tidecast.topics._packing import (
    check_storage,
    claim_folder,
    claim_location,
    compress,
    decompressed,
    fetched_claims,
    store_claims,
)
from tidecast.topics._sink_listing import is_storage_sink
from tidecast.topics._sink_positions import files_by_table, is_of_storage_sink, sequence_name
from tidecast.topics._storage_sink import StorageSink
from tidecast.topics._write_sink import DATE_SEPARATORS, SinkFiles
from tidecast.topics._written import check_written, count_rows

__all__ = [
    "DATE_SEPARATORS",
    "DEAD_LETTERS",
    "Counts",
    "DeadLetter",
    "DeadLetters",
    "FileTopics",
    "Int64",
    "KafkaOptions",
    "Offsets",
    "ReadableTopics",
    "Records",
    "RecordsHere",
    "SinkFiles",
    "Spans",
    "Split",
    "StorageSink",
    "TopicInfo",
    "Topics",
    "WritableTopics",
    "append_lines",
    "check_storage",
    "check_written",
    "claim_folder",
    "claim_location",
    "compress",
    "count_rows",
    "dead_letters_folder",
    "dead_letters_in",
    "decompressed",
    "fetched_claims",
    "file_errors",
    "files_by_table",
    "first_dead_letters",
    "is_of_storage_sink",
    "is_storage_sink",
    "kafka_errors",
    "open_sink_folder",
    "open_topics",
    "read_dead_letters",
    "refuse_dead_letters",
    "replace_dead_letters",
    "sequence_name",
    "store_claims",
    "write_dead_letters",
]
