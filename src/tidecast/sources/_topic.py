"""A topic as a source of row changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from tidecast._csv_format import TOLD_BY
from tidecast._errors import ConfigError
from tidecast._uri import Place, parse_place, redact_uri
from tidecast.model import Events, SchemaHistory
from tidecast.protocols import DecodeOptions, Reader, check_readable, find_protocol, protocol_named
from tidecast.registry import Registry, subject_for
from tidecast.routing import column_selection
from tidecast.runtime import check_executors, unknown_zone
from tidecast.sources._survey import Messages
from tidecast.sources._unpack import check_compression, unpacked
from tidecast.storage import path_of, path_uri
from tidecast.topics import (
    FileTopics,
    Offsets,
    ReadableTopics,
    Records,
    RecordsHere,
    StorageSink,
    file_errors,
    is_storage_sink,
    kafka_errors,
    open_topics,
)
from tidecast.values import is_zone

_SINK, _TOPICS = _LAYOUTS = "storage-sink", "topics"
_FEW_BYTES = 4 << 20
"""How large files are, all together, that are read in the program's own process."""


def _any_subject(subject: str) -> bool:
    return True


@contextmanager
def source_errors(uri: str) -> Iterator[None]:
    """Turn what Spark raises while it reads a source into the errors of tidecast."""
    with kafka_errors(redact_uri(uri)), file_errors():
        yield


def read_topic(spark: SparkSession, uri: str, *, registry: Registry | None = None, zone: str = "UTC") -> Events:
    """Return the events of a topic, up to its present end.

    `uri` names the place and, by `protocol`, what its messages are; `zone` is the time zone in which the messages
    show TIMESTAMP values that name none. Raises ConfigError for a wrong URI, Unreachable for a place that does not
    answer.
    """
    records, protocol = read_records(spark, uri)
    return decode_records(records, protocol, registry=registry, zone=zone, subjects=subjects_of(uri))


def read_records(
    spark: SparkSession, uri: str, after: Offsets | None = None, until: Offsets | None = None
) -> tuple[Records, str]:
    """Return the messages of a topic, up to its present end, and their protocol; the bounds as in `Topics.read`."""
    protocol, place = protocol_of(uri), parse_place(uri)
    return unpacked(open_source(place).read(spark, after, until), protocol, place.params), protocol


def check_source(uri: str, registry: Registry | None) -> str:
    """Return a source's protocol. Raises ConfigError, without Spark and without asking anybody, for a wrong URI."""
    place, protocol = parse_place(uri), protocol_of(uri)
    open_source(place)
    if place.single_file and "topics" not in place.params and not (path := path_of(place)).exists():
        raise ConfigError("no records to read: there is no such file", where=path_uri(path))
    check_compression(place.params)
    column_selection(place.params.get(TOLD_BY["column_selectors"], ""))
    protocol_named(protocol).check_registry(registry)
    return protocol


def open_source(place: Place) -> ReadableTopics:
    """Return the topics of a source, or the storage sink's folder that it is.

    That is so where its `layout` says so, for a protocol that has no other, and for a folder of Canal-JSON that has a
    storage sink's `metadata` or schema files. Raises ConfigError for a layout that the place or the protocol has not.
    """
    protocol = find_protocol(place.params.get("protocol", ""))
    layout = place.params.get("layout")
    if layout not in (None, *_LAYOUTS):
        hint = f"layout={' or layout='.join(_LAYOUTS)}"
        raise ConfigError(f"unknown layout {layout!r}", where="source URI", hint=hint)
    has_files, has_topics = (bool(protocol.files), protocol.topics) if protocol else (False, True)
    if layout == _TOPICS and not has_topics:
        raise ConfigError("the protocol has no layout of topics", where="source URI", hint=f"leave layout={layout} out")
    files = layout == _SINK or not has_topics
    if files and (place.is_kafka or not has_files or place.single_file):
        what = "Kafka" if place.is_kafka else "a single file" if has_files else "the protocol"
        hint = "a storage sink writes protocol=csv or canal-json into a folder: file:///folder or s3a://bucket/folder"
        raise ConfigError(f"{what} is nothing that a storage sink writes", where="source URI", hint=hint)
    if layout is None and has_topics and has_files and not (place.is_kafka or place.single_file):
        files = is_storage_sink(path_of(place))
    return StorageSink(path_of(place), not has_topics, place.params) if files else open_topics(place)


def protocol_of(uri: str) -> str:
    """Return the protocol that a source's URI names. Raises ConfigError for none, or one that is not read here."""
    return check_readable(parse_place(uri).params.get("protocol", ""))


def decode_records(
    records: Records,
    protocol: str,
    *,
    registry: Registry | None = None,
    zone: str = "UTC",
    history: SchemaHistory | None = None,
    subjects: Callable[[str], bool] = _any_subject,
) -> Events:
    """Return the events of messages in a protocol; `history` is what earlier messages have shown of schemas."""
    select = column_selection(records.csv.column_selectors if records.csv else "")
    options = DecodeOptions(records.ordered, registry, zone, history, subjects, records.csv, select)
    check_executors(records.frame.sparkSession)
    events = _surveyed(records, reader_of(check_readable(protocol), options))
    return replace(events, tasks=1 if records.few else None)


def messages_of(
    records: Records,
    protocol: str,
    *,
    registry: Registry | None = None,
    zone: str = "UTC",
    subjects: Callable[[str], bool] = _any_subject,
) -> Messages:
    """Return messages that are read in passes; of a protocol whose reader can do that."""
    check_executors(records.frame.sparkSession)
    select = column_selection(records.csv.column_selectors if records.csv else "")
    options = DecodeOptions(records.ordered, registry, zone, subjects=subjects, csv=records.csv, select=select)
    return Messages(records, reader_of(protocol, options))


def reader_of(protocol: str, options: DecodeOptions) -> Reader:
    """Return the reader of a protocol that has one. Raises ConfigError for a time zone that it does not know."""
    make = protocol_named(protocol).reader
    assert make is not None
    if not is_zone(options.zone):
        raise unknown_zone(options.zone)
    return make(options)


def records_here(uri: str) -> RecordsHere | None:
    """Return the records of a source as they lie in it, if it is few files on this machine; else None."""
    topics = open_source(parse_place(uri))
    return topics.here(_FEW_BYTES) if isinstance(topics, FileTopics) else None


def subjects_of(uri: str) -> Callable[[str], bool]:
    """Return which subjects of a registry are likely to be of a source's topics."""
    place = parse_place(uri)
    topics = re.compile(place.params.get("topics", re.escape(place.topic)))
    return lambda subject: (
        topics.fullmatch(subject.rpartition("-")[0]) is not None
        or subject in (subject_for(place.topic, "key"), subject_for(place.topic, "value"))
    )


def _surveyed(records: Records, reader: Reader) -> Events:
    """Return the events of messages, which Spark keeps where that is quicker."""
    _, split = records.unsplit
    if split or not records.kept:
        return Messages(records, reader).survey()
    kept = replace(records, frame=records.frame.persist())
    try:
        return replace(Messages(kept, reader).survey(), cached=(kept.frame,))
    except BaseException:  # a registry that does not answer is asked again, with the messages read anew
        kept.frame.unpersist()
        raise
