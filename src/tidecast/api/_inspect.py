"""Messages explained for a person."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidecast._inspect import Inspected, inspect_events, parse_message, single_message
from tidecast._progress import Progress, no_progress
from tidecast.api._source import TopicSource, registry_at, zone_of
from tidecast.protocols import protocol_named
from tidecast.sources import check_protocol, decode_records, read_records, source_errors
from tidecast.topics import Records


def inspect(
    source: str | None = None,
    *,
    limit: int = 10,
    hex: str | None = None,  # noqa: A002 - named as the option is
    base64: str | None = None,
    protocol: str | None = None,
    schema_registry: str | None = None,
    tz: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> list[Inspected]:
    """Explain the first `limit` messages of a source, or one message given in hexadecimal or base64.

    Raises ConfigError for a wrong URI or text, Unreachable and RegistryError.
    """
    if source is not None:
        checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
        progress("reading", 0, 0)
        records, protocol = read_records(checked.session, checked.uri)
    else:
        value, looks_like = parse_message(hex=hex, base64_text=base64)
        protocol = check_protocol(protocol or looks_like)
        checked = TopicSource("", protocol, registry_at(schema_registry), zone_of(tz), spark)
        protocol_named(protocol).check_registry(checked.registry)
        progress("reading", 0, 0)
        records = Records(single_message(checked.session, value), ordered=True)
    with (
        source_errors(checked.uri),
        decode_records(records, protocol, registry=checked.registry, zone=checked.zone) as events,
    ):
        progress("explaining", 0, 0)
        return inspect_events(records.frame, events, protocol, limit)
