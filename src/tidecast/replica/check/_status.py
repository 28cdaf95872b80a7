"""The status of a continuous replica, which other threads read."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidecast._tso import physical_ms
from tidecast.model import Ddl
from tidecast.replica._report import Replicated, TableReport
from tidecast.sources import Progress

WAITING, APPLYING, RETRYING = "waiting", "applying", "retrying"

_RATE_S = 60.0
_SCHEMA_CHANGES = 20
_WELL: Mapping[str, object] = {"problem": None, "hint": None, "retries": 0, "retry_at": None}
_STAGES = {
    "read": "reading what is new",
    "apply": "planning the tables",
    "commit": "writing the checkpoint",
    "maintain": "maintaining tables",
}


@dataclass(frozen=True)
class Step:
    """The current step: since when, in seconds since the epoch, and how many of how many parts are done, 0 of 0 if that
    is unknown."""

    text: str
    since: float
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class TableStatus:
    """The counts of a table's row changes since the start; `last_commit_ts` is the newest that was applied, and
    `lag` how many seconds after it that was."""

    report: TableReport
    last_commit_ts: int | None = None
    lag: float | None = None


@dataclass(frozen=True)
class Status:
    """A replica as it is now.

    `state` is `waiting` for new messages, `applying` a batch, or `retrying` after `problem`: the last of `retries` in
    a row, with `hint`, what to do about it, and `retry_at`, when it is tried again. `since` is when it started; both
    are in seconds since the epoch. `step` is what is being done. `stages` are the seconds that each part of the last
    batch took, `rows` the row changes since the start and `rate` those a second, over the last minute. `waits` says
    what waits in the checkpoint, `dead_letters_at` where dead letters lie. `schema_changes` are the last that came.
    """

    source: str
    to: str
    since: float
    state: str = WAITING
    step: Step | None = None
    problem: str | None = None
    hint: str | None = None
    retries: int = 0
    retry_at: float | None = None
    errors: int = 0
    batches: int = 0
    batch: int | None = None
    resolved_ts: int | None = None
    rows: int = 0
    rate: float = 0.0
    waits: tuple[str, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    tables: Mapping[str, TableStatus] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    dead_letters_at: str | None = None
    schema_changes: tuple[Ddl, ...] = ()
    warnings: tuple[str, ...] = ()

    def lag(self, now: float) -> float | None:
        """Return how many seconds ago the source was as the tables are; None without a resolved-ts."""
        return _seconds_since(self.resolved_ts, now)


class ReplicaStatus:
    """A replica's status, kept up to date by the thread that applies, and read by others.

    `clock` gives seconds since the epoch.
    """

    def __init__(self, source: str, to: str, clock: Callable[[], float] = time.time) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._status = Status(source, to, clock())
        self._stages: dict[str, float] = {}
        self._rates: deque[tuple[float, int]] = deque()
        self._total = Replicated(())

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock()

    def read(self) -> Status:
        """Return it as it is now."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            span = min(max(now - self._status.since, 1.0), _RATE_S)
            return replace(self._status, rate=sum(rows for _, rows in self._rates) / span)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Take the time of a part of a batch."""
        started = time.monotonic()
        self._set(step=Step(_STAGES[name], self._clock()))
        try:
            yield
        finally:
            self._stages[name] = time.monotonic() - started
            self._set(step=None)

    def tell(self, text: str, done: int, total: int) -> None:
        """Tell what of a part is being done; a `tidecast._progress.Progress`."""
        self._set(step=Step(text, self._clock(), done, total))

    def resume(self, progress: Progress) -> None:
        """Tell what a checkpoint knows of the batches before."""
        if progress.batch:
            self._set(**_reached(progress))

    def begin(self) -> None:
        """Tell that a batch is looked for."""
        self._stages = {}

    def applying(self) -> None:
        """Tell that a batch has come."""
        self._set(state=APPLYING)

    def idle(self) -> None:
        """Tell that nothing is new."""
        self._set(state=WAITING, **_WELL)

    def failed(self, problem: str, hint: str | None, delay: float) -> None:
        """Tell what has failed and will be tried again, in so many seconds."""
        before = self._status
        self._set(
            state=RETRYING,
            problem=problem,
            hint=hint,
            retries=before.retries + 1,
            retry_at=self._clock() + delay,
            errors=before.errors + 1,
        )

    def applied(self, progress: Progress, ddl: tuple[Ddl, ...], done: Replicated) -> None:
        """Tell what a batch did, which is committed."""
        now, before = self._clock(), self._status
        self._total = self._total.then(done)
        tables = dict(before.tables)
        newest = {table.name: table for table in done.tables}
        for report in self._total.tables:
            if report.name in newest:
                lag = _seconds_since(newest[report.name].last_commit_ts, now)
                tables[report.name] = TableStatus(report, report.last_commit_ts, lag)
        rows = sum(table.rows for table in done.tables)
        with self._lock:
            self._rates.append((now, rows))
            self._forget(now)
        self._set(
            state=WAITING,
            **_WELL,
            batches=before.batches + 1,
            **_reached(progress),
            rows=before.rows + rows,
            stages=dict(self._stages),
            tables=tables,
            dead_letters=self._total.dead_letters,
            dead_letters_at=None if self._total.dead_letters_in is None else str(self._total.dead_letters_in),
            schema_changes=(*before.schema_changes, *ddl)[-_SCHEMA_CHANGES:],
            warnings=self._total.warnings,
        )

    def _forget(self, now: float) -> None:
        while self._rates and self._rates[0][0] < now - _RATE_S:
            self._rates.popleft()

    def _set(self, **members: object) -> None:
        with self._lock:
            self._status = replace(self._status, **members)  # type: ignore[arg-type]


def _reached(progress: Progress) -> dict[str, object]:
    """Return the part of a status that is about committed batches."""
    return {"batch": progress.batch, "resolved_ts": progress.watermark, "waits": tuple(progress.waits)}


def _seconds_since(commit_ts: int | None, now: float) -> float | None:
    return None if commit_ts is None else max(now - physical_ms(commit_ts) / 1000, 0.0)
