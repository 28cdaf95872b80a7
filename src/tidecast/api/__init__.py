"""What a program calls: a function for each command, of the same name and with the same options, and what they take."""

from tidecast.api._convert import DEAD_LETTERS, convert, plan
from tidecast.api._events import Events, TableSummary
from tidecast.api._read import decode, read
from tidecast.api._replicate import replicate
from tidecast.api._serve import serve
from tidecast.api._snapshot import snapshot
from tidecast.api._source import TopicSource
from tidecast.api._verify import Verified, verify

__all__ = [
    "DEAD_LETTERS",
    "Events",
    "TableSummary",
    "TopicSource",
    "Verified",
    "convert",
    "decode",
    "plan",
    "read",
    "replicate",
    "serve",
    "snapshot",
    "verify",
]
