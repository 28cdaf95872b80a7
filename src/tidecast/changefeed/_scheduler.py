"""Schedule the steps of changefeeds, and set their states by the results."""

from __future__ import annotations

import datetime as dt
import logging
import random
import re
import threading
import time
from dataclasses import dataclass, replace

from tidecast._counted import counted
from tidecast._errors import RegistryError, TerminalError, TidecastError
from tidecast._go import parse_duration
from tidecast._secrets import without_looked_up
from tidecast._uri import HIDDEN, parse_place, redact_uri, secrets_of
from tidecast.changefeed._checks import error_text
from tidecast.changefeed._feed import Feed, Problem, State
from tidecast.changefeed._live import LiveFeed, LiveFeeds
from tidecast.changefeed._runner import Runner, StepResult
from tidecast.config import default_replica_config, secret_values

_log = logging.getLogger(__name__)

_FATAL = re.compile(
    r"CDC:Err(GCTTLExceeded|SnapshotLostByGC|StartTsBeforeGC|InvalidFilterExpression|ExpressionColumnNotFound"
    r"|SchemaSnapshotNotFound|SyncRenameTableFailed|ChangefeedUnretryable|CorruptedDataMutation|DispatcherFailed"
    r"|ColumnSelectorFailed|SinkURIInvalid|KafkaInvalidConfig|MySQLInvalidConfig|StorageSinkInvalidConfig"
    r"|TableAfterDDLNotSplitable)"
)
_RETRIED = (
    "CDC:ErrMessageTooLarge",
    *("CDC:ErrKafkaCreateTopic", "CDC:ErrKafkaNewProducer", "CDC:ErrKafkaAsyncSendMessage"),
)
"""Errors that TiCDC retries although the same call would meet the same wall.

Somebody may mend Kafka meanwhile: raise its limit, start the brokers that replicas lack, or give rights. So it is with
a registry whose answer cannot be used (`RegistryError`).
"""

_NANO = 10**9


@dataclass(frozen=True)
class Timing:
    """When things happen, in seconds.

    A changefeed makes a step every `poll`; one that finds nothing to do waits longer each time, up to `idle`. The
    delay after an error is `first_retry`, doubled for each further one up to `last_retry`, give or take the share
    `jitter`. `stuck` replaces the setting `changefeed-error-stuck-duration`.
    """

    poll: float = 1.0
    idle: float = 5.0
    first_retry: float = 10.0
    last_retry: float = 600.0
    jitter: float = 0.1
    stuck: float | None = None

    def retry(self, errors: int) -> float:
        """Return the delay after so many errors in a row."""
        delay = min(self.first_retry * 2.0 ** min(errors - 1, 30), self.last_retry)
        return delay * random.uniform(1 - self.jitter, 1 + self.jitter)


class Scheduler:
    """The threads that move changefeeds forward, at most `workers` steps at a time; one that waits takes no thread.

    `addr` is the server's address in errors.
    """

    def __init__(self, feeds: LiveFeeds, runner: Runner, timing: Timing, *, workers: int, addr: str) -> None:
        self._feeds, self._runner, self._timing, self._addr = feeds, runner, timing, addr
        self._workers = [threading.Thread(target=self._work, name=f"feed-{n}", daemon=True) for n in range(workers)]

    def start(self) -> None:
        """Begin to work."""
        for worker in self._workers:
            worker.start()

    def stop(self, timeout: float | None = None) -> None:
        """Let the present steps end, and make no more."""
        with self._feeds.changed:
            self._feeds.closing = True
            self._feeds.changed.notify_all()
        end = None if timeout is None else time.monotonic() + timeout
        for worker in self._workers:
            worker.join(None if end is None else max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while live := self._next():
            outcome: StepResult | Exception
            try:
                outcome = self._runner.step(self._feeds.job(live))
            except Exception as error:
                if not self._runner.alive():
                    self._give_up(live)
                    return
                outcome = error
                try:
                    live.checkpoint_ts = max(live.checkpoint_ts, self._runner.checkpoint_ts(self._feeds.job(live)))
                except Exception:
                    _log.debug("changefeed %s: its checkpoint cannot be read", live.feed.id)
            with self._feeds.changed:
                live.busy = False
                try:
                    if isinstance(outcome, StepResult):
                        self._on_success(live, outcome)
                    else:
                        self.on_failure(live, outcome)
                except (OSError, TidecastError) as error:
                    # The saved state is older, and true: the work since then would be done again.
                    why = error.strerror if isinstance(error, OSError) else error
                    _log.error("changefeed %s: its state cannot be saved: %s", live.feed.id, why)
                    live.due = time.monotonic() + self._timing.retry(1)
                self._feeds.changed.notify_all()

    def _give_up(self, live: LiveFeed) -> None:
        """Let a changefeed be as it is: that its runner has ended is no error of its own."""
        with self._feeds.changed:
            live.busy = False
            self._feeds.closing = True
            self._feeds.changed.notify_all()

    def _next(self) -> LiveFeed | None:
        """Wait for the next changefeed that is due, and return it; None when all is to end."""
        with self._feeds.changed:
            while not self._feeds.closing:
                ready = [v for v in self._feeds.by_id.values() if v.feed.state.runs and not v.busy and not v.removing]
                first = min(ready, key=lambda v: v.due, default=None)
                delay = first.due - time.monotonic() if first else None
                if first and delay is not None and delay <= 0:
                    first.busy = True
                    return first
                self._feeds.changed.wait(delay)
        return None

    def _on_success(self, live: LiveFeed, result: StepResult) -> None:
        now = time.monotonic()
        count = result.messages.total()
        live.checkpoint_ts = result.checkpoint_ts
        live.caught_up = result.caught_up
        live.messages += result.messages
        live.skipped += result.skipped
        live.dead_letters += result.dead_letters
        if result.rows_waiting > live.rows_waiting:
            rows = counted(result.rows_waiting, "row waits", "rows wait")
            _log.warning("changefeed %s: %s for the schemas of their tables", live.feed.id, rows)
        live.rows_waiting = result.rows_waiting
        for warning in result.warnings:
            if warning not in live.warned:
                live.warned.add(warning)
                _log.warning("changefeed %s: %s", live.feed.id, warning)
        if count:
            live.recent.append((now, count))
            live.synced_ts = result.checkpoint_ts
        idle = not (count or result.more)
        live.wait = min(max(live.wait * 2, self._timing.poll), self._timing.idle) if idle else self._timing.poll
        live.due = now if result.more else now + live.wait
        feed = live.feed
        if result.versions.items() - feed.versions.items():
            feed = replace(feed, versions={**feed.versions, **result.versions})
        if feed.state.runs:
            if feed.state is State.WARNING:
                feed = replace(feed, state=State.NORMAL, error=None, since=None, retries=0)
            if 0 < feed.target_ts <= result.checkpoint_ts:
                feed = replace(feed, state=State.FINISHED)
        if feed is not live.feed:
            self._feeds.save(live, feed)

    def on_failure(self, live: LiveFeed, error: Exception) -> None:
        """Retry later, or give up: at once after what a retry cannot mend, or after too long a streak of errors."""
        feed = live.feed
        live.caught_up = False
        if not feed.state.runs:
            return
        moment = dt.datetime.now().astimezone()
        since = feed.since or moment
        delay = self._timing.retry(feed.retries + 1)
        live.due = time.monotonic() + delay
        stuck = (moment - since).total_seconds() + delay > self._stuck(feed)
        fatal = _is_fatal(error)
        problem = Problem(
            moment,
            self._addr,
            "CDC:ErrChangefeedUnretryable" if fatal else "CDC:ErrChangefeedRetryable",
            _without_secrets(error_text(error), feed),
            _without_secrets((isinstance(error, TidecastError) and error.hint) or "", feed),
        )
        state = State.FAILED if fatal or stuck else State.WARNING
        _log.warning("changefeed %s: %s", feed.id, problem.message)
        self._feeds.save(live, replace(feed, state=state, error=problem, since=since, retries=feed.retries + 1))

    def _stuck(self, feed: Feed) -> float:
        if self._timing.stuck is not None:
            return self._timing.stuck
        default = default_replica_config()["changefeed_error_stuck_duration"]
        given = feed.config.get("changefeed_error_stuck_duration", default)
        return (parse_duration(given) if isinstance(given, str) else int(given)) / _NANO


def _is_fatal(error: Exception) -> bool:
    if isinstance(error, RegistryError) or (isinstance(error, TidecastError) and error.code in _RETRIED):
        return False
    return isinstance(error, TerminalError) or bool(_FATAL.search(str(error)))


def _without_secrets(text: str, feed: Feed) -> str:
    """Hide what an error of somebody else's might quote."""
    for secret in {feed.sink_uri, *secrets_of(parse_place(feed.sink_uri)), *secret_values(feed.config)} - {""}:
        text = text.replace(secret, redact_uri(secret) if "://" in secret else HIDDEN)
    return without_looked_up(text)
