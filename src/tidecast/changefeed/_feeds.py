"""Changefeeds: their life, from create to remove.

A changefeed is in one of five states (`State`): requests of people are here, the effects of its work in
`_scheduler`. The work itself is a `Runner`'s. Source: Changefeeds, HTTP API v2, states.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tidecast._errors import ConfigError
from tidecast._uri import Place, masked_sink_uri, parse_place
from tidecast.changefeed._checks import OF_TABLES, ConfigChecks, error_text, over_defaults
from tidecast.changefeed._feed import Feed, FeedFolder, State
from tidecast.changefeed._folders import Folders
from tidecast.changefeed._live import LiveFeed, LiveFeeds
from tidecast.changefeed._runner import Runner
from tidecast.changefeed._scheduler import Scheduler, Timing
from tidecast.changefeed._snapshot import ChangefeedSpec, Snapshot, TableEligibility
from tidecast.config import completed_replica_config, patched_replica_config, replica_config_for, unmask_replica_config
from tidecast.storage import AnyPath, locked

_log = logging.getLogger(__name__)

_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")
_LONGEST_ID = 128
_ID_RULE = (
    '[CDC:ErrInvalidChangefeedID]bad changefeed id, please match the pattern "^[a-zA-Z0-9]+(\\-[a-zA-Z0-9]+)*$", '
    f'the length should no more than {_LONGEST_ID}, eg, "simple-changefeed-task"'
)

_PARAM, _REFUSED = "CDC:ErrAPIInvalidParam", "CDC:ErrChangefeedUpdateRefused"


class Changefeeds:
    """The changefeeds of one source, kept in a folder that no other process uses meanwhile.

    Running ones go on from where they were as soon as this is made; `close` stops the work, not the changefeeds.
    `addr` is the server's address in errors. `folders` are those that changefeeds may use, any by default; `secrets`
    the references to secrets, `env:NAME` or `file:/path`, that they may use, none else. At most
    `workers` changefeeds make a step at a time; one that waits takes no thread. Methods may be called from any thread.
    Raises TerminalError where the folder is in use.
    """

    def __init__(
        self,
        folder: AnyPath,
        runner: Runner,
        *,
        workers: int = 4,
        timing: Timing | None = None,
        addr: str = "",
        folders: Folders | None = None,
        secrets: Collection[str] = (),
    ) -> None:
        self.runner = runner
        self._checks = ConfigChecks(runner, folders, secrets)
        self._feeds = LiveFeeds(FeedFolder(folder), lambda feed: self._checks.config(feed.sink_uri, feed.config))
        self._scheduler = Scheduler(self._feeds, runner, timing or Timing(), workers=workers, addr=addr)
        self._lock = locked(folder, "stop the other server, or take another --data-dir")
        try:
            self._load()
        except BaseException:
            self._lock.close()
            raise
        self._scheduler.start()

    def _load(self) -> None:
        """Take the changefeeds that an earlier server left."""
        stored = list(self._feeds.folder.load())
        with self._feeds.changed:
            for feed in stored:
                self._feeds.by_id[feed.id] = live = LiveFeed(feed, feed.start_ts)
                try:
                    live.checkpoint_ts = self.runner.checkpoint_ts(self._feeds.job(live))
                except Exception as error:
                    self._scheduler.on_failure(live, error)

    def close(self, timeout: float | None = None) -> None:
        """Let the present steps end, and make no more."""
        self._scheduler.stop(timeout)
        self._lock.close()

    def alive(self) -> bool:
        """Tell whether the work can go on: the runner's, and in a folder that no other process has taken over."""
        return self._lock.held and self.runner.alive()

    # Questions of others

    def list(self) -> list[Snapshot]:
        """Return every changefeed, by id."""
        with self._feeds.changed:
            live = sorted(self._feeds.by_id.items())
            return [self._feeds.snapshot(one) for _, one in live if not one.removing]

    def get(self, feed_id: str) -> Snapshot:
        """Return a changefeed. Raises TerminalError (`CDC:ErrChangeFeedNotExists`)."""
        with self._feeds.changed:
            return self._feeds.snapshot(self._feeds.find(feed_id))

    def sort_tables(self, config: Mapping[str, Any] | None) -> TableEligibility:
        """Return the source's tables by what the filter of a replica config does with them."""
        return self._checks.tables(config)

    def verify(self, sink_uri: str, config: Mapping[str, Any] | None) -> TableEligibility:
        """Check a sink URI and a replica config against each other and the tables, and sort these by them.

        Without a sink URI the tables are sorted alone.
        """
        if not sink_uri:
            return self.sort_tables(config)
        whole = over_defaults(config)
        return self._checks.verified_tables(self._checks.checked_config(sink_uri, whole), whole)

    # Orders of others

    def create(self, spec: ChangefeedSpec) -> Snapshot:
        """Begin a changefeed, after every check that TiCDC makes, in its order. Raises TidecastError."""
        gid = (secrets.randbits(64), secrets.randbits(64))
        feed_id = spec.id or f"{gid[0]}{gid[1]}"
        _check_id(feed_id)
        with self._feeds.changed:
            self._feeds.wait_for_removal(feed_id)
            self._feeds.refuse_double(feed_id)
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
        config = replica_config_for(over_defaults(spec.config), spec.sink_uri)
        self._checks.check(feed_id, spec.sink_uri, config)
        feed = Feed(feed_id, spec.sink_uri, config, start, spec.target_ts, dt.datetime.now().astimezone(), gid)
        with self._feeds.changed:
            self._feeds.refuse_double(feed_id)
            self._feeds.folder.create(feed)
            self._feeds.by_id[feed_id] = live = LiveFeed(feed, start)
            self._feeds.changed.notify_all()
            _log.info("changefeed %s: created, from %d to %s", feed_id, start, masked_sink_uri(feed.sink_uri))
            return self._feeds.snapshot(live)

    def update(self, feed_id: str, spec: ChangefeedSpec) -> Snapshot:
        """Change a stopped or failed changefeed: what the spec has of target-ts, sink URI and configuration."""
        _check_id(feed_id)
        with self._feeds.changed:
            feed = self._feeds.find(feed_id).feed
        if feed.state not in (State.STOPPED, State.FAILED):
            raise _refused_update("can only update changefeed config when it is stopped or failed")
        if 0 < spec.target_ts <= feed.start_ts:
            raise ConfigError(
                f"can not update target_ts:{spec.target_ts} less than start_ts:{feed.start_ts}", code=_REFUSED
            )
        if spec.start_ts:
            raise ConfigError("start_ts can not be updated", code=_PARAM)
        changed = replace(feed, target_ts=spec.target_ts or feed.target_ts)
        if spec.sink_uri and spec.sink_uri != masked_sink_uri(feed.sink_uri):
            changed = replace(changed, sink_uri=spec.sink_uri)
        if spec.config is not None:
            given = unmask_replica_config(spec.config, feed.config)
            patched = patched_replica_config(feed.config, given)
            changed = replace(changed, config=patched if spec.patch else completed_replica_config(given))
        if changed.sink_uri != feed.sink_uri or spec.config is not None:  # the URI's protocol wins over the stored one
            changed = replace(changed, config=replica_config_for(changed.config, changed.sink_uri))
        if (changed.sink_uri, changed.config) != (feed.sink_uri, feed.config):
            try:
                self._checks.check(feed_id, changed.sink_uri, changed.config)
            except ConfigError as error:
                if error.code not in OF_TABLES:
                    raise
                raise _refused_update(error_text(error)) from error
        with self._feeds.changed:
            live = self._feeds.find(feed_id)
            if live.feed is not feed:
                raise _refused_update("it was changed by another request meanwhile")
            if changed != feed:
                live.job = None
                self._feeds.save(live, replace(changed, revision=feed.revision + 1))
            return self._feeds.snapshot(live)

    def pause(self, feed_id: str) -> None:
        """Stop a changefeed; it has stopped when this returns."""
        _check_id(feed_id)
        with self._feeds.changed:
            live = self._feeds.find(feed_id)
            self._feeds.save(live, replace(live.feed, state=State.STOPPED))
            self._feeds.changed.wait_for(lambda: not live.busy or live.feed.state is not State.STOPPED)

    def resume(self, feed_id: str, overwrite_checkpoint_ts: int = 0) -> None:
        """Let a changefeed that does not run go on, if asked from another checkpoint; one that runs is left alone."""
        _check_id(feed_id)
        self.get(feed_id)
        now = self.runner.now() if overwrite_checkpoint_ts else 0
        if overwrite_checkpoint_ts > now:
            raise ConfigError(
                f"invalid checkpoint-ts {overwrite_checkpoint_ts}, larger than current tso {now}", code=_PARAM
            )
        with self._feeds.changed:
            live = self._feeds.find(feed_id)
            self._feeds.changed.wait_for(lambda: not live.busy or live.feed.state.runs)
            if live.feed.state.runs:
                return
            if overwrite_checkpoint_ts:
                self.runner.overwrite(self._feeds.job(live), overwrite_checkpoint_ts)
                live.checkpoint_ts = overwrite_checkpoint_ts
            live.due = live.wait = 0.0
            live.caught_up = False
            self._feeds.save(live, replace(live.feed, state=State.NORMAL, error=None, since=None, retries=0))

    def remove(self, feed_id: str) -> bool:
        """Forget a changefeed, and tell whether there was one. Raises OSError, and it is still there."""
        _check_id(feed_id)
        with self._feeds.changed:
            live = self._feeds.by_id.get(feed_id)
            if live is None or live.removing:
                return False
            live.removing = True
            try:
                self._feeds.changed.wait_for(lambda: not live.busy)
                self._feeds.folder.remove(feed_id)
            except BaseException:
                live.removing = False
                self._feeds.changed.notify_all()
                raise
            self.runner.forget(feed_id)
            del self._feeds.by_id[feed_id]
            _log.info("changefeed %s: removed", feed_id)
            self._feeds.changed.notify_all()
            return True


def _check_id(feed_id: str) -> None:
    if not _ID.fullmatch(feed_id) or len(feed_id) > _LONGEST_ID:
        raise ConfigError(f"invalid changefeed_id: {feed_id}, {_ID_RULE}", code=_PARAM)


def _place_of(sink_uri: str) -> Place:
    if not sink_uri:
        raise ConfigError(
            "sink uri invalid 'sink_uri is empty, cannot create a changefeed without sink_uri'",
            code="CDC:ErrSinkURIInvalid",
        )
    return parse_place(sink_uri)


def _refused_update(why: str) -> ConfigError:
    return ConfigError(f"changefeed update error: {why}", code=_REFUSED)
