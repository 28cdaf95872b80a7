"""Changefeeds on Spark: each reads the source batch by batch, at its own pace, and publishes what it reads.

A step is a plain batch, not a standing query of Spark. So a hundred idle changefeeds cost one look at the source's end
each, and no thread, no listener and no job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter, ValidationError
from pyspark.sql import SparkSession

from tidecast._errors import SourceChanged, TerminalError
from tidecast.changefeed._runner import DEAD_LETTERS, Job, StepResult
from tidecast.changefeed._source_tables import SourceTables
from tidecast.config import ChangefeedConfig
from tidecast.model import TableSchema, compose, with_commit_ts
from tidecast.protocols import protocol_named
from tidecast.publish import Bootstraps, announce, bootstraps_of, check_publishable, publish
from tidecast.registry import Registry, open_registry
from tidecast.sources import TopicStream, filter_commit_ts, source_errors
from tidecast.storage import AnyPath, StateFile, remove_tree

_STATE, _SOURCE = "checkpoint.json", "source"
_STEP = 200_000


@dataclass(frozen=True)
class _Checkpoint:
    """How far a changefeed has come.

    It publishes later changes than `from_ts`. `highest` is the highest commit-ts by partition, for a source without
    watermarks. `table_topics` are its tables: database, name, topic. `bootstraps` is the state of repeated schemas.
    `codec` is that of the writer of `protocol`, by the schema changes so far. `revision` is that of the changefeed.
    """

    checkpoint_ts: int
    from_ts: int
    highest: dict[str, int] = field(default_factory=dict)
    table_topics: list[tuple[str, str, str]] = field(default_factory=list)
    bootstraps: str = "[]"
    codec: str = ""
    protocol: str = ""
    revision: int = 0


_CHECKPOINT = TypeAdapter(_Checkpoint)


class SparkRunner:
    """Moves changefeeds over the topic that `source` names.

    `registry` is the source's, where its protocol needs one; `zone` and `cluster_id` are TiCDC's server options;
    `folder` keeps what the runner itself reads of the source; `step` bounds the messages of a partition in a step.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: str,
        folder: AnyPath,
        *,
        registry: Registry | None = None,
        zone: str = "UTC",
        cluster_id: str = "default",
        step: int = _STEP,
    ) -> None:
        self._spark, self._source, self._folder = spark, source, folder
        self._registry, self._zone, self._cluster_id, self._step = registry, zone, cluster_id, step
        self._streams: dict[str, TopicStream] = {}
        self._states: dict[str, StateFile] = {}
        self._tables: SourceTables | None = None
        self._looking = threading.Lock()

    def now(self) -> int:
        """Return the present moment as a TSO."""
        return compose(time.time_ns() // 1_000_000)

    def alive(self) -> bool:
        """Tell whether Spark still answers: neither its Java nor its context has ended."""
        try:
            self._spark.range(1).collect()
        except Exception:  # py4j, Java and Spark Connect each have errors of their own for it
            return False
        return True

    def check(self, config: ChangefeedConfig) -> None:
        """Connect to the sink and its registry and make the default topic ready. Raises TidecastError."""
        check_publishable(config)
        registry = _registry_of(config)
        if registry:
            registry.check()
        config.open_sink(self._zone).ensure(config.default_topic)

    def tables(self) -> Sequence[TableSchema]:
        """Return the newest schema of every table that the source has, and of every view, as far as it goes now."""
        with self._looking, source_errors(self._source):
            try:
                return self._look()
            except SourceChanged:  # the messages that the source holds now were asked for
                self.forget("")
                self._tables = None
                remove_tree(self._folder / _SOURCE)
                return self._look()

    def _look(self) -> Sequence[TableSchema]:
        stream = self._stream("", self._folder)
        if self._tables is None:
            self._tables = SourceTables(self._folder / _SOURCE, stream.history)
        for batch in stream.upto_now(self._step):
            with batch.events as events:
                self._tables.take(events)
            stream.commit(batch)
        return self._tables()

    def checkpoint_ts(self, job: Job) -> int:
        """Return how far a changefeed has come."""
        return self._checkpoint(job).checkpoint_ts

    def overwrite(self, job: Job, checkpoint_ts: int) -> None:
        """Set how far a changefeed has come; it reads its source anew and publishes what is later."""
        try:
            before = self._checkpoint(job)
        except TerminalError:  # this mends it
            before = _Checkpoint(checkpoint_ts, checkpoint_ts)
        self.forget(job.id)
        try:
            self._stream(job.id, job.folder).restart()
        except TerminalError:  # its state is damaged, or of another source
            remove_tree(job.folder / _SOURCE, ignore_errors=True)
        self._save(job, _begun_anew(before, checkpoint_ts))

    def step(self, job: Job) -> StepResult:
        """Publish what the source holds beyond the checkpoint, and save the new checkpoint."""
        stream, state = self._stream(job.id, job.folder), self._checkpoint(job)
        if state.revision != job.revision:
            state = self._updated(job, state, stream)
        bootstraps = bootstraps_of(job.config, state.bootstraps.encode())
        with source_errors(self._source):
            registry = _registry_of(job.config)
            batch = stream.next(self._step)
            if batch is None:
                if self._announce(job, state, bootstraps, registry):
                    self._save(job, replace(state, bootstraps=bootstraps.state().decode()))
                waiting = stream.progress.rows_waiting
                return StepResult(state.checkpoint_ts, caught_up=not waiting, rows_waiting=waiting)
            expired = stream.expired_since(state.from_ts) if stream.progress.offsets is None else None
            with batch.events as held:
                read = with_commit_ts(held, state.highest)
                tells, highest = stream.tells_watermarks(batch.progress), dict[str, int]()
                if (stream.progress.watermark or 0) > state.from_ts and not job.target_ts:
                    events = read  # all that comes now is within the bounds: no need to look at it
                else:
                    events, highest = filter_commit_ts(read, state.from_ts, job.target_ts)
                done = publish(
                    events,
                    job.config,
                    job.config.open_sink(self._zone),
                    registry,
                    zone=self._zone,
                    cluster_id=self._cluster_id,
                    bootstraps=bootstraps,
                    table_topics={(database, table): topic for database, table, topic in state.table_topics},
                    codec_state=state.codec.encode(),
                    dead_letters=job.folder / DEAD_LETTERS,
                )
                versions = {t.schema.name: t.schema.version for t in events.tables}
            known = {**state.highest, **{k: max(v, state.highest.get(k, 0)) for k, v in highest.items()}}
            passed = batch.progress.watermark if tells else min(known.values(), default=None)
            reached = max(state.checkpoint_ts, passed or 0)  # a checkpoint never falls, and stops at the target
            if job.target_ts:
                # Where nothing tells that its transaction is over, the next step may have more of it.
                over = tells or not batch.more
                reached = min(reached, job.target_ts if over else job.target_ts - 1)
            table_topics = [(*table, topic) for table, topic in sorted(done.table_topics.items())]
            after = replace(
                state,
                checkpoint_ts=reached,
                highest=known,
                table_topics=table_topics,
                codec=done.codec.decode(),
                protocol=job.config.protocol,
            )
            warnings = list(done.warnings)
            if expired:
                warnings.append(f"changes after {state.from_ts} may be missing: {expired} expired")
            if tells and reached > max(state.checkpoint_ts, done.watermark or 0):
                self._announce(job, after, bootstraps, registry, watermark=reached)
        # In this order: what a batch told is not told again, while a batch may well come twice.
        self._save(job, replace(after, bootstraps=bootstraps.state().decode()))
        stream.commit(batch)
        return StepResult(
            reached,
            messages=done.messages,
            versions=versions,
            skipped=done.skipped,
            dead_letters=sum(done.dead_letters.values()),
            more=batch.more,
            caught_up=not (batch.more or batch.progress.rows_waiting),
            rows_waiting=batch.progress.rows_waiting,
            warnings=warnings,
        )

    def _updated(self, job: Job, state: _Checkpoint, stream: TopicStream) -> _Checkpoint:
        """Let an updated changefeed read its source anew, as its sink may have nothing above the checkpoint."""
        with source_errors(self._source):
            stream.check()
        # Where nothing tells that all up to the checkpoint has come, older rows may be yet to be read.
        from_ts = state.checkpoint_ts if stream.tells_watermarks(stream.progress) else state.from_ts
        stream.restart()
        bootstraps = bootstraps_of(job.config, state.bootstraps.encode())
        bootstraps.forget_readers()
        state = replace(
            _begun_anew(state, from_ts),
            checkpoint_ts=state.checkpoint_ts,
            bootstraps=bootstraps.state().decode(),
            codec=state.codec if state.protocol == job.config.protocol else "",
            revision=job.revision,
        )
        self._save(job, state)
        return state

    def forget(self, job_id: str) -> None:
        """Drop what is kept in memory of a changefeed."""
        self._streams.pop(job_id, None)
        self._states.pop(job_id, None)

    def _announce(
        self,
        job: Job,
        state: _Checkpoint,
        bootstraps: Bootstraps,
        registry: Registry | None,
        watermark: int | None = None,
    ) -> bool:
        """Send the schemas whose time has come, and a watermark that no message of the batch told."""
        return announce(
            self._spark,
            job.config,
            job.config.open_sink(self._zone),
            registry,
            topics={topic for _, _, topic in state.table_topics},
            bootstraps=bootstraps,
            watermark=watermark,
            cluster_id=self._cluster_id,
        )

    def _stream(self, name: str, folder: AnyPath) -> TopicStream:
        if name not in self._streams:
            self._streams[name] = TopicStream(
                self._spark, self._source, folder / _SOURCE, registry=self._registry, zone=self._zone
            )
        return self._streams[name]

    def _checkpoint(self, job: Job) -> _Checkpoint:
        kept = self._state(job).read()
        if kept is None:
            return _Checkpoint(job.start_ts, job.start_ts)
        try:
            return _CHECKPOINT.validate_json(kept)
        except ValidationError as error:
            hint = "tidecast cli changefeed resume --overwrite-checkpoint-ts TSO begins anew from there"
            raise TerminalError(
                f"this is no checkpoint: {error.errors()[0]['msg']}", where=str(job.folder / _STATE), hint=hint
            ) from None

    def _state(self, job: Job) -> StateFile:
        return self._states.setdefault(job.id, StateFile(job.folder / _STATE))

    def _save(self, job: Job, state: _Checkpoint) -> None:
        self._state(job).write(_CHECKPOINT.dump_json(state))


def _begun_anew(state: _Checkpoint, from_ts: int) -> _Checkpoint:
    """Return the state of a changefeed that publishes what is later than a commit-ts, from its source's start."""
    return replace(state, checkpoint_ts=from_ts, from_ts=from_ts, highest={}, table_topics=[])


def _registry_of(config: ChangefeedConfig) -> Registry | None:
    if not (config.schema_registry and protocol_named(config.protocol).needs_registry):
        return None
    return open_registry(config.schema_registry)
