"""A changefeed as it is kept: one JSON file each, which appears whole or not at all.

    <folder>/<id>/feed.json    mode 0600, for the sink URI and the configuration hold secrets

The rest of a changefeed's folder is its runner's.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tidecast._atomic import atomic_write, sync_folder
from tidecast._errors import TerminalError

_log = logging.getLogger(__name__)

_FILE = "feed.json"
_REMOVED = ".removed-"


class State(StrEnum):
    """What a changefeed is doing. Source: Changefeeds, states."""

    NORMAL = "normal"
    WARNING = "warning"
    FAILED = "failed"
    STOPPED = "stopped"
    FINISHED = "finished"

    @property
    def runs(self) -> bool:
        """Whether a changefeed in this state replicates."""
        return self in (State.NORMAL, State.WARNING)


@dataclass(frozen=True)
class Problem:
    """The last error of a changefeed: when, at which server, TiCDC's code, and what happened, in full."""

    time: dt.datetime
    addr: str
    code: str
    message: str


@dataclass(frozen=True)
class Feed:
    """A changefeed but for its progress, which its runner keeps.

    `config` is the replica config (see `replica_config`); it and `sink_uri` hold secrets. `since` is when the present
    streak of `retries` errors began. `versions` has the newest schema version of each table that was published.
    """

    id: str
    sink_uri: str = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    start_ts: int
    target_ts: int
    create_time: dt.datetime
    gid: tuple[int, int]
    state: State = State.NORMAL
    error: Problem | None = None
    since: dt.datetime | None = None
    retries: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)


class FeedFolder:
    """The folder in which changefeeds are kept. Of its methods, one at a time may be called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def of(self, feed_id: str) -> Path:
        """Return the folder of a changefeed."""
        return self.root / feed_id

    def load(self) -> Iterator[Feed]:
        """Yield every changefeed, and clear away what is left of those that were being created or removed."""
        for path in sorted(p for p in self.root.iterdir() if p.is_dir()):
            if path.name.startswith(_REMOVED) or _unborn(path):
                shutil.rmtree(path)
            elif (path / _FILE).is_file():
                yield _read(path / _FILE)
            else:
                _log.warning("%s is left alone: it holds no %s, so it is no changefeed", path, _FILE)

    def create(self, feed: Feed) -> None:
        """Keep a new changefeed, in a folder of its own. Raises TerminalError where there is another one in its place.

        What a creation that a crash has cut short left there is cleared away.
        """
        home = self.of(feed.id)
        if home.exists() and not _unborn(home):
            why = "something else is in the place of this changefeed"
            raise TerminalError(why, where=str(home), hint="move it away")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        self.save(feed)
        sync_folder(self.root)

    def save(self, feed: Feed) -> None:
        """Keep a changefeed as it is now: when this returns, it outlives the process and the machine."""
        path = self.of(feed.id) / _FILE
        atomic_write(path, json.dumps(asdict(feed), indent=2, default=str).encode(), mode=0o600)  # it holds secrets

    def remove(self, feed_id: str) -> None:
        """Forget a changefeed with all that is in its folder."""
        home, gone = self.of(feed_id), self.root / f"{_REMOVED}{uuid.uuid4().hex}"
        if home.exists():
            home.rename(gone)  # in one step, so that nothing of it is found after a crash
            sync_folder(self.root)
            shutil.rmtree(gone, ignore_errors=True)  # the next start clears away what stays


def _unborn(home: Path) -> bool:
    """Tell whether a folder holds nothing, or nothing but the draft of a changefeed."""
    return home.is_dir() and all(entry.name == f".{_FILE}.draft" for entry in home.iterdir())


def _read(path: Path) -> Feed:
    try:
        members = json.loads(path.read_text(encoding="utf-8"))
        error, since = members.pop("error"), members.pop("since")
        return Feed(
            **members
            | {
                "create_time": dt.datetime.fromisoformat(members["create_time"]),
                "gid": tuple(members["gid"]),
                "state": State(members["state"]),
            },
            error=Problem(**error | {"time": dt.datetime.fromisoformat(error["time"])}) if error else None,
            since=dt.datetime.fromisoformat(since) if since else None,
        )
    except (ValueError, TypeError, KeyError) as error:
        # The cause stays out of the text: it may quote a secret.
        raise TerminalError(
            f"this is no changefeed: {type(error).__name__}", where=str(path), hint="move its folder away"
        ) from None
