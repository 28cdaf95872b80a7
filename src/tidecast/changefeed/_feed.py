"""A changefeed as it is kept: one JSON file each, which appears whole or not at all.

    <folder>/<id>/feed.json    mode 0600, for the sink URI and the configuration hold secrets

On a remote store it is a `StateFile` as well; who may read there is that store's matter.

The rest of a changefeed's folder is its runner's.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tidecast._errors import TerminalError
from tidecast.storage import AnyPath, RemotePath, StateFile, entries, make_folder, remove_tree, sync_folder

_log = logging.getLogger(__name__)

_FILE = "feed.json"
_REMOVED = ".removed-"


class State(StrEnum):
    """The state of a changefeed. Source: Changefeeds, states."""

    NORMAL = "normal"
    WARNING = "warning"
    FAILED = "failed"
    STOPPED = "stopped"
    FINISHED = "finished"

    @property
    def runs(self) -> bool:
        """Tell whether a changefeed in this state replicates."""
        return self in (State.NORMAL, State.WARNING)


@dataclass(frozen=True)
class Problem:
    """The last error of a changefeed: its time, server, TiCDC code, full text, and a hint."""

    time: dt.datetime
    addr: str
    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Feed:
    """A changefeed but for its progress, which its runner keeps.

    `config` is the replica config (see `checked_replica_config`); it and `sink_uri` hold secrets. `since` is when the
    present streak of `retries` errors began. `versions` has the newest schema version of each table that was published.
    `revision` counts its updates.
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
    revision: int = 0


class FeedFolder:
    """The folder in which changefeeds are kept. Of its methods, one at a time may be called."""

    def __init__(self, root: AnyPath) -> None:
        self.root = root
        make_folder(root)
        self._files: dict[str, StateFile] = {}

    def of(self, feed_id: str) -> AnyPath:
        """Return the folder of a changefeed."""
        return self.root / feed_id

    def load(self) -> Iterator[Feed]:
        """Yield every changefeed, and clear away what is left of those that were being created or removed."""
        for path in [entry.path for entry in entries(self.root) if entry.is_dir]:
            if path.name.startswith(_REMOVED) or self._unborn(path):
                remove_tree(path)
            elif (kept := self._kept(path)) is not None:
                yield _parsed(kept, path / _FILE)
            else:
                _log.warning("%s is left alone: it holds no %s, so it is no changefeed", path, _FILE)

    def create(self, feed: Feed) -> None:
        """Keep a new changefeed, in a folder of its own. Raises TerminalError where there is another one in its place.

        Clears away the remains of a creation that a crash has cut short.
        """
        home = self.of(feed.id)
        if home.exists() and not self._unborn(home):
            why = "something else is in the place of this changefeed"
            raise TerminalError(why, where=str(home), hint="move it away")
        remove_tree(home, ignore_errors=True)
        self._files.pop(feed.id, None)
        make_folder(home, 0o700)
        self.save(feed)
        sync_folder(self.root)

    def save(self, feed: Feed) -> None:
        """Keep a changefeed as it is now: when this returns, it outlives the process and the machine."""
        self._file(self.of(feed.id)).write(json.dumps(asdict(feed), indent=2, default=str).encode())

    def remove(self, feed_id: str) -> None:
        """Forget a changefeed with all that is in its folder."""
        home = self.of(feed_id)
        if not home.exists():
            return
        # In one step, so that nothing of it is found after a crash.
        if isinstance(home, RemotePath):
            self._file(home).write(b"")
        else:
            home = home.rename(home.with_name(f"{_REMOVED}{uuid.uuid4().hex}"))
            sync_folder(self.root)
        remove_tree(home, ignore_errors=True)  # the next start clears away what stays
        self._files.pop(feed_id, None)

    def _file(self, home: AnyPath) -> StateFile:
        return self._files.setdefault(home.name, StateFile(home / _FILE, mode=0o600))  # it holds secrets

    def _kept(self, home: AnyPath) -> bytes | None:
        """Return what is kept of a changefeed, None where the folder is none's."""
        there = [entry for entry in entries(home) if entry.name == _FILE or entry.name.startswith(f"{_FILE}.")]
        return self._file(home).read() if any(not entry.is_dir for entry in there) else None

    def _unborn(self, home: AnyPath) -> bool:
        """Tell whether a folder holds nothing, or nothing but the draft of a changefeed or one that was removed."""
        names = [entry.name for entry in entries(home)]
        if isinstance(home, RemotePath):
            return any(name.startswith(f"{_FILE}.") for name in names) and self._kept(home) is None
        return home.is_dir() and all(name == f".{_FILE}.draft" for name in names)


def _parsed(kept: bytes, path: AnyPath) -> Feed:
    try:
        members = json.loads(kept)
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
