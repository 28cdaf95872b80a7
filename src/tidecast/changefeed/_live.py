"""The changefeeds of a server in memory, and the lock that guards them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tidecast._errors import TerminalError
from tidecast.changefeed._feed import Feed, FeedFolder, State
from tidecast.changefeed._runner import DEAD_LETTERS, Job
from tidecast.changefeed._snapshot import Snapshot
from tidecast.config import ChangefeedConfig

_log = logging.getLogger(__name__)

_WINDOW_S = 10.0
_REMOVAL_S = 50.0


@dataclass
class LiveFeed:
    """A changefeed in memory.

    `busy` tells that a worker makes a step, `due` when the next one is, `warned` what the log has said of it already.
    """

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
    rows_waiting: int = 0
    warned: set[str] = field(default_factory=set)
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, now: float) -> float:
        """Return the messages a second of the last seconds; `now` is the monotonic clock's time."""
        while self.recent and self.recent[0][0] < now - _WINDOW_S:
            self.recent.popleft()
        return sum(count for _, count in self.recent) / _WINDOW_S


class LiveFeeds:
    """The changefeeds in memory, each of which is on disk as well.

    `changed` is the lock that guards them all, and tells those who wait of every change; the methods are called with it
    held. `configured` makes a changefeed's configuration. `closing` tells that all work is to end.
    """

    def __init__(self, folder: FeedFolder, configured: Callable[[Feed], ChangefeedConfig]) -> None:
        self.folder = folder
        self.changed = threading.Condition()
        self.closing = False
        self.by_id: dict[str, LiveFeed] = {}
        self._configured = configured

    def find(self, feed_id: str) -> LiveFeed:
        """Return a changefeed. Raises TerminalError (`CDC:ErrChangeFeedNotExists`)."""
        live = self.by_id.get(feed_id)
        if live is None or live.removing:
            raise TerminalError(f"changefeed not exists, {feed_id}", code="CDC:ErrChangeFeedNotExists")
        return live

    def refuse_double(self, feed_id: str) -> None:
        """Raise TerminalError (`CDC:ErrChangeFeedAlreadyExists`) where there is a changefeed of this id."""
        if feed_id in self.by_id:
            raise TerminalError(f"changefeed already exists, {feed_id}", code="CDC:ErrChangeFeedAlreadyExists")

    def wait_for_removal(self, feed_id: str) -> None:
        """Wait until a changefeed that is being removed is gone, but not for ever."""
        self.changed.wait_for(lambda: not (feed_id in self.by_id and self.by_id[feed_id].removing), _REMOVAL_S)

    def save(self, live: LiveFeed, feed: Feed) -> None:
        """Change a changefeed to this, on disk first."""
        if feed.state is not live.feed.state:
            _log.info("changefeed %s: %s -> %s", feed.id, live.feed.state, feed.state)
        self.folder.save(feed)
        live.feed = feed
        self.changed.notify_all()

    def job(self, live: LiveFeed) -> Job:
        """Return a changefeed as its runner sees it."""
        if live.job is None:
            feed = live.feed
            config = self._configured(feed)
            folder = self.folder.of(feed.id)
            live.job = Job(feed.id, config, feed.start_ts, feed.target_ts, folder, feed.revision)
        return live.job

    def snapshot(self, live: LiveFeed) -> Snapshot:
        """Return a changefeed as it is now."""
        now = time.monotonic()
        waits = live.feed.state is State.WARNING and not live.busy
        return Snapshot(
            live.feed,
            live.checkpoint_ts,
            live.rate(now),
            dict(live.messages),
            dict(live.skipped),
            live.dead_letters,
            live.rows_waiting,
            live.synced_ts,
            live.caught_up and live.feed.state is State.NORMAL,
            max(live.due - now, 0.0) if waits else None,
            self.folder.of(live.feed.id) / DEAD_LETTERS,
        )
