"""The Python interface: a function for each command, of the same name and with the same options."""

from tidecast.api._compare import compare
from tidecast.api._convert import convert, plan
from tidecast.api._dead_letters import DeadLetterCount, list_dead_letters, retry_dead_letters
from tidecast.api._events import Events, TableSummary
from tidecast.api._prove import prove
from tidecast.api._read import decode, read
from tidecast.api._replicate import replicate
from tidecast.api._serve import serve
from tidecast.api._snapshot import snapshot
from tidecast.api._source import TopicSource
from tidecast.api._status import PlaceStatus, ReplicaReport, SourceStatus, status
from tidecast.api._verify import Verified, verify

__all__ = [
    "DeadLetterCount",
    "Events",
    "PlaceStatus",
    "ReplicaReport",
    "SourceStatus",
    "TableSummary",
    "TopicSource",
    "Verified",
    "compare",
    "convert",
    "decode",
    "list_dead_letters",
    "plan",
    "prove",
    "read",
    "replicate",
    "retry_dead_letters",
    "serve",
    "snapshot",
    "status",
    "verify",
]
