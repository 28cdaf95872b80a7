"""From a place's URI to its topics."""

from __future__ import annotations

import re
from collections.abc import Callable

from tidecast._errors import ConfigError, needs_extra
from tidecast._uri import REMOTE_SCHEMES, Place
from tidecast.storage import path_of
from tidecast.topics._base import Topics
from tidecast.topics._files import FileTopics
from tidecast.topics._kafka_options import KafkaOptions
from tidecast.topics._write_sink import SinkFiles, StorageSinkWriter


def open_topics(place: Place) -> Topics:
    """Return the topics at a place, without asking it anything yet. Raises ConfigError for one that holds none."""
    if place.scheme not in _OPENERS:
        known = ", ".join(f"{scheme}://" for scheme in _OPENERS)
        raise ConfigError(f"{place.scheme}:// is not a place with topics", hint=f"use one of {known}")
    pattern = place.params.get("topics")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"topics: {pattern!r} is no regular expression: {error}", where="source URI") from None
    return _OPENERS[place.scheme](place)


def open_sink_folder(place: Place, files: SinkFiles) -> StorageSinkWriter:
    """Return the folder of a storage sink at a place, to be written."""
    return StorageSinkWriter(path_of(place), files)


def _files(place: Place) -> Topics:
    if not place.topic and "topics" not in place.params:
        hint = "end the path with the topic's name, or name a storage sink's protocol"
        raise ConfigError("no topic is specified in sink-uri", code="CDC:ErrKafkaInvalidConfig", hint=hint)
    return FileTopics(
        path_of(place),
        place.topic,
        pattern=place.params.get("topics"),
        lines=place.params.get("format", "").lower() == "jsonl",
        partitions=KafkaOptions.from_params(place.params).partition_num or FileTopics.partitions,
    )


def _kafka(place: Place) -> Topics:
    with needs_extra("kafka", "kafka://"):
        from tidecast.topics._kafka import KafkaTopics  # files need no client of Kafka

    return KafkaTopics(
        ",".join(place.hosts),
        place.topic,
        KafkaOptions.from_params(place.params),
        pattern=place.params.get("topics"),
        start=place.params.get("start", "earliest"),
    )


_OPENERS: dict[str, Callable[[Place], Topics]] = {
    "kafka": _kafka,
    "kafka+ssl": _kafka,
    **dict.fromkeys(("file", "dbfs", *REMOTE_SCHEMES), _files),
}
