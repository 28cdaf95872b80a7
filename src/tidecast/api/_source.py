"""Where a function's events come from: a source that a URI names, or events that are there already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._progress import Progress, RowCount
from tidecast._secrets import resolved_uri
from tidecast._uri import SOURCE_PARAMETERS, parse_place, source_uri, unknown_parameters
from tidecast.model import Events
from tidecast.registry import Registry, open_registry
from tidecast.runtime import check_zone, local_zone, spark_session
from tidecast.sources import check_source, read_topic, source_errors
from tidecast.storage import AnyPath, folder_path

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TopicSource:
    """A source that a URI names, checked. `zone` is the time zone of TIMESTAMP text."""

    uri: str
    protocol: str
    registry: Registry | None
    zone: str
    spark: SparkSession | None = None

    @classmethod
    def check(
        cls,
        text: str,
        *,
        schema_registry: str | None,
        tz: str | None,
        spark: SparkSession | None = None,
        guess: Callable[[str], str] | None = None,
    ) -> TopicSource:
        """Refuse a source, a registry or a time zone that is none: a wrong call need not wait for Spark to start.

        TiCDC ignores parameters that it does not know. In a source that would read other messages than was meant.
        `guess` returns the protocol of a URI that names none, which is an error without it.
        """
        uri = resolved_uri(source_uri(text))
        try:
            place = parse_place(uri)
        except ConfigError as error:  # it speaks of a sink
            raise ConfigError(error.message.replace("sink uri invalid", "no source"), hint=error.hint) from None
        params = place.params
        if "start" in params and not place.is_kafka:
            raise ConfigError("start= is for Kafka: files are read as a whole", where="source URI")
        for name, near in unknown_parameters(place, SOURCE_PARAMETERS):
            if near:
                raise ConfigError(f"unknown parameter {name}", where="source URI", hint=f"did you mean {near}?")
            _log.warning("source URI: unknown parameter %s is ignored", name)
        registry, zone = registry_at(schema_registry), zone_of(tz)
        if guess and "protocol" not in params:
            uri += f"{'&' if '?' in uri else '?'}protocol={guess(uri)}"
        return cls(uri, check_source(uri, registry), registry, zone, spark)

    @property
    def session(self) -> SparkSession:
        """The session that the caller gave, else one of ours."""
        return self.spark or spark_session()

    @contextmanager
    def events(self, progress: Progress) -> Iterator[Events]:
        """Read the source up to its present end, and let go of its events afterwards."""
        progress("reading", 0, 0)
        with (
            source_errors(self.uri),
            read_topic(self.session, self.uri, registry=self.registry, zone=self.zone) as events,
        ):
            yield events


def row_count(events: Events) -> RowCount:
    """Return how many rows events have, for a progress bar."""
    return RowCount(sum(table.rows for table in events.tables))


@dataclass(frozen=True)
class GivenEvents:
    """Events that the caller brings, and lets go of. `zone` is the time zone of TIMESTAMP text made of them."""

    given: Events
    zone: str

    @classmethod
    def check(cls, events: Events, zone: str | None = None, /, **options: object) -> GivenEvents:
        """Refuse each of the options that is given, as they belong to a source's URI; `zone` as `zone_of` takes it."""
        for name, value in options.items():
            if value is not None:
                raise ConfigError(
                    f"{name} has no meaning for events, which have been read already",
                    hint=f"leave {name} out, or give the source's URI in place of the events",
                )
        return cls(events, zone_of(zone))

    @contextmanager
    def events(self, progress: Progress) -> Iterator[Events]:
        """Give the events."""
        yield self.given


def registry_at(url: str | None) -> Registry | None:
    """Open the Schema Registry of a URL as a user wrote it, if there is one."""
    return open_registry(resolved_uri(url)) if url else None


def zone_of(tz: str | None) -> str:
    """Return the time zone of that name, by default the system's. Raises ConfigError for one that is none."""
    return check_zone(tz or local_zone())


def folder(text: str | None, option: str) -> AnyPath | None:
    """Return the folder that an option names, if it names one."""
    return None if text is None else folder_path(text, option)
