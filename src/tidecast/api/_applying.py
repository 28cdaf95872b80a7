"""How events are applied to tables: the options of `replicate`, checked, and what a checkpoint adds to them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._errors import ConfigError
from tidecast._go import parse_duration
from tidecast._policy import DdlPolicy, DdlWords, OnDataLoss, OnError, OnMismatch, OnUnrepresentable
from tidecast._progress import Progress
from tidecast._uri import Place, parse_place
from tidecast.api._source import TopicSource, folder
from tidecast.model import Events
from tidecast.replica import (
    Again,
    AppliedBatch,
    AppliedKeys,
    Contents,
    Proofs,
    Replicated,
    Settings,
    check_applied,
    noted_in_commits,
    parse_target,
    place_of,
    write_ledger,
)
from tidecast.sources import Batch, TopicStream
from tidecast.storage import AnyPath, Lock, check_exclusive, locked

_log = logging.getLogger(__name__)
_KEYS, _PROOF = "keys", "proof"
_REPLAY_WINDOW = "24h"


@dataclass(frozen=True)
class Applying:
    """The tables that events are applied to, and how; see `tidecast.replicate`."""

    to: str
    dead_letters: AnyPath
    on_error: OnError
    on_mismatch: OnMismatch
    on_unrepresentable: OnUnrepresentable
    on_ddl: DdlPolicy
    contents: Contents
    settings: Settings

    @classmethod
    def of(
        cls,
        to: str,
        *,
        dead_letters: str | None,
        on_error: str = OnError.DEAD_LETTER,
        on_mismatch: str,
        ddl: DdlWords,
        mode: str,
        metadata: Sequence[str],
        on_unrepresentable: str,
        config: str | os.PathLike[str] | None,
    ) -> Applying:
        """Return what the options of `tidecast.replicate` say. Raises ConfigError for a wrong one."""
        target, settings = parse_target(to), Settings.of(config)
        return cls(
            to,
            target.dead_letters(folder(dead_letters, "--dead-letters")),
            OnError.parse(on_error),
            OnMismatch.parse(on_mismatch),
            OnUnrepresentable.parse(on_unrepresentable),
            DdlPolicy.parse(settings.ddl, ddl),
            Contents.parse(mode, metadata),
            settings,
        )

    def check(self, spark: SparkSession) -> None:
        """Refuse tables that the session cannot write."""
        parse_target(self.to).check(spark)

    def apply(
        self,
        events: Events,
        progress: Progress,
        applied: AppliedKeys | None = None,
        proofs: Proofs | None = None,
        *,
        dry_run: bool = False,
    ) -> Replicated:
        """Apply a batch; see `tidecast.replica.replicate`."""
        return replica.replicate(
            events.rejected.sparkSession,
            events,
            self.to,
            dead_letters=self.dead_letters,
            on_error=self.on_error,
            on_mismatch=self.on_mismatch,
            ddl=self.on_ddl,
            contents=self.contents,
            on_unrepresentable=self.on_unrepresentable,
            settings=self.settings,
            applied=applied,
            proofs=proofs,
            progress=progress,
            dry_run=dry_run,
        )


@dataclass(frozen=True)
class Checkpoint:
    """The folder that keeps what has been applied of a source to tables.

    `window` is how many milliseconds of commit-ts a key's last change is kept for.
    """

    folder: AnyPath
    source: TopicSource
    applying: Applying
    window: int
    resolved_only: bool = False
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    _check: Callable[[SparkSession, str, str], None] = field(default_factory=lambda: cache(check_applied))

    def stream(self) -> TopicStream:
        """Open the source where the checkpoint left it."""
        return TopicStream(
            self.source.session,
            self.source.uri,
            self.folder,
            registry=self.source.registry,
            zone=self.source.zone,
            resolved_only=self.resolved_only,
            on_data_loss=self.on_data_loss,
        )

    @contextmanager
    def held(self, busy: str) -> Iterator[TopicStream]:
        """Keep other runs from the checkpoint, and from the tables of its source; give the open source.

        Raises TerminalError, with the hint `busy`, where another run has the checkpoint.
        """
        with ExitStack() as held:
            held.enter_context(locked(self.folder, busy))
            stream = self.stream()
            if lock := _lock_of(self.source.session, self.applying.to, self.named(stream)):
                held.enter_context(lock)
            yield stream

    def named(self, stream: TopicStream) -> str:
        """Return what tells the source from others that are applied to the same tables."""
        return source_named(parse_place(self.source.uri), stream.progress.source)

    def keys(self, batch: Batch, passed: int, again: Again | None = None) -> AppliedKeys:
        """Return the keys of the batches before one, of which the first `passed` are known to be applied."""
        now, watermark = batch.progress, batch.progress.watermark if self.resolved_only else None
        return AppliedKeys(self.folder / _KEYS, now.batch, self.window, now.covered, watermark, passed, again)

    @property
    def proofs(self) -> Proofs:
        """Return what the tables' rows come to by the batches before."""
        return Proofs(self.folder / _PROOF)

    def begin(self, stream: TopicStream, batch: Batch) -> None:
        """Note that a batch is about to be applied. Raises ConfigError where tables lack what was applied before."""
        if stream.progress.batch and batch.progress.checkpoint:
            self._check(self.source.session, self.applying.to, batch.progress.checkpoint)
        stream.begin(batch)

    def apply(self, stream: TopicStream, batch: Batch, progress: Progress) -> Replicated:
        """Apply a batch and write it into the ledger; the caller commits it."""
        self.begin(stream, batch)
        session, of_batch = self.source.session, self.ledger_row(stream, batch)
        with noted_in_commits(session, of_batch):
            keys = self.keys(batch, stream.progress.covered)
            applied = self.applying.apply(batch.events, progress, keys, self.proofs)
            write_ledger(session, self.applying.to, of_batch, applied)
        if not batch.lost:
            return applied
        _log.warning("goes on with what is there now: %s", batch.lost)
        return replace(applied, warnings=(*applied.warnings, batch.lost))

    def plan(self, stream: TopicStream, batch: Batch, progress: Progress) -> Replicated:
        """Return what `apply` would do to each table."""
        keys = self.keys(batch, stream.progress.covered)
        return self.applying.apply(batch.events, progress, keys, self.proofs, dry_run=True)

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
