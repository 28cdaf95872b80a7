"""Messages explained as they come."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import functions as F

from tidecast._errors import TransientError
from tidecast._progress import no_progress
from tidecast._uri import parse_place
from tidecast._waiting import Waiting
from tidecast.api import TopicSource
from tidecast.inspection._events import Search, lacks_schemas
from tidecast.inspection._inspected import Inspected
from tidecast.inspection._wanted import Wanted
from tidecast.model import Events, SchemaHistory
from tidecast.sources import open_source, read_records, source_errors
from tidecast.spark import number_at
from tidecast.topics import Offsets, ReadableTopics, Records, is_of_storage_sink

_AT_ONCE = 100
"""The most messages of a partition that are read at once."""
_ALL = (1 << 31) - 1

_WAITING = Waiting()
_log = logging.getLogger(__name__)


def follow_topic(source: TopicSource, wanted: Wanted) -> Iterator[Inspected]:
    """Explain messages as they come; see `tidecast.follow`."""
    newest, new = (Search(source, one, no_progress) for one in (wanted, replace(wanted, limit=_ALL, last=False)))
    return _Following(newest, new, open_source(parse_place(source.uri))).messages()


@dataclass
class _Following:
    """A source whose new messages are explained; `newest` finds those before them."""

    newest: Search
    new: Search
    topics: ReadableTopics
    history: SchemaHistory | None = None
    searched: bool = False
    seen: dict[str, int] = field(default_factory=dict)
    """Of files of messages, which are read as a whole when they grow: by topic and partition the last offset read."""

    def messages(self) -> Iterator[Inspected]:
        """Yield the newest messages, if any are wanted, and then what comes.

        An error that may pass goes to the log, and the search for new messages goes on.
        """
        with source_errors(self.new.source.uri):
            after = self.topics.end_offsets()
            in_sink = is_of_storage_sink(after.ends)
            in_files = not in_sink and self.topics.spans() is None
            if in_files and after.ends:
                _, self.seen = self._fresh(self.new.read())
            shown = self.newest.run() if self.newest.wanted.limit else []
        yield from shown
        places = {_place(message) for message in shown}  # some came after the end was asked for
        errors = 0
        while True:
            try:
                with source_errors(self.new.source.uri):
                    until = self.topics.end_offsets(after, _AT_ONCE)
                    is_new = any(until.differs(after, place) for place in until.ends)
                    found = self._between(after, until, in_files=in_files) if is_new else []
            except TransientError as error:
                errors += 1
                _log.warning("%s; trying again in %.0f s", error, _WAITING.retry(errors))
                time.sleep(_WAITING.retry(errors))
                continue
            errors = 0
            if not is_new:
                time.sleep(_WAITING.idle)
                continue
            # Schema files that were read before come with every batch of a storage sink, at offset 0.
            fresh = (message for message in found if message.offset or not in_sink)
            yield from (message for message in fresh if _place(message) not in places)
            after = until

    def _between(self, after: Offsets, until: Offsets, *, in_files: bool) -> Sequence[Inspected]:
        """Return what came between two looks at the source."""
        records, _ = read_records(self.new.source.session, self.new.source.uri, after, until)
        records, seen = self._fresh(records) if in_files else (records, self.seen)
        with self._decoded(records) as events:
            found = self.new.explained(records, events)
        self.seen = seen
        return found

    def _fresh(self, records: Records) -> tuple[Records, dict[str, int]]:
        """Return the messages of files that were not read before, and what will have been `seen` after them."""
        place = F.concat_ws("/", "topic", "partition")
        fresh = records.frame.where(F.col("offset") > F.coalesce(number_at(self.seen, place), F.lit(-1)))
        ends = fresh.groupBy(place.alias("place")).agg(F.max("offset").alias("last")).collect()
        return replace(records, frame=fresh), self.seen | {row["place"]: row["last"] for row in ends}

    def _decoded(self, records: Records) -> Events:
        """Return the events of new messages; earlier schemas are looked for once."""
        events = self.new.decoded(records, self.history)
        if events.history is not None and not self.searched and lacks_schemas(events):
            events.release()
            told, self.searched = self._told(), True
            events = self.new.decoded(records, told)
        self.history = events.history
        return events

    def _told(self) -> SchemaHistory | None:
        """Return what the source has told of schemas, as far back as its newest rows need it."""
        spans = self.topics.spans()
        parts = [None] if spans is None else Wanted(_AT_ONCE, last=True).parts(spans)
        for part in parts:
            with self.new.decoded(self.new.read(part)) as events:
                if part in (None, spans) or not lacks_schemas(events):
                    return events.history
        return None


def _place(message: Inspected) -> Sequence[object]:
    """Return where a message lies, and its commit-ts: watermarks of a storage sink may lie at one offset."""
    return message.topic, message.partition, message.offset, message.commit_ts
