"""A topic applied batch after batch, until somebody says that it is enough."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from tidecast._counted import counted
from tidecast._errors import TransientError
from tidecast._progress import Finished, Progress
from tidecast._tso import to_datetime
from tidecast._waiting import Waiting
from tidecast.replica import ReplicaStatus, Replicated
from tidecast.sources import Batch, TopicStream, source_errors

_log = logging.getLogger(__name__)


_WAITING = Waiting()


def next_batch(
    stream: TopicStream,
    uri: str,
    apply: Callable[[Batch], Replicated],
    status: ReplicaStatus,
    afterwards: Callable[[Replicated], None] = lambda _: None,
    limit: int | None = None,
) -> tuple[Batch, Replicated] | None:
    """Apply what is new, at most `limit` messages of a partition, and commit it; None where nothing is new.

    `afterwards` is told what was applied, once it is committed, and `status` all along.
    """
    status.begin()
    with source_errors(uri):
        with status.stage("read"):
            batch = stream.next(limit)
        if batch is None:
            status.idle()
            return None
        status.applying()
        with batch.events, status.stage("apply"):
            applied = apply(batch)
        with status.stage("commit"):
            stream.commit(batch)
    with status.stage("maintain"):
        afterwards(applied)
    status.applied(batch.progress, batch.events.ddl, applied)
    return batch, applied


def follow(
    stream: TopicStream,
    uri: str,
    apply: Callable[[Batch], Replicated],
    progress: Progress,
    stop: threading.Event,
    status: ReplicaStatus,
    afterwards: Callable[[Replicated], None] = lambda _: None,
    *,
    limit: int | None,
    waiting: Waiting = _WAITING,
) -> Replicated:
    """Apply batches as they come, each at most `limit` messages of a partition, until `stop` is set.

    A batch that has begun comes to its end. An error that may pass is logged, and the batch is tried again:
    nothing is committed before it is applied. Other errors go through. Returns what all batches did together.
    """
    total, errors = Replicated(()), 0
    while not stop.is_set():
        begun = time.monotonic()
        try:
            done = next_batch(stream, uri, apply, status, afterwards, limit)
        except TransientError as error:
            errors += 1
            delay = waiting.retry(errors)
            _log.warning("%s; trying again in %.0f s", error, delay)
            status.failed(str(error), error.hint, delay)
            stop.wait(delay)
            continue
        errors = 0
        if done is None:
            stop.wait(waiting.idle)
            continue
        batch, applied = done
        total = total.then(applied)
        progress(Finished(_words(batch, applied, time.monotonic() - begun)), 0, 0)
        del done, batch  # else Java keeps all plans of a batch, and what they broadcast, until the next one is applied
    return total


def _words(batch: Batch, applied: Replicated, seconds: float) -> str:
    """Return what a batch did in so many seconds, for people."""
    rows = sum(table.rows for table in applied.tables)
    of_tables = counted(len(applied.tables), "table", "tables")
    parts = [f"batch {batch.progress.batch}: {counted(rows, 'row change', 'row changes')} of {of_tables}"]
    parts.append(f"{rows / seconds:,.0f} a second")
    if dead := sum(applied.dead_letters.values()):
        parts.append(counted(dead, "dead letter", "dead letters"))
    parts += batch.progress.waits
    if batch.progress.watermark is not None:
        time = to_datetime(batch.progress.watermark).isoformat(timespec="seconds")
        parts.append(f"resolved-ts {batch.progress.watermark} ({time})")
    return ", ".join(parts)
