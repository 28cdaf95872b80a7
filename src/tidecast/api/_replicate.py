"""Events onto tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import overload

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._policy import OnDdl, OnError, OnMismatch
from tidecast._progress import Progress, no_progress
from tidecast.api._source import GivenEvents, TopicSource, folder
from tidecast.model import Events
from tidecast.replica import Replicated, parse_target
from tidecast.sources import TopicStream, source_errors
from tidecast.storage import AnyPath, check_exclusive, locked


@overload
def replicate(
    source: Events,
    to: str,
    *,
    dead_letters: str | None = ...,
    on_error: str = ...,
    on_mismatch: str = ...,
    ddl: str = ...,
    progress: Progress = ...,
) -> Replicated: ...


@overload
def replicate(
    source: str,
    to: str,
    *,
    schema_registry: str | None = ...,
    tz: str | None = ...,
    checkpoint: str | None = ...,
    dead_letters: str | None = ...,
    on_error: str = ...,
    on_mismatch: str = ...,
    ddl: str = ...,
    progress: Progress = ...,
    spark: SparkSession | None = ...,
) -> Replicated: ...


def replicate(
    source: str | Events,
    to: str,
    *,
    schema_registry: str | None = None,
    tz: str | None = None,
    checkpoint: str | None = None,
    dead_letters: str | None = None,
    on_error: str = "dead-letter",
    on_mismatch: str = "dead-letter",
    ddl: str = "lenient",
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> Replicated:
    """Apply a topic to tables, once, up to its present end, or apply events; see `tidecast.replica.replicate`.

    `source` is a URI, or events. The folder `checkpoint` keeps what has been applied of a URI's topic, so that the next
    run goes on from there; rows whose schema has not come yet wait in it. Without one every run reads the whole topic.
    Raises TerminalError where another run uses the checkpoint, SourceChanged where the topic no longer holds what
    follows it, and ConfigError, also for `schema_registry`, `tz`, `checkpoint` or `spark` beside events.
    """
    target = parse_target(to)
    on_error, on_mismatch, on_ddl = OnError.parse(on_error), OnMismatch.parse(on_mismatch), OnDdl.parse(ddl, "ddl")
    dead_letter_folder = folder(dead_letters, "--dead-letters")

    def apply(events: Events) -> Replicated:
        return replica.replicate(
            events.rejected.sparkSession,
            events,
            to,
            dead_letters=dead_letter_folder,
            on_error=on_error,
            on_mismatch=on_mismatch,
            ddl=on_ddl,
            progress=progress,
        )

    if isinstance(source, Events):
        GivenEvents.check(source, schema_registry=schema_registry, tz=tz, checkpoint=checkpoint, spark=spark)
        target.check(source.rejected.sparkSession)
        return apply(source)
    resume_from = folder(checkpoint, "--checkpoint")
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    if resume_from is not None:
        check_exclusive(resume_from, "--checkpoint")
    target.check(checked.session)
    if resume_from is None:
        with checked.events(progress) as events:
            return apply(events)
    progress("reading", 0, 0)
    return _resume(checked, resume_from, apply)


def _resume(source: TopicSource, folder: AnyPath, apply: Callable[[Events], Replicated]) -> Replicated:
    """Apply what has come since the last run, which left its progress in a folder."""
    with locked(folder, "let it end, or give each run a --checkpoint of its own"):
        stream = TopicStream(source.session, source.uri, folder, registry=source.registry, zone=source.zone)
        with source_errors(source.uri):
            batch = stream.next()
            if batch is None:
                return Replicated(())
            with batch.events as events:
                applied = apply(events)
            stream.commit(batch)
    if not batch.progress.rows_waiting:
        return applied
    waiting = f"{batch.progress.rows_waiting:,} rows wait in {folder} for the schemas of their tables"
    return replace(applied, warnings=(*applied.warnings, waiting))
