"""Folders that one process uses at a time.

On this machine the system keeps the lock and lets go of it with the process. On a remote store it is a lease: the
object `.lock-<number>` of the highest number says who has the folder. Its holder writes it anew every few seconds. Who
sees it unchanged for longer than the lease, by a clock of its own, may make the one of the next number, which only one
can; the holder sees that, and has lost the folder. A holder of this machine that has ended need not be waited for.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from tidecast import _atomic
from tidecast._errors import ConfigError, TerminalError, TidecastError
from tidecast.storage._entries import entries
from tidecast.storage._files import create, not_exclusive, remove_file, replace_file
from tidecast.storage._remote import AnyPath, RemotePath

_log = logging.getLogger(__name__)

LEASE_S = 30.0
_NAME = re.compile(r"\.lock-(\d{12})")


class Lock(Protocol):
    """A hold on a folder, until it is closed."""

    @property
    def held(self) -> bool:
        """Tell whether no other process has taken the folder meanwhile."""

    def close(self) -> None:
        """Let go of the folder."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def locked(folder: AnyPath, hint: str | None = None) -> Lock:
    """Take a folder for oneself, make it if need be, and return what holds it until that is closed.

    Where another one has it, raises TerminalError with a `hint` what to do about that; without a hint, waits for it.
    Raises ConfigError where the folder cannot be used.
    """
    if not isinstance(folder, RemotePath):
        return _FileLock(_atomic.locked(folder, hint))
    try:
        return _Lease(folder, hint, LEASE_S)
    except OSError as error:
        raise ConfigError(f"the folder cannot be used: {error.strerror}", where=str(folder)) from None


def check_held(path: RemotePath) -> None:
    """Raise TerminalError where a folder above a path was this process's own, and another one has taken it over."""
    for lease in list(_HELD):
        if path.is_relative_to(lease.folder):
            lease.check()


class _Closed:
    """Something that the end of a `with` block closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


class _FileLock(_Closed):
    held = True

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def close(self) -> None:
        self._file.close()


class _Lease(_Closed):
    def __init__(self, folder: RemotePath, hint: str | None, seconds: float) -> None:
        self.folder, self._hint, self._seconds = folder, hint, seconds
        self._note = {"process": _process(), "host": socket.gethostname(), "since": time.strftime("%F %T %z")}
        self._renewals = 0
        self._number = self._taken()
        self._lost = False
        _HELD.append(self)
        self._closed = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._renewer.start()

    @property
    def held(self) -> bool:
        return not self._lost

    def check(self) -> None:
        """Raise TerminalError where another process has taken the folder over."""
        self._lost = self._lost or max(self._numbers(), default=0) > self._number
        if self._lost:
            why = "another process has taken this folder over, as the lock was not renewed in time"
            raise TerminalError(why, where=str(self.folder), hint="see which other process uses it, and end one")

    def close(self) -> None:
        self._closed.set()
        self._renewer.join()
        _HELD.remove(self)
        if not self._lost:
            try:
                replace_file(self._object(self._number), self._text(released=True))
            except (OSError, TidecastError) as error:
                _log.warning("%s: the lock stays until its lease has passed: %s", self.folder, error)

    def _taken(self) -> int:
        """Take the folder, and return the number of its lock."""
        while True:
            numbers = self._numbers()
            last = max(numbers, default=0)
            if last:
                self._wait_for(self._object(last))
            try:
                create(self._object(last + 1), self._text())
            except FileExistsError:
                continue  # another one was first
            self._check_exclusive(self._object(last + 1))
            numbers = self._numbers()
            if max(numbers, default=0) > last + 1:  # others had it meanwhile, and removed the first of their locks
                remove_file(self._object(last + 1))
                continue
            for number in numbers:
                if number <= last:
                    remove_file(self._object(number))
            return last + 1

    def _check_exclusive(self, lock: RemotePath) -> None:
        try:
            create(lock, b"another")
        except FileExistsError:
            return
        remove_file(lock)
        raise not_exclusive(self.folder)

    def _wait_for(self, lock: RemotePath) -> None:
        """Return when whoever has a lock has let go of it, or has not renewed it for as long as its lease."""
        seen, since = self._read(lock), time.monotonic()
        while seen is not None and not _is_free(seen):
            time.sleep(min(self._seconds / 20, 1.0))
            now = self._read(lock)
            if now == seen:
                if time.monotonic() - since > self._seconds:
                    _log.warning("%s: its lock is taken over, as nobody has renewed it: %s", self.folder, seen)
                    return
            elif self._hint is not None and now is not None and not _is_free(now):
                host, since_then = now.get("host"), now.get("since")
                raise TerminalError(
                    f"another process uses this folder, on {host} since {since_then}",
                    where=str(self.folder),
                    hint=self._hint,
                )
            else:
                seen, since = now, time.monotonic()

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / 3):
            try:
                self.check()
                self._renewals += 1
                replace_file(self._object(self._number), self._text())
            except TerminalError as lost:
                _log.error("%s", lost)
                return
            except (OSError, TidecastError) as error:
                _log.warning("%s: its lock cannot be renewed: %s", self.folder, error)

    def _text(self, *, released: bool = False) -> bytes:
        return json.dumps({**self._note, "renewals": self._renewals, "released": released}).encode()

    def _read(self, lock: RemotePath) -> dict[str, Any] | None:
        try:
            note = json.loads(lock.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            note = None
        return note if isinstance(note, dict) else {}

    def _object(self, number: int) -> RemotePath:
        return self.folder / f".lock-{number:012}"

    def _numbers(self) -> list[int]:
        return [int(found[1]) for one in entries(self.folder) if (found := _NAME.fullmatch(one.name))]


_HELD: list[_Lease] = []
"""The leases of this process."""


def _is_free(note: dict[str, Any]) -> bool:
    return bool(note.get("released")) or _has_ended(note.get("process"))


def _process() -> list[str]:
    """Return what tells this process from all others: the machine's start, the space of process ids, id, start."""
    return [*_space(), str(os.getpid()), _start_of(os.getpid())]


def _space() -> tuple[str, str]:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip(), str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:  # only Linux has them
        return "", ""


def _start_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _has_ended(process: object) -> bool:
    """Tell whether a process is one of this machine that is there no more, for certain."""
    if not (isinstance(process, list) and len(process) == 4 and all(isinstance(part, str) for part in process)):
        return False
    *space, number, start = process
    if not space[0] or tuple(space) != _space() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    present = _start_of(int(number))
    return bool(present) and present != start
