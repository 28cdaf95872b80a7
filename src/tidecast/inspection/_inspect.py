"""Messages explained for a person."""

from __future__ import annotations

import base64 as base64_module
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._progress import Progress, no_progress
from tidecast._secrets import resolved_uri
from tidecast.inspection._alone import inspect_alone
from tidecast.inspection._inspected import Inspected
from tidecast.inspection._wanted import Wanted, commit_ts_range, key_of
from tidecast.model import Reason
from tidecast.protocols import DecodeOptions, check_readable, guess_protocol, protocol_named
from tidecast.registry import open_registry
from tidecast.runtime import check_zone, local_zone


def inspect(
    source: str | None = None,
    *,
    limit: int = 10,
    last: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    table: str | None = None,
    key: Sequence[str] = (),
    commit_ts: str | None = None,
    hex: str | None = None,  # noqa: A002 - named as the option is
    base64: str | None = None,
    protocol: str | None = None,
    schema_registry: str | None = None,
    tz: str | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> list[Inspected]:
    """Explain messages of a source, or one message given in hexadecimal or base64.

    Of a source, the first `limit` are explained, or the `last`. Each choice that is given counts: the `topic`,
    `partition` and `offset`, a row of the `table` (`database.table`), the `commit_ts` (a TSO or a time, or `FROM..TO`).
    The `key` is that of the row before or after its change: `COLUMN=VALUE`, or JSON as `verify` shows it. Of Kafka no
    more is read than that takes. The `protocol` need not be given, where it is TiCDC's: the first message tells it. One
    message takes no Spark. Raises ConfigError for a wrong URI, option or text, and for places that the source does not
    have; Unreachable and RegistryError.
    """
    wanted = Wanted(
        limit if last is None else last,
        last is not None,
        topic,
        partition,
        offset,
        table,
        key_of(key),
        commit_ts_range(commit_ts) if commit_ts is not None else None,
    )
    if source is not None:
        # It needs Spark, which one message does not wait for.
        from tidecast.inspection._events import checked_source, inspect_topic

        checked = checked_source(source, protocol=protocol, schema_registry=schema_registry, tz=tz, spark=spark)
        return inspect_topic(checked, wanted, progress)
    value = _message(hex, base64)
    name = check_readable(protocol or guess_protocol(value).name)
    registry = open_registry(resolved_uri(schema_registry)) if schema_registry else None
    zone = check_zone(tz or local_zone())
    protocol_named(name).check_registry(registry)
    progress("reading", 0, 0)
    found = inspect_alone(value, name, DecodeOptions(ordered=True, registry=registry, zone=zone))
    return [replace(one, problem=_with_hint(one.problem)) for one in found]


def follow(
    source: str,
    *,
    last: int = 0,
    topic: str | None = None,
    partition: int | None = None,
    table: str | None = None,
    key: Sequence[str] = (),
    commit_ts: str | None = None,
    protocol: str | None = None,
    schema_registry: str | None = None,
    tz: str | None = None,
    spark: SparkSession | None = None,
) -> Iterator[Inspected]:
    """Explain the `last` messages of a source and then each that comes, until nobody asks for the next one.

    The options are those of `inspect`. No more than a hundred messages of a partition are held at a time; a file is
    read as a whole. Raises as `inspect`, and SourceChanged where the topic is created again.
    """
    from tidecast.inspection._events import checked_source
    from tidecast.inspection._follow import follow_topic

    commit_range = commit_ts_range(commit_ts) if commit_ts is not None else None
    wanted = Wanted(last, True, topic, partition, None, table, key_of(key), commit_range)
    checked = checked_source(source, protocol=protocol, schema_registry=schema_registry, tz=tz, spark=spark)
    return follow_topic(checked, wanted)


def _with_hint(problem: str | None) -> str | None:
    """Return why a message that was given alone cannot be read, and what to do where those before it tell more."""
    if not problem or not problem.startswith(Reason.UNKNOWN_TABLE):
        return problem
    return f"{problem}; messages before it tell that: inspect its source, with --partition and --offset"


def _message(hexed: str | None, base64_text: str | None) -> bytes:
    """Return a message given as text. Raises ConfigError for another text."""
    try:
        if hexed is not None:
            return bytes.fromhex(hexed)
        return base64_module.b64decode(base64_text or "", validate=True)
    except (ValueError, binascii.Error):
        kind = "hexadecimal" if hexed is not None else "base64"
        raise ConfigError(f"the message is not {kind}") from None
