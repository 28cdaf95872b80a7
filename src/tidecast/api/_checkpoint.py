"""The checkpoint of a replica: a batch applied, and kept from other runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tidecast._errors import ConfigError
from tidecast._go import parse_duration
from tidecast._policy import OnDataLoss
from tidecast._progress import Progress
from tidecast._uri import Place, parse_place
from tidecast.api._source import TopicSource
from tidecast.replica import (
    Again,
    AppliedBatch,
    AppliedKeys,
    ApplyOptions,
    Proofs,
    Replicated,
    State,
    check_applied,
    noted_in_commits,
    place_of,
    replicate,
    write_ledger,
)
from tidecast.sources import Batch, TopicStream
from tidecast.storage import AnyPath, Lock, check_exclusive, locked

_log = logging.getLogger(__name__)
_KEYS, _PROOF = "keys", "proof"
_REPLAY_WINDOW = "24h"


@dataclass(frozen=True)
class Checkpoint:
    """The folder that keeps what has been applied of a source to tables.

    `window` is how many milliseconds of commit-ts a key's last change is kept for.
    """

    folder: AnyPath
    source: TopicSource
    options: ApplyOptions
    window: int
    resolved_only: bool = False
    on_data_loss: OnDataLoss = OnDataLoss.FAIL

    def stream(self) -> TopicStream:
        """Open the source where the checkpoint left it. Raises ConfigError where tables lack what it has applied."""
        stream = TopicStream(
            self.source.session,
            self.source.uri,
            self.folder,
            registry=self.source.registry,
            zone=self.source.zone,
            resolved_only=self.resolved_only,
            on_data_loss=self.on_data_loss,
        )
        if stream.progress.batch and stream.progress.checkpoint:
            check_applied(self.source.session, self.options.to, stream.progress.checkpoint)
        return stream

    @contextmanager
    def locked_stream(self, busy: str) -> Iterator[TopicStream]:
        """Keep other runs from the checkpoint, and from the tables of its source; give the open source.

        Raises TerminalError, with the hint `busy`, where another run has the checkpoint.
        """
        with ExitStack() as held:
            held.enter_context(locked(self.folder, busy))
            stream = self.stream()
            if lock := _lock_of(self.source.session, self.options.to, self.named(stream)):
                held.enter_context(lock)
            yield stream

    def named(self, stream: TopicStream) -> str:
        """Return what tells the source from others that are applied to the same tables."""
        return source_named(parse_place(self.source.uri), stream.progress.source)

    def state(self, batch: Batch, passed: int, again: Again | None = None) -> State:
        """Return what the batches before one have applied; `passed` and `again` as in `AppliedKeys`."""
        now, watermark = batch.progress, batch.progress.watermark if self.resolved_only else None
        keys = AppliedKeys(self.folder / _KEYS, now.batch, self.window, now.covered, watermark, passed, again)
        return State(keys, Proofs(self.folder / _PROOF))

    def apply(self, stream: TopicStream, batch: Batch, progress: Progress) -> Replicated:
        """Apply a batch and write it into the ledger; the caller commits it."""
        stream.begin(batch)
        session, of_batch = self.source.session, self.ledger_row(stream, batch)
        with noted_in_commits(session, of_batch):
            state = self.state(batch, stream.progress.covered)
            applied = replicate(batch.events, self.options, state=state, progress=progress)
            write_ledger(session, self.options.to, of_batch, applied)
        if not batch.lost:
            return applied
        _log.warning("goes on with what is there now: %s", batch.lost)
        return replace(applied, warnings=(*applied.warnings, batch.lost))

    def plan(self, stream: TopicStream, batch: Batch, progress: Progress) -> Replicated:
        """Return what `apply` would do to each table."""
        state = self.state(batch, stream.progress.covered)
        return replicate(batch.events, self.options, state=state, progress=progress, dry_run=True)

    def ledger_row(self, stream: TopicStream, batch: Batch) -> AppliedBatch:
        """Return a batch as the ledger knows it."""
        named, now, timed = self.named(stream), batch.progress, batch.events.has_commit_ts
        return AppliedBatch(
            named, now.checkpoint, now.batch, batch.moved, now.watermark, timed, batch.highest, batch.lost
        )


def source_named(place: Place, name: str) -> str:
    """Return what the ledger calls a place, which a checkpoint calls by a name."""
    return " ".join(part for part in (*sorted(place.hosts), name, place.params.get("topics", "")) if part)


def check_goes_on(option: str, value: object, checkpoint: str | None) -> None:
    """Refuse an option that takes a checkpoint where there is none."""
    if value is not None and checkpoint is None:
        raise ConfigError(f"{option} is for a replica that goes on", hint="name a folder: --checkpoint DIR")


def replay_window_of(checkpoint: str | None, text: str | None) -> int:
    """Return the milliseconds that a text says."""
    check_goes_on("--replay-window", text, checkpoint)
    try:
        milliseconds = parse_duration(_REPLAY_WINDOW if text is None else text) // 1_000_000
    except ValueError as error:
        raise ConfigError(f"--replay-window: {error}") from None
    if milliseconds < 0:
        raise ConfigError(f"--replay-window is a duration of 0 or more, and not {text}")
    return milliseconds


def _lock_of(spark: SparkSession, to: str, named: str) -> Lock | None:
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
