"""Changefeeds: their life, from create to remove, and the workers that move the running ones forward.

A changefeed is in one of five states (`State`); every transition is in this module. The work itself is a `Runner`'s.
Source: TiCDC's API v2 and changefeed states.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import re
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tidecast._atomic import locked
from tidecast._errors import ConfigError, TerminalError, TidecastError
from tidecast._go import parse_duration
from tidecast._time_limit import time_limit
from tidecast._uri import HIDDEN, Place, parse_place, redact_uri, secrets_of
from tidecast.changefeed._feed import Feed, FeedFolder, Problem, State
from tidecast.changefeed._folders import Folders
from tidecast.changefeed._runner import Job, Runner, StepResult
from tidecast.config import (
    ChangefeedConfig,
    build_config,
    completed_replica_config,
    default_replica_config,
    file_content,
    filter_of,
    merge_replica_configs,
    patched_replica_config,
    replica_config_for,
    secret_values,
    unmask_replica_config,
    without_effect,
)
from tidecast.model import TableSchema, physical_ms
from tidecast.routing import EventFilters, Router, TableFilter

_log = logging.getLogger(__name__)

_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")
_LONGEST_ID = 128
_ID_RULE = (
    '[CDC:ErrInvalidChangefeedID]bad changefeed id, please match the pattern "^[a-zA-Z0-9]+(\\-[a-zA-Z0-9]+)*$", '
    f'the length should no more than {_LONGEST_ID}, eg, "simple-changefeed-task"'
)

_PARAM, _SINK_URI, _REPLICA = "CDC:ErrAPIInvalidParam", "CDC:ErrSinkURIInvalid", "CDC:ErrInvalidReplicaConfig"
_SINK_CODES = re.compile(r"CDC:Err(Kafka(?!TopicExpr)|MySQLInvalid|Codec)")
_REPLICA_CODES = re.compile(r"CDC:ErrSink(?!URI)")

_FATAL = re.compile(
    r"CDC:Err(GCTTLExceeded|SnapshotLostByGC|StartTsBeforeGC|InvalidFilterExpression|ExpressionColumnNotFound"
    r"|SchemaSnapshotNotFound|SyncRenameTableFailed|ChangefeedUnretryable|CorruptedDataMutation|DispatcherFailed"
    r"|ColumnSelectorFailed|SinkURIInvalid|KafkaInvalidConfig|MySQLInvalidConfig|StorageSinkInvalidConfig"
    r"|TableAfterDDLNotSplitable)"
)
_RETRIED = ("CDC:ErrMessageTooLarge",)
"""Errors that TiCDC retries although the same call would meet the same wall: somebody may raise the broker's limit."""

_PATTERNS_S = 5.0
_WINDOW_S = 10.0
_REMOVAL_S = 50.0
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


@dataclass(frozen=True)
class ChangefeedSpec:
    """What a changefeed is to be. `config` is a replica config, of which anything may be missing.

    What is missing has its default; if it is a `patch`, an update leaves it as it is.
    """

    id: str = ""
    sink_uri: str = field(default="", repr=False)
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    start_ts: int = 0
    target_ts: int = 0
    patch: bool = False


class TableEligibility(NamedTuple):
    """Tables by what a filter does with them: `every` of the schemas it speaks of, and those that pass it."""

    every: Sequence[TableSchema]
    eligible: Sequence[TableSchema]
    ineligible: Sequence[TableSchema]


@dataclass(frozen=True)
class Snapshot:
    """A changefeed at a moment.

    `rate` is in messages a second, `synced_ts` the checkpoint after the last message; `caught_up` tells that it runs
    and has published all that its source holds.
    """

    feed: Feed
    checkpoint_ts: int
    rate: float
    messages: Mapping[tuple[str, str], int]
    skipped: Mapping[str, int]
    dead_letters: int
    synced_ts: int
    caught_up: bool

    def lag(self, now: int) -> float | None:
        """Return how far it is behind its source, in seconds: None where it is finished.

        As long as it has not caught up, that is how old its checkpoint is.
        """
        if self.feed.state is State.FINISHED:
            return None
        return 0.0 if self.caught_up else lag_seconds(now, self.checkpoint_ts)

    def source_age(self, now: int) -> float | None:
        """Return how old the source's end is, in seconds; None where nobody knows."""
        return lag_seconds(now, self.checkpoint_ts) if self.caught_up else None

    @property
    def error(self) -> Problem | None:
        """The error that the changefeed suffers from now."""
        return self.feed.error if self.feed.state in (State.WARNING, State.FAILED) else None


@dataclass
class _Live:
    """A changefeed in memory. `busy` tells that a worker makes a step, `due` when the next one is."""

    feed: Feed
    checkpoint_ts: int
    due: float = 0.0
    wait: float = 0.0
    busy: bool = False
    removing: bool = False
    job: Job | None = None
    synced_ts: int = 0
    caught_up: bool = False
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, now: float) -> float:
        while self.recent and self.recent[0][0] < now - _WINDOW_S:
            self.recent.popleft()
        return sum(count for _, count in self.recent) / _WINDOW_S


class Changefeeds:
    """The changefeeds of one source, kept in a folder that no other process uses meanwhile.

    Running ones go on from where they were as soon as this is made; `close` stops the work, not the changefeeds.
    `addr` is the server's address in errors. `folders` are those that changefeeds may use, any by default. At most
    `workers` changefeeds make a step at a time; one that waits takes no thread. Methods may be called from any thread.
    Raises TerminalError where the folder is in use.
    """

    def __init__(
        self,
        folder: Path,
        runner: Runner,
        *,
        workers: int = 4,
        timing: Timing | None = None,
        addr: str = "",
        folders: Folders | None = None,
    ) -> None:
        self.runner = runner
        self._folders = folders
        self._timing, self._addr = timing or Timing(), addr
        self._folder = FeedFolder(folder)
        self._lock_file = locked(folder, "stop the other server, or take another --data-dir")
        self._changed = threading.Condition()
        self._closing = False
        self._live: dict[str, _Live] = {}
        try:
            kept = list(self._folder.load())
        except BaseException:
            self._lock_file.close()
            raise
        with self._changed:
            for feed in kept:
                self._live[feed.id] = live = _Live(feed, feed.start_ts)
                try:
                    live.checkpoint_ts = runner.checkpoint_ts(self._job(live))
                except Exception as error:
                    self._on_failure(live, error)
        self._workers = [threading.Thread(target=self._work, name=f"feed-{n}", daemon=True) for n in range(workers)]
        for worker in self._workers:
            worker.start()

    def close(self, timeout: float | None = None) -> None:
        """Let the steps that are being made come to their end, and make no more."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        end = None if timeout is None else time.monotonic() + timeout
        for worker in self._workers:
            worker.join(None if end is None else max(0.0, end - time.monotonic()))
        self._lock_file.close()

    # What others ask

    def list(self) -> list[Snapshot]:
        """Return every changefeed, by id."""
        with self._changed:
            return [self._snapshot(live) for _, live in sorted(self._live.items()) if not live.removing]

    def get(self, feed_id: str) -> Snapshot:
        """Return a changefeed. Raises TerminalError (`CDC:ErrChangeFeedNotExists`)."""
        with self._changed:
            return self._snapshot(self._find(feed_id))

    def sort_tables(self, config: Mapping[str, Any] | None) -> TableEligibility:
        """Return the source's tables by what the filter of a replica config does with them."""
        chosen, case_sensitive = filter_of(_over_defaults(config))
        tables = sorted(self.runner.tables(), key=lambda t: t.name)
        with time_limit(_PATTERNS_S):
            matcher = TableFilter(chosen.rules, case_sensitive=case_sensitive)
            every = [table for table in tables if matcher.matches_schema(table.database)]
            passing = [table for table in every if matcher.matches(table.database, table.table)]
        return TableEligibility(every, [t for t in passing if t.handle_key], [t for t in passing if not t.handle_key])

    def verify(self, sink_uri: str, config: Mapping[str, Any] | None) -> TableEligibility:
        """Check a sink URI and a replica config against each other, and sort the tables by them."""
        _place_of(sink_uri)
        self._configured(sink_uri, _over_defaults(config))
        return self.sort_tables(config)

    # What others tell

    def create(self, spec: ChangefeedSpec) -> Snapshot:
        """Begin a changefeed, after every check that TiCDC makes, in its order. Raises TidecastError."""
        gid = (secrets.randbits(64), secrets.randbits(64))
        feed_id = spec.id or f"{gid[0]}{gid[1]}"
        if not _ID.fullmatch(feed_id) or len(feed_id) > _LONGEST_ID:
            raise ConfigError(f"invalid changefeed_id: {feed_id}, {_ID_RULE}", code=_PARAM)
        with self._changed:
            self._wait_for_removal(feed_id)
            self._refuse_double(feed_id)
        _place_of(spec.sink_uri)
        now = self.runner.now()
        start = spec.start_ts or now
        if start > now:
            raise ConfigError(f"invalid start-ts {start}, larger than current tso {now}", code=_PARAM)
        if 0 < spec.target_ts <= start:
            raise ConfigError(
                f"fail to create changefeed because target-ts {spec.target_ts} is earlier than start-ts {start}",
                code="CDC:ErrTargetTsBeforeStartTs",
            )
        config = _over_defaults(spec.config)
        self._check(feed_id, spec.sink_uri, config)
        feed = Feed(feed_id, spec.sink_uri, config, start, spec.target_ts, dt.datetime.now().astimezone(), gid)
        with self._changed:
            self._refuse_double(feed_id)
            self._folder.create(feed)
            self._live[feed_id] = live = _Live(feed, start)
            self._changed.notify_all()
            return self._snapshot(live)

    def update(self, feed_id: str, spec: ChangefeedSpec) -> Snapshot:
        """Change a stopped or failed changefeed: what the spec has of target-ts, sink URI and configuration."""
        with self._changed:
            feed = self._find(feed_id).feed
        if feed.state not in (State.STOPPED, State.FAILED):
            raise _refused_update("can only update changefeed config when it is stopped or failed")
        if spec.start_ts:
            raise ConfigError("start-ts cannot be updated", code=_PARAM)
        if 0 < spec.target_ts <= feed.start_ts:
            raise _refused_update(f"can not update target_ts:{spec.target_ts} less than start_ts:{feed.start_ts}")
        changed = replace(feed, target_ts=spec.target_ts or feed.target_ts)
        if spec.sink_uri and spec.sink_uri != masked_sink_uri(feed.sink_uri):
            changed = replace(changed, sink_uri=spec.sink_uri)
        if spec.config is not None:
            given = unmask_replica_config(spec.config, feed.config)
            patched = patched_replica_config(feed.config, given)
            changed = replace(changed, config=patched if spec.patch else completed_replica_config(given))
        if changed.sink_uri != feed.sink_uri:  # its protocol wins over the stored one
            changed = replace(changed, config=replica_config_for(changed.config, changed.sink_uri))
        if (changed.sink_uri, changed.config) != (feed.sink_uri, feed.config):
            self._check(feed_id, changed.sink_uri, changed.config)
        with self._changed:
            live = self._find(feed_id)
            if live.feed is not feed:
                raise _refused_update("it was changed by another request meanwhile")
            live.job = None
            self._keep(live, changed)
            return self._snapshot(live)

    def pause(self, feed_id: str) -> None:
        """Stop a changefeed; it has stopped when this returns."""
        with self._changed:
            live = self._find(feed_id)
            self._keep(live, replace(live.feed, state=State.STOPPED))
            self._changed.wait_for(lambda: not live.busy or live.feed.state is not State.STOPPED)

    def resume(self, feed_id: str, overwrite_checkpoint_ts: int = 0) -> None:
        """Let a changefeed that does not run go on, if asked from another checkpoint; one that runs is left alone."""
        now = self.runner.now() if overwrite_checkpoint_ts else 0
        if overwrite_checkpoint_ts > now:
            raise ConfigError(
                f"invalid checkpoint-ts {overwrite_checkpoint_ts}, larger than current tso {now}", code=_PARAM
            )
        with self._changed:
            live = self._find(feed_id)
            self._changed.wait_for(lambda: not live.busy or live.feed.state.runs)
            if live.feed.state.runs:
                return
            if overwrite_checkpoint_ts:
                self.runner.overwrite(self._job(live), overwrite_checkpoint_ts)
                live.checkpoint_ts = overwrite_checkpoint_ts
            live.due = live.wait = 0.0
            live.caught_up = False
            self._keep(live, replace(live.feed, state=State.NORMAL, error=None, since=None, retries=0))

    def remove(self, feed_id: str) -> bool:
        """Forget a changefeed, and tell whether there was one. Raises OSError, and it is still there."""
        with self._changed:
            live = self._live.get(feed_id)
            if live is None or live.removing:
                return False
            live.removing = True
            try:
                self._changed.wait_for(lambda: not live.busy)
                self._folder.remove(feed_id)
            except BaseException:
                live.removing = False
                self._changed.notify_all()
                raise
            self.runner.forget(feed_id)
            del self._live[feed_id]
            self._changed.notify_all()
            return True

    # Checks

    def _find(self, feed_id: str) -> _Live:
        live = self._live.get(feed_id)
        if live is None or live.removing:
            raise TerminalError(f"changefeed not exists, {feed_id}", code="CDC:ErrChangeFeedNotExists")
        return live

    def _refuse_double(self, feed_id: str) -> None:
        if feed_id in self._live:
            raise TerminalError(f"changefeed already exists, {feed_id}", code="CDC:ErrChangeFeedAlreadyExists")

    def _wait_for_removal(self, feed_id: str) -> None:
        self._changed.wait_for(lambda: not (feed_id in self._live and self._live[feed_id].removing), _REMOVAL_S)

    def _check(self, feed_id: str, sink_uri: str, config: Mapping[str, Any]) -> None:
        """Refuse a configuration that cannot be, that does not fit the tables, or whose sink cannot be used."""
        checked = self._configured(sink_uri, config)
        tables = self.sort_tables(config)
        if tables.ineligible and not (checked.force_replicate or checked.file.ignore_ineligible_table):
            raise ConfigError(
                "some tables have neither a primary key nor a unique key on NOT NULL columns: "
                + ", ".join(t.name for t in tables.ineligible),
                code="CDC:ErrTableIneligible",
                hint="set ignore_ineligible_table to leave them out",
            )
        router, events = Router(checked.routing), EventFilters(checked.filter.event_filters)
        with time_limit(_PATTERNS_S):
            for table in tables.eligible:
                router.check(router.select_columns(table))
                events.check(table)
        self.runner.check_filters(checked, tables.eligible)
        try:
            self.runner.check(checked)
        except TidecastError as error:
            raise _sink_invalid(sink_uri, error) from error
        if idle := without_effect(config):
            _log.warning("changefeed %s: these settings have no effect here: %s", feed_id, ", ".join(idle))

    def _configured(self, sink_uri: str, config: Mapping[str, Any]) -> ChangefeedConfig:
        with _wrapping(sink_uri), time_limit(_PATTERNS_S):
            return self._config(sink_uri, config)

    def _config(self, sink_uri: str, config: Mapping[str, Any]) -> ChangefeedConfig:
        built = build_config(sink_uri, file_content(config), "replica_config")
        if self._folders:
            self._folders.check(built)
        return built

    # States

    def _keep(self, live: _Live, feed: Feed) -> None:
        """Let a changefeed be this, on disk first."""
        if feed.state is not live.feed.state:
            _log.info("changefeed %s: %s -> %s", feed.id, live.feed.state, feed.state)
        self._folder.save(feed)
        live.feed = feed
        self._changed.notify_all()

    def _snapshot(self, live: _Live) -> Snapshot:
        return Snapshot(
            live.feed,
            live.checkpoint_ts,
            live.rate(time.monotonic()),
            dict(live.messages),
            dict(live.skipped),
            live.dead_letters,
            live.synced_ts,
            live.caught_up and live.feed.state is State.NORMAL,
        )

    def _job(self, live: _Live) -> Job:
        if live.job is None:
            feed = live.feed
            config = self._config(feed.sink_uri, feed.config)
            live.job = Job(feed.id, config, feed.start_ts, feed.target_ts, self._folder.of(feed.id))
        return live.job

    def _work(self) -> None:
        while live := self._next():
            outcome: StepResult | Exception
            try:
                outcome = self.runner.step(self._job(live))
            except Exception as error:
                if not self.runner.alive():
                    self._give_up(live)
                    return
                outcome = error
                try:
                    live.checkpoint_ts = max(live.checkpoint_ts, self.runner.checkpoint_ts(self._job(live)))
                except Exception:
                    _log.debug("changefeed %s: its checkpoint cannot be read", live.feed.id)
            with self._changed:
                live.busy = False
                try:
                    if isinstance(outcome, StepResult):
                        self._on_success(live, outcome)
                    else:
                        self._on_failure(live, outcome)
                except OSError as error:
                    # What is on disk is older, and true: the work since then would be done again.
                    _log.error("changefeed %s: its state cannot be saved: %s", live.feed.id, error.strerror)
                    live.due = time.monotonic() + self._timing.retry(1)
                self._changed.notify_all()

    def _give_up(self, live: _Live) -> None:
        """Let a changefeed be as it is: that its runner has ended is no error of its own."""
        with self._changed:
            live.busy = False
            self._closing = True
            self._changed.notify_all()

    def _next(self) -> _Live | None:
        """Wait for the next changefeed that is due, and return it; None when all is to end."""
        with self._changed:
            while not self._closing:
                ready = [v for v in self._live.values() if v.feed.state.runs and not v.busy and not v.removing]
                first = min(ready, key=lambda v: v.due, default=None)
                delay = first.due - time.monotonic() if first else None
                if first and delay is not None and delay <= 0:
                    first.busy = True
                    return first
                self._changed.wait(delay)
        return None

    def _on_success(self, live: _Live, moved: StepResult) -> None:
        now = time.monotonic()
        count = moved.messages.total()
        live.checkpoint_ts = moved.checkpoint_ts
        live.caught_up = moved.caught_up
        live.messages += moved.messages
        live.skipped += moved.skipped
        live.dead_letters += moved.dead_letters
        if count:
            live.recent.append((now, count))
            live.synced_ts = moved.checkpoint_ts
        idle = not (count or moved.more)
        live.wait = min(max(live.wait * 2, self._timing.poll), self._timing.idle) if idle else self._timing.poll
        live.due = now if moved.more else now + live.wait
        feed = live.feed
        if moved.versions.items() - feed.versions.items():
            feed = replace(feed, versions={**feed.versions, **moved.versions})
        if feed.state.runs:
            if feed.state is State.WARNING:
                feed = replace(feed, state=State.NORMAL, error=None, since=None, retries=0)
            if 0 < feed.target_ts <= moved.checkpoint_ts:
                feed = replace(feed, state=State.FINISHED)
        if feed is not live.feed:
            self._keep(live, feed)

    def _on_failure(self, live: _Live, error: Exception) -> None:
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
            _without_secrets(_words(error), feed),
        )
        state = State.FAILED if fatal or stuck else State.WARNING
        _log.warning("changefeed %s: %s", feed.id, problem.message)
        self._keep(live, replace(feed, state=state, error=problem, since=since, retries=feed.retries + 1))

    def _stuck(self, feed: Feed) -> float:
        if self._timing.stuck is not None:
            return self._timing.stuck
        default = default_replica_config()["changefeed_error_stuck_duration"]
        said = feed.config.get("changefeed_error_stuck_duration", default)
        return (parse_duration(said) if isinstance(said, str) else int(said)) / _NANO


def masked_sink_uri(uri: str) -> str:
    """Return a sink URI without secrets, as TiCDC shows it: with its parameters in order of name if one was hidden."""
    shown = redact_uri(uri)
    before, mark, query = shown.partition("?")
    if query == uri.partition("?")[2]:
        return shown
    return before + mark + "&".join(sorted(query.split("&"), key=lambda p: p.partition("=")[0]))


def lag_seconds(now: int, checkpoint_ts: int) -> float:
    """Return how old a checkpoint is at a present TSO, in seconds."""
    return (physical_ms(now) - physical_ms(checkpoint_ts)) / 1000


@contextmanager
def _wrapping(sink_uri: str) -> Iterator[None]:
    """Put errors of a configuration into the words of the API."""
    try:
        yield
    except ConfigError as error:
        code = error.code or ""
        if _SINK_CODES.match(code):
            raise _sink_invalid(sink_uri, error) from error
        if not code or code == _REPLICA or _REPLICA_CODES.match(code):
            raise ConfigError(f"invalid replica config: {_words(error)}", code=_REPLICA) from error
        raise


def _over_defaults(config: Mapping[str, Any] | None) -> dict[str, Any]:
    return merge_replica_configs(default_replica_config(), config or {})


def _place_of(sink_uri: str) -> Place:
    if not sink_uri:
        raise ConfigError(
            "sink uri invalid 'sink_uri is empty, cannot create a changefeed without sink_uri'", code=_SINK_URI
        )
    return parse_place(sink_uri)


def _sink_invalid(sink_uri: str, error: TidecastError) -> ConfigError:
    return ConfigError(f"sink uri invalid '{masked_sink_uri(sink_uri)}': {_words(error)}", code=_SINK_URI)


def _refused_update(why: str) -> ConfigError:
    return ConfigError(f"changefeed update error: {why}", code="CDC:ErrChangefeedUpdateRefused")


def _is_fatal(error: Exception) -> bool:
    if isinstance(error, TidecastError) and error.code in _RETRIED:
        return False
    return isinstance(error, TerminalError) or bool(_FATAL.search(str(error)))


def _words(error: Exception) -> str:
    return error.coded if isinstance(error, TidecastError) else f"{type(error).__name__}: {error}"


def _without_secrets(text: str, feed: Feed) -> str:
    """Hide what an error of somebody else's might quote."""
    for secret in {feed.sink_uri, *secrets_of(parse_place(feed.sink_uri)), *secret_values(feed.config)} - {""}:
        text = text.replace(secret, redact_uri(secret) if "://" in secret else HIDDEN)
    return text
