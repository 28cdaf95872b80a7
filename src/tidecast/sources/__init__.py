"""Where row changes come from."""

from tidecast.sources._database import DATABASE_SCHEMES, Database, database_errors, parse_database, read_database
from tidecast.sources._here import Here, read_here
from tidecast.sources._passes import (
    DEAD_LETTER,
    chosen,
    columns_of,
    dead_letters,
    in_one_pass,
    narrowed,
    then,
    then_with,
)
from tidecast.sources._progress import Progress, check_source_of, read_progress, source_name
from tidecast.sources._stream import Batch, TopicStream
from tidecast.sources._survey import Messages, batch_of
from tidecast.sources._topic import (
    check_source,
    decode_records,
    messages_of,
    open_source,
    read_records,
    read_topic,
    reader_of,
    records_here,
    source_errors,
    subjects_of,
)
from tidecast.sources._ts_range import filter_commit_ts, split_at_commit_ts
from tidecast.sources._unpack import unpacked
from tidecast.sources._verified import VERIFICATION, verdicts_on, verified, with_verdict

__all__ = [
    "DATABASE_SCHEMES",
    "DEAD_LETTER",
    "VERIFICATION",
    "Batch",
    "Database",
    "Here",
    "Messages",
    "Progress",
    "TopicStream",
    "batch_of",
    "check_source",
    "check_source_of",
    "chosen",
    "columns_of",
    "database_errors",
    "dead_letters",
    "decode_records",
    "filter_commit_ts",
    "in_one_pass",
    "messages_of",
    "narrowed",
    "open_source",
    "parse_database",
    "read_database",
    "read_here",
    "read_progress",
    "read_records",
    "read_topic",
    "reader_of",
    "records_here",
    "source_errors",
    "source_name",
    "split_at_commit_ts",
    "subjects_of",
    "then",
    "then_with",
    "unpacked",
    "verdicts_on",
    "verified",
    "with_verdict",
]
