"""Events onto tables."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, overload

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._errors import ConfigError, needs_extra
from tidecast._go import parse_duration
from tidecast._policy import DdlPolicy, DdlWords, OnDataLoss, OnError, OnMismatch, OnUnrepresentable
from tidecast._progress import Progress, no_progress
from tidecast._uri import Place, parse_place, redact_uri
from tidecast.api._follow import follow, next_batch
from tidecast.api._source import GivenEvents, TopicSource, folder, row_count
from tidecast.model import Events
from tidecast.replica import (
    AppliedBatch,
    AppliedKeys,
    Contents,
    Proofs,
    ReplicaStatus,
    Replicated,
    Settings,
    check_applied,
    maintain,
    noted_in_commits,
    parse_target,
    place_of,
    write_ledger,
)
from tidecast.sources import Batch, TopicStream, source_errors
from tidecast.storage import Lock, check_exclusive, locked

if TYPE_CHECKING:
    from tidecast.server import Listener

_log = logging.getLogger(__name__)
_LAST_ANSWER_S = 5.0
KEYS, PROOF = "keys", "proof"
_REPLAY_WINDOW, _COMPACT_EVERY = "24h", 50


@overload
def replicate(
    source: Events,
    to: str,
    *,
    dead_letters: str | None = ...,
    on_error: str = ...,
    on_mismatch: str = ...,
    ddl: DdlWords = ...,
    mode: str = ...,
    metadata: Sequence[str] = ...,
    on_unrepresentable: str = ...,
    config: str | os.PathLike[str] | None = ...,
    dry_run: bool = ...,
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
    ddl: DdlWords = ...,
    mode: str = ...,
    metadata: Sequence[str] = ...,
    on_unrepresentable: str = ...,
    config: str | os.PathLike[str] | None = ...,
    continuous: bool = ...,
    batch_size: int | None = ...,
    replay_window: str | None = ...,
    compact_every: int | None = ...,
    resolved_only: bool = ...,
    on_data_loss: str | None = ...,
    dry_run: bool = ...,
    addr: str | None = ...,
    ca: str | None = ...,
    cert: str | None = ...,
    key: str | None = ...,
    users: Mapping[str, str] | None = ...,
    users_file: str | None = ...,
    ready: Callable[[str], None] = ...,
    stop: threading.Event | None = ...,
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
    ddl: DdlWords = (),
    mode: str = "current",
    metadata: Sequence[str] = (),
    on_unrepresentable: str = "null",
    config: str | os.PathLike[str] | None = None,
    continuous: bool = False,
    batch_size: int | None = None,
    replay_window: str | None = None,
    compact_every: int | None = None,
    resolved_only: bool = False,
    on_data_loss: str | None = None,
    dry_run: bool = False,
    addr: str | None = None,
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    users: Mapping[str, str] | None = None,
    users_file: str | None = None,
    ready: Callable[[str], None] = lambda url: None,
    stop: threading.Event | None = None,
    progress: Progress = no_progress,
    spark: SparkSession | None = None,
) -> Replicated:
    """Apply a topic to tables, or apply events; see `tidecast.replica.replicate`.

    `source` is a URI, or events. The folder `checkpoint` keeps what has been applied of a URI's topic, so that the next
    run goes on from there; rows whose schema has not come yet wait in it. Without one every run reads the whole topic.

    With `mode` "soft-delete" deleted rows stay in the tables, with `_deleted` true. With "history" each version of a
    row is one, with `_valid_from` and `_valid_to`. With "log" each change is a row.
    `metadata` are columns that tables get besides: `_commit_ts` and `_verdict`.

    `on_unrepresentable` is about values that a table's type cannot hold, such as zero dates. With "string" columns that
    may have such values keep MySQL's text. With "fail" a row with such a value is a message that cannot be applied.

    `ddl` is a word, `"lenient"` by default, or several, of which some are for one kind of schema change:
    `["lenient", "drop-column=ignore"]`; or a mapping, `{"default": "lenient", "drop-column": "ignore"}`.

    `config` is a TOML file of routes, by which tables get another name or become one, of masks: columns that are
    dropped, hashed or redacted, and of what `ddl` says, which counts before it.

    With `checkpoint`, what TiCDC sends again sets no key back to an older change. So each key's commit-ts is kept for
    `replay_window` of commit-ts, a duration such as "30m"; the default is "24h".

    With `checkpoint`, each `compact_every`-th version of a table is compacted, by default the 50th, never with 0. Files
    that its versions of the last week do not need are removed from time to time; see `tidecast.replica.maintain`.

    With `resolved_only` rows wait in `checkpoint` until a watermark in each partition covers their commit-ts. So each
    batch brings all tables to what the source was at its resolved-ts, and `snapshot` finds them so. Every message needs
    a commit-ts.

    If the topic no longer holds the messages after `checkpoint`, as it was re-created or messages expired, the run
    stops. With `on_data_loss` "continue" it goes on with those that are left. The loss is a warning, and stands in the
    ledger.

    With `dry_run` the result's `plans` are the actions of the next batch on each table, and no table, dead letter or
    checkpoint is written. Rows that do not match their checksums are found only when they are applied.

    A topic is read once, up to its present end. `continuous` goes on with later messages until `stop` is set, and
    returns the report on all batches; `checkpoint` is then needed. A batch has at most `batch_size` messages of each
    Kafka partition, and whole files. After a failure that may pass, such as a broker that does not answer, the batch is
    tried again. `progress` gets a line for each batch.

    With `addr`, `host:port`, a continuous replica has a status page there, and metrics for Prometheus at `/metrics`;
    `ready` gets its URL. Any but this machine's own address takes TLS and users, as in `serve`: `ca`, `cert`, `key`,
    `users`, `users_file`.

    Raises TerminalError if another run uses the checkpoint, and SourceChanged if the topic no longer holds the messages
    after it. Raises ConfigError for a wrong option. `schema_registry`, `tz`, `checkpoint`, `continuous` and `spark` are
    wrong beside events, `replay_window`, `compact_every`, `resolved_only` and `on_data_loss` without a checkpoint.
    """
    target = parse_target(to)
    on_error, on_mismatch = OnError.parse(on_error), OnMismatch.parse(on_mismatch)
    contents, of_values = Contents.parse(mode, metadata), OnUnrepresentable.parse(on_unrepresentable)
    settings = Settings.of(config)
    on_ddl = DdlPolicy.parse(settings.ddl, ddl)
    dead_letter_folder = target.dead_letters(folder(dead_letters, "--dead-letters"))

    def apply(
        events: Events,
        applied: AppliedKeys | None = None,
        proofs: Proofs | None = None,
        progress: Progress = progress,
    ) -> Replicated:
        if not continuous:  # which reports each batch
            progress("applying rows", 0, row_count(events))
        return replica.replicate(
            events.rejected.sparkSession,
            events,
            to,
            dead_letters=dead_letter_folder,
            on_error=on_error,
            on_mismatch=on_mismatch,
            ddl=on_ddl,
            contents=contents,
            on_unrepresentable=of_values,
            settings=settings,
            applied=applied,
            proofs=proofs,
            progress=progress,
            dry_run=dry_run,
        )

    if isinstance(source, Events):
        options = {
            "checkpoint": checkpoint,
            "continuous": continuous or None,
            "batch_size": batch_size,
            "replay_window": replay_window,
            "compact_every": compact_every,
            "resolved_only": resolved_only or None,
            "on_data_loss": on_data_loss,
            "addr": addr,
            "stop": stop,
        }
        GivenEvents.check(source, schema_registry=schema_registry, tz=tz, spark=spark, **options)
        target.check(source.rejected.sparkSession)
        return apply(source)
    resume_from = folder(checkpoint, "--checkpoint")
    _check_batches(checkpoint, batch_size, continuous=continuous)
    if dry_run and continuous:
        raise ConfigError("--dry-run is for one batch", hint="leave out --continuous")
    if (addr is None and any((ca, cert, key, users, users_file))) or (addr is not None and not continuous):
        raise ConfigError("a status page is for --continuous, at an --addr", hint="--addr 127.0.0.1:8301")
    window = replay_window_of(checkpoint, replay_window)
    compact = _compact_every(checkpoint, compact_every)
    _check_goes_on("--resolved-only", resolved_only or None, checkpoint)
    _check_goes_on("--on-data-loss", on_data_loss, checkpoint)
    data_loss = OnDataLoss.parse(on_data_loss or OnDataLoss.FAIL)
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    if resume_from is not None:
        check_exclusive(resume_from, "--checkpoint")
    listener = None
    if addr is not None:
        with needs_extra("server", "--addr"):
            from tidecast.server import Access, Listener

        listener = Listener.open(addr, Access.of(users, users_file, ca=ca, cert=cert, key=key))
    target.check(checked.session)
    if resume_from is None:
        with checked.events(progress) as events:
            return apply(events)
    keys, proofs = resume_from / KEYS, Proofs(resume_from / PROOF)
    check = cache(check_applied)

    def open_stream() -> TopicStream:
        return TopicStream(
            checked.session,
            checked.uri,
            resume_from,
            registry=checked.registry,
            zone=checked.zone,
            resolved_only=resolved_only,
            on_data_loss=data_loss,
        )

    def known_keys(batch: Batch, passed: int) -> AppliedKeys:
        now = batch.progress
        return AppliedKeys(keys, now.batch, window, now.covered, now.watermark if resolved_only else None, passed)

    def apply_batch(batch: Batch) -> Replicated:
        now = batch.progress
        if stream.progress.batch and now.checkpoint:
            check(checked.session, to, now.checkpoint)
        stream.begin(batch)
        of_batch = AppliedBatch(
            named,
            now.checkpoint,
            now.batch,
            batch.moved,
            now.watermark,
            batch.events.has_commit_ts,
            batch.begun,
            batch.lost,
        )
        with noted_in_commits(checked.session, of_batch):
            applied = apply(batch.events, known_keys(batch, stream.progress.covered), proofs, tell)
            write_ledger(checked.session, to, of_batch, applied)
        if not batch.lost:
            return applied
        _log.warning("goes on with what is there now: %s", batch.lost)
        return replace(applied, warnings=(*applied.warnings, batch.lost))

    def tell(text: str, done: int, total: int) -> None:
        status.tell(text, done, total)
        progress(text, done, total)

    def afterwards(applied: Replicated) -> None:
        maintain(checked.session, to, applied, compact)

    progress("reading", 0, 0)
    if dry_run:
        stream = open_stream()
        with source_errors(checked.uri):
            batch = stream.next(keep=False)
            if batch is None:
                return Replicated(())
            with batch.events:
                return apply(batch.events, known_keys(batch, stream.progress.covered), proofs)
    status = ReplicaStatus(redact_uri(checked.uri), redact_uri(to))
    with ExitStack() as held:
        held.enter_context(_shown(status, listener))
        if listener:
            ready(listener.url)
        held.enter_context(locked(resume_from, "let it end, or give each run a --checkpoint of its own"))
        stream = open_stream()
        status.resume(stream.progress)
        named = source_of(stream, checked.uri)
        if lock := lock_of(checked.session, to, named):
            held.enter_context(lock)
        if continuous:
            until = stop or threading.Event()
            applied = follow(stream, checked.uri, apply_batch, progress, until, status, afterwards, limit=batch_size)
        else:
            done = next_batch(stream, checked.uri, apply_batch, status, afterwards)
            applied = done[1] if done else Replicated(())
    waiting = [f"{what} in {resume_from}" for what in stream.progress.waits]
    return replace(applied, warnings=(*applied.warnings, *waiting)) if waiting else applied


def source_of(stream: TopicStream, uri: str) -> str:
    """Return what tells a source from others that are applied to the same tables."""
    return source_named(parse_place(uri), stream.progress.source)


def source_named(place: Place, name: str) -> str:
    """Return what the ledger calls a place, which a checkpoint calls by a name."""
    return " ".join(part for part in (*sorted(place.hosts), name, place.params.get("topics", "")) if part)


@contextmanager
def _shown(status: ReplicaStatus, listener: Listener | None) -> Iterator[None]:
    """Show a status page as long as this lasts."""
    if listener is None:
        yield
        return
    from tidecast.server import Service, build_replica_app

    service = Service(build_replica_app(status, listener.access), listener)
    answering = threading.Thread(target=service.run, name="status page", daemon=True)
    answering.start()
    try:
        yield
    finally:
        service.stop()
        answering.join(_LAST_ANSWER_S)


def lock_of(spark: SparkSession, to: str, named: str) -> Lock | None:
    """Return what keeps others from the tables of a source; None where none can be had, as tables need none.

    Raises TerminalError where another run has it.
    """
    try:
        place = place_of(spark, to, named)
        check_exclusive(place, "--to")
        return locked(place, "another run applies this topic to these tables: let it end")
    except ConfigError as error:
        _log.warning("nothing keeps a second run of this topic from these tables: %s", error)
        return None


def _check_batches(checkpoint: str | None, batch_size: int | None, *, continuous: bool) -> None:
    if continuous and checkpoint is None:
        raise ConfigError(
            "a continuous replica has to know after a restart what it has applied",
            hint="name a folder: --checkpoint DIR",
        )
    if batch_size is not None and not continuous:
        raise ConfigError("--batch-size is for --continuous: a run up to the present end is one batch")
    if batch_size is not None and batch_size < 1:
        raise ConfigError("--batch-size is the number of messages of a partition, at least 1")


def _check_goes_on(option: str, value: object, checkpoint: str | None) -> None:
    if value is not None and checkpoint is None:
        raise ConfigError(f"{option} is for a replica that goes on", hint="name a folder: --checkpoint DIR")


def _compact_every(checkpoint: str | None, versions: int | None) -> int:
    _check_goes_on("--compact-every", versions, checkpoint)
    if versions is not None and versions < 0:
        raise ConfigError("--compact-every is a number of versions, or 0 for never")
    return _COMPACT_EVERY if versions is None else versions


def replay_window_of(checkpoint: str | None, text: str | None) -> int:
    """Return the milliseconds that a text says."""
    _check_goes_on("--replay-window", text, checkpoint)
    try:
        milliseconds = parse_duration(_REPLAY_WINDOW if text is None else text) // 1_000_000
    except ValueError as error:
        raise ConfigError(f"--replay-window: {error}") from None
    if milliseconds < 0:
        raise ConfigError(f"--replay-window is a duration of 0 or more, and not {text}")
    return milliseconds
