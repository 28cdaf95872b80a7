"""Messages of a topic explained, and those that Python alone does not explain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidecast._errors import ConfigError
from tidecast._progress import Progress
from tidecast._uri import parse_place, redact_uri
from tidecast.api import TopicSource
from tidecast.inspection._alone import problems, shown_by_place
from tidecast.inspection._here import inspect_here
from tidecast.inspection._inspected import Inspected, Place, explained, problem_text
from tidecast.inspection._wanted import Wanted
from tidecast.model import RECORD, Events, Kind, Reason, SchemaHistory, TableChanges
from tidecast.protocols import Decoded, guess_protocol
from tidecast.runtime import spark_session
from tidecast.sources import (
    batch_of,
    decode_records,
    open_source,
    read_here,
    read_records,
    records_here,
    source_errors,
)
from tidecast.spark import union
from tidecast.topics import Offsets, Records, Spans

_SHOWN = [*RECORD.fieldNames()[:4], "key", "value"]
_CAUSE = ("reason", "detail")
_BINARY = (Kind.BINARY, Kind.BIT)


def inspect_topic(source: TopicSource, wanted: Wanted, progress: Progress) -> list[Inspected]:
    """Explain the messages of a source that are wanted; see `tidecast.inspect`."""
    here = read_here(source.uri, registry=source.registry, zone=source.zone) if source.spark is None else None
    if here and here.messages.num_rows:
        progress("reading", 0, 0)
        return inspect_here(here, source.protocol, wanted)
    with source_errors(source.uri):
        return Search(source, wanted, progress).run()


def checked_source(
    source: str, *, protocol: str | None, schema_registry: str | None, tz: str | None, spark: SparkSession | None
) -> TopicSource:
    """Return a source, whose URI need not name its protocol; see `TopicSource.check`."""
    guess = partial(_guessed, protocol, spark)
    return TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark, guess=guess)


def _guessed(protocol: str | None, spark: SparkSession | None, uri: str) -> str:
    """Return the protocol of a source whose URI names none: the given one, or what its first message looks like."""
    if protocol:
        return protocol
    with source_errors(uri):
        here = records_here(uri) if spark is None else None
        if here is not None:
            first = next((value for value in here.messages.column("value").to_pylist() if value), None)
        else:
            records = open_source(parse_place(uri)).read(spark or spark_session()).frame
            row = records.where(F.octet_length("value") > 0).select("value").head()
            first = row and bytes(row["value"])
    if first is None:
        hint = "write ?protocol=… behind the source"
        raise ConfigError("no message tells the protocol", where=redact_uri(uri), hint=hint)
    return guess_protocol(first).name


@dataclass(frozen=True)
class Search:
    """A source in which messages are looked for.

    Ever more of it is read, until all is there that is wanted, and the schemas that some protocols tell once.
    """

    source: TopicSource
    wanted: Wanted
    progress: Progress

    def run(self) -> list[Inspected]:
        """Return what is wanted, explained."""
        self.progress("reading", 0, 0)
        spans = open_source(parse_place(self.source.uri)).spans()
        parts: Iterable[Spans | None] = [None] if spans is None else self.wanted.parts(spans)
        look = self._by_rows if self.wanted.of_rows else self._by_places
        for number, part in enumerate(parts):
            if part is not None and number:
                read = sum(end - start for start, end in part.values())
                self.progress(f"looking into {read:,} messages", 0, 0)
            covered = part is None or spans is None or self.wanted.covered(part, spans)
            found = look(self.read(part), first=number == 0, covered=covered, whole=part in (None, spans))
            if found is not None:
                return found
        return []

    def read(self, part: Spans | None = None) -> Records:
        """Return the messages of a part of the source, by default of all of it."""
        if part is None:
            return read_records(self.source.session, self.source.uri)[0]
        after = Offsets.of({place: start for place, (start, _) in part.items()})
        until = Offsets.of({place: end for place, (_, end) in part.items()})
        return read_records(self.source.session, self.source.uri, after, until)[0]

    def decoded(self, records: Records, history: SchemaHistory | None = None) -> Events:
        """Return the events of messages; `history` is what is known of schemas."""
        source = self.source
        return decode_records(records, source.protocol, registry=source.registry, zone=source.zone, history=history)

    def explained(self, records: Records, events: Events) -> list[Inspected]:
        """Return what is wanted of messages and of their events, explained."""
        if self.wanted.of_rows:
            events, chosen = self._rows(events, ordered=records.ordered)
        else:
            chosen = self._chosen(records.frame, ordered=records.ordered)
        return _explain_all(chosen, events, self.source.protocol) if chosen else []

    def _by_places(self, records: Records, *, first: bool, covered: bool, whole: bool) -> list[Inspected] | None:
        """Return the messages at the places that are wanted; None where there may be more, or they need a schema.

        The first time they are decoded by themselves, as the messages of most protocols tell all.
        """
        chosen = self._chosen(records.frame, ordered=records.ordered)
        if len(chosen) < self.wanted.limit and not covered:
            return None
        self.progress("explaining", 0, 0)
        if first:
            few = records.frame.where(F.col("offset").isin([row["offset"] for row in chosen]))
            with self.decoded(replace(records, frame=few)) as events:
                found = _explain_all(chosen, events, self.source.protocol)
            if not any(map(_lacks_schema, found)):
                return found
            if not whole:
                return None
        with self.decoded(records) as events:
            found = _explain_all(chosen, events, self.source.protocol)
        return None if not whole and any(map(_lacks_schema, found)) else found

    def _by_rows(self, records: Records, *, first: bool, covered: bool, whole: bool) -> list[Inspected] | None:
        """Return the messages whose rows are wanted; None where there may be more, or rows need a schema."""
        with self.decoded(records) as events:
            mine, chosen = self._rows(events, ordered=records.ordered)
            if not whole and ((len(chosen) < self.wanted.limit and not covered) or lacks_schemas(events)):
                return None
            self.progress("explaining", 0, 0)
            return _explain_all(chosen, mine, self.source.protocol) if chosen else []

    def _rows(self, events: Events, *, ordered: bool) -> tuple[Events, list[Row]]:
        """Return the messages whose rows are wanted, and the events of the tables that have some."""
        tables = [(t, is_wanted) for t in events.tables if (is_wanted := _is_wanted(t, self.wanted)) is not None]
        rows = [t.frame.where(is_wanted).select(_SHOWN) for t, is_wanted in tables]
        found = union(rows).distinct() if rows else None  # a message may have several such rows
        chosen = self._chosen(found, ordered=ordered) if found is not None else []
        return replace(events, tables=tuple(t for t, _ in tables)), chosen

    def _chosen(self, messages: DataFrame, *, ordered: bool) -> list[Row]:
        """Return the first messages at places that are wanted, or the last of them, in their order."""
        last = self.wanted.last
        order = [F.col(n) for n in (["offset"] if ordered else ["timestamp", "topic", "partition", "offset"])]
        causes = [name for name in _CAUSE if name in messages.columns]
        at_places = messages.where(_is_at(self.wanted)).select(*_SHOWN, *causes)
        rows = at_places.orderBy(*(c.desc() if last else c for c in order)).limit(self.wanted.limit).collect()
        return rows[::-1] if last else rows


def lacks_schemas(events: Events) -> bool:
    """Tell whether there are rows among the messages whose schema is not known."""
    return not events.rejected.where(F.col("reason") == Reason.UNKNOWN_TABLE).isEmpty()


def _is_at(wanted: Wanted) -> Column:
    """Return whether a message lies at a place that is wanted; one without a partition went to all of them."""
    at = F.lit(True)
    if wanted.topic is not None:
        at &= F.col("topic") == wanted.topic
    if wanted.partition is not None:
        at &= F.col("partition").isNull() | (F.col("partition") == wanted.partition)
    if wanted.offset is not None:
        at &= F.col("offset") == wanted.offset
    return at


def _is_wanted(changes: TableChanges, wanted: Wanted) -> Column | None:
    """Return whether a row of a table is wanted; None for a table of which none can be."""
    kinds = {c.name: c.data_type.kind for c in changes.schema.columns}
    if wanted.table not in (None, changes.schema.name) or not wanted.key.keys() <= kinds.keys():
        return None
    is_wanted = F.lit(True)
    if wanted.commit_ts is not None:
        is_wanted &= F.col("commit_ts").between(*wanted.commit_ts)
    if wanted.key:
        sides = [
            reduce(and_, (_is_text(kinds[name], F.col(side)[name], text) for name, text in wanted.key.items()))
            for side in ("old", "data")
        ]
        is_wanted &= F.coalesce(sides[0], F.lit(False)) | F.coalesce(sides[1], F.lit(False))
    return is_wanted


def _is_text(kind: Kind, value: Column, text: str | None) -> Column:
    """Return whether a value is what a text says, as it is shown here; of bytes, also as `verify` shows them."""
    if text is None:
        return value.isNull()
    is_text = _text(kind, value) == text
    return is_text | (F.base64(value) == text) if kind in _BINARY else is_text


def _lacks_schema(message: Inspected) -> bool:
    return (message.problem or "").startswith(Reason.UNKNOWN_TABLE)


def _explain_all(chosen: Sequence[Row], events: Events, protocol: str) -> list[Inspected]:
    """Explain messages of a source, whose events are `events`."""
    if not chosen:
        return []
    assert events.rows is not None
    messages = batch_of(chosen)
    decoded: Decoded = events.rows.read(messages)
    rows = shown_by_place(decoded)
    wrong = problems([*decoded.rejected, *decoded.rows])
    if decoded.control.size:  # one of these may be broken, which the driver found out
        offsets = [row["offset"] for row in chosen]
        broken = events.rejected.where(F.col("offset").isin(offsets)).collect()
        causes = {_place(row): problem_text(row["reason"], row["detail"]) for row in broken}
        wrong |= {n: causes[place] for n, row in enumerate(chosen) if (place := _place(row)) in causes}
    found = []
    for n, row in enumerate(chosen):
        key, value = _bytes(row["key"]), _bytes(row["value"])
        own = events.rows.describe(key, value)
        found += explained(_place(row), key, value, protocol, rows[n], wrong.get(n), own)
    return found


def _place(row: Row) -> Place:
    return Place(row["topic"], row["partition"], row["offset"])


def _bytes(content: bytearray | None) -> bytes | None:
    return None if content is None else bytes(content)


def _text(kind: Kind, value: Column) -> Column:
    return F.concat(F.lit("0x"), F.hex(value)) if kind in _BINARY else value.cast("string")
