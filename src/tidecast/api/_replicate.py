"""Events onto tables."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidecast import replica
from tidecast._errors import ConfigError, needs_extra
from tidecast._policy import DdlWords, OnDataLoss
from tidecast._progress import Progress, no_progress
from tidecast._uri import parse_place, redact_uri
from tidecast.api._checkpoint import Checkpoint, check_goes_on, replay_window_of
from tidecast.api._follow import follow, next_batch
from tidecast.api._source import GivenEvents, TopicSource, folder, row_count
from tidecast.model import Events
from tidecast.protocols import guess_protocol
from tidecast.replica import ApplyOptions, ReplicaStatus, Replicated, maintain
from tidecast.sources import Batch, TopicStream, source_errors
from tidecast.storage import check_exclusive

if TYPE_CHECKING:
    from tidecast.server import Listener

_LAST_ANSWER_S = 5.0
_COMPACT_EVERY = 50


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
    """Apply a topic to tables, or apply events; the same batch again, or a longer one of the same topic, is safe.

    `to` is a folder (a path with a `/` or a leading `.`, or a URI) of Delta tables at `to/<database>/<table>`, or a
    Spark catalog, of Delta or Iceberg tables. Each table gets the newest row of each key; rows of tables without a key
    are appended. Messages that cannot be read or applied are appended to `dead_letters` (by default the folder's
    `_dead_letters`), with them all messages of a table that `to` cannot take, for its name, its columns or what lies
    there; with `on_error="fail"` one such message stops the run before any table is touched.

    `source` is a URI, or events. The folder `checkpoint` keeps what has been applied of a URI's topic, so that the next
    run goes on from there; rows whose schema has not come yet wait in it. Without one every run reads the whole topic.

    Each row's checksum is checked (see `tidecast.checksum.verify`). A row that does not match goes to the dead letters,
    as a message that cannot be applied. With `on_mismatch="apply"` it is applied, with `"fail"` it stops the run before
    any table is touched. A later row of the same key is applied in any case.

    With `mode` "soft-delete" a deleted row stays, with `_deleted` true, and `_commit_ts` is that of its last change.
    With "log" each change is a row, appended once, with `_op`, `_commit_ts`, `_verdict`, `_topic`, `_partition`,
    `_offset` and `_timestamp`. That of a delete is the row before it, of which Avro shows the key. With "history" a row
    of a table with a key has a row for each of its versions, with `_valid_from` and `_valid_to`, commit-ts, the latter
    null for the one that holds now. A table keeps what it was made with. `metadata` are columns that tables get
    besides: `_commit_ts` and `_verdict`.

    A value that the type of its column cannot hold, such as a zero date, is null in the table, and counted. With
    `on_unrepresentable` "string" columns that may have such values keep MySQL's text. With "fail" a row with such a
    value is a message that cannot be applied.

    `ddl` says what is done where a table's schema changes: with "lenient", the default, columns are added, types become
    wider, tables are renamed, and a column that is gone from the source, or renamed there, stays, null in new rows; a
    change that the table cannot follow sends its rows to the dead letters. With "try_evolve" columns are dropped and
    renamed, too, and tables are truncated and dropped; "evolve" does the same, but stops the run at a change that a
    table cannot follow. With "ignore" tables stay as they are, and with "exception" any change stops the run before any
    table is touched. Several words may be given, of which some are for one kind alone:
    `["lenient", "drop-column=ignore"]`; or a mapping, `{"default": "lenient", "drop-column": "ignore"}`. What became of
    each schema change that the messages tell is a row of the table `_tidecast/schema_changes` beside the tables.

    `config` is a TOML file of routes, by which tables get another name or become one, of masks: columns that are
    dropped, hashed or redacted after their row was checked, and of what `ddl` says, which counts before it. A key's
    columns can only be hashed, and a table keeps the masks of its columns. Dead letters are messages as they were sent.

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
    options = ApplyOptions.of(
        to,
        dead_letters=dead_letters,
        on_error=on_error,
        on_mismatch=on_mismatch,
        ddl=ddl,
        mode=mode,
        metadata=metadata,
        on_unrepresentable=on_unrepresentable,
        config=config,
    )
    if isinstance(source, Events):
        beside = {
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
        GivenEvents.check(source, schema_registry=schema_registry, tz=tz, spark=spark, **beside)
        options.target.check(source.rejected.sparkSession)
        progress("applying rows", 0, row_count(source))
        return replica.replicate(source, options, progress=progress, dry_run=dry_run)
    resume_from = folder(checkpoint, "--checkpoint")
    _check_batches(checkpoint, batch_size, continuous=continuous)
    if dry_run and continuous:
        raise ConfigError("--dry-run is for one batch", hint="leave out --continuous")
    if (addr is None and any((ca, cert, key, users, users_file))) or (addr is not None and not continuous):
        raise ConfigError("a status page is for --continuous, at an --addr", hint="--addr 127.0.0.1:8301")
    window = replay_window_of(checkpoint, replay_window)
    compact = _compact_every(checkpoint, compact_every)
    check_goes_on("--resolved-only", resolved_only or None, checkpoint)
    check_goes_on("--on-data-loss", on_data_loss, checkpoint)
    data_loss = OnDataLoss.parse(on_data_loss or OnDataLoss.FAIL)
    checked = TopicSource.check(source, schema_registry=schema_registry, tz=tz, spark=spark)
    if resume_from is None:
        options.target.check(checked.session)
        with checked.events(progress) as events:
            progress("applying rows", 0, row_count(events))
            applied = replica.replicate(events, options, progress=progress, dry_run=dry_run)
            return _unread(events, checked.uri, applied)
    check_exclusive(resume_from, "--checkpoint")
    listener = _listener(addr, users, users_file, ca=ca, cert=cert, key=key)
    options.target.check(checked.session)
    state = Checkpoint(resume_from, checked, options, window, resolved_only, data_loss)
    progress("reading", 0, 0)
    if dry_run:
        return _next_planned(state, progress)
    status = ReplicaStatus(redact_uri(checked.uri), redact_uri(to))
    with _shown(status, listener):
        if listener:
            ready(listener.url)
        with state.locked_stream("let it end, or give each run a --checkpoint of its own") as stream:
            status.resume(stream.progress)
            until = (stop or threading.Event()) if continuous else None
            return _run(state, stream, status, progress, until, batch_size, compact)


def _run(
    state: Checkpoint,
    stream: TopicStream,
    status: ReplicaStatus,
    progress: Progress,
    until: threading.Event | None,
    limit: int | None,
    compact: int,
) -> Replicated:
    """Apply the next batch of a checkpoint, or with `until` all that come before it is set."""

    def tell(text: str, done: int, total: int) -> None:
        status.tell(text, done, total)
        progress(text, done, total)

    def apply(batch: Batch) -> Replicated:
        if until is None:  # else each batch is reported
            progress("applying rows", 0, row_count(batch.events))
        return _unread(batch.events, state.source.uri, state.apply(stream, batch, tell))

    def afterwards(applied: Replicated) -> None:
        maintain(state.source.session, state.options.to, applied, compact)

    if until:
        applied = follow(stream, state.source.uri, apply, progress, until, status, afterwards, limit=limit)
    else:
        done = next_batch(stream, state.source.uri, apply, status, afterwards)
        applied = done[1] if done else Replicated(())
    return replace(applied, warnings=(*applied.warnings, *stream.waits))


def _next_planned(state: Checkpoint, progress: Progress) -> Replicated:
    """Return what the next batch of a checkpoint would do."""
    stream = state.stream()
    with source_errors(state.source.uri):
        batch = stream.next(keep=False)
        if batch is None:
            return Replicated(())
        with batch.events:
            progress("applying rows", 0, row_count(batch.events))
            return state.plan(stream, batch, progress)


def _unread(events: Events, uri: str, applied: Replicated) -> Replicated:
    """Return the report with a warning where not one message could be read: another protocol may have written them."""
    if events.tables or events.ddl or events.bootstraps or events.watermark is not None or not applied.dead_letters:
        return applied
    named = parse_place(uri).params["protocol"]
    first = events.rejected.where(F.octet_length("value") > 0).select("value").head()
    likely = guess_protocol(bytes(first["value"])).name if first else named
    text = f"no message could be read as protocol={named}" + (f": it looks like {likely}" if likely != named else "")
    return replace(applied, warnings=(*applied.warnings, text))


def _listener(
    addr: str | None, users: Mapping[str, str] | None, users_file: str | None, **tls: str | None
) -> Listener | None:
    """Open the address of a status page, None without one."""
    if addr is None:
        return None
    with needs_extra("server", "--addr"):
        from tidecast.server import Access, Listener

    return Listener.open(addr, Access.of(users, users_file, **tls))


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


def _compact_every(checkpoint: str | None, versions: int | None) -> int:
    check_goes_on("--compact-every", versions, checkpoint)
    if versions is not None and versions < 0:
        raise ConfigError("--compact-every is a number of versions, or 0 for never")
    return _COMPACT_EVERY if versions is None else versions
