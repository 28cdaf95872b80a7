"""The state of a process in a file that is read once and then replaced, over and over."""

from __future__ import annotations

import errno
import re
import uuid
from contextlib import suppress

from tidecast._errors import TerminalError, Unreachable
from tidecast.storage._entries import entries
from tidecast.storage._files import create, remove_file, replace_file
from tidecast.storage._lock import check_held
from tidecast.storage._remote import AnyPath, RemotePath

_TRIES = 10


class StateFile:
    """A file that belongs to one process at a time, which has taken its folder for itself (see `locked`).

    On this machine it is a file, replaced in one step. On a remote store it is the object with the highest number of
    several, `<name>.<number>`: each state is a new one, which can be made only where there is none. To read makes one,
    too, so that a process which has lost its folder while it stood still writes nothing any more. The first line of
    such an object tells its writer.
    """

    def __init__(self, path: AnyPath, mode: int = 0o666) -> None:
        self.path = path
        self._mode = mode
        self._writer = uuid.uuid4().hex
        self._number = 0
        self._state: bytes | None = None

    def read(self) -> bytes | None:
        """Return the state, None where there is none yet. Raises OSError."""
        if not isinstance(self.path, RemotePath):
            return self.path.read_bytes() if self.path.exists() else None
        for _ in range(_TRIES if self._state is None else 0):
            # A process that has lost the folder may write, and remove, for the last time.
            with suppress(FileNotFoundError, FileExistsError):
                numbers = self._numbers(self.path)
                last = self._object(self.path, numbers[-1]).read_bytes() if numbers else b"\n"
                self._create(self.path, last.partition(b"\n")[2], max(numbers, default=0) + 1)
                break
        if self._state is None:
            raise self._taken()
        return self._state or None

    def look(self) -> bytes | None:
        """Return the state as it is now, for those who only watch; None where there is none. Raises OSError."""
        if not isinstance(self.path, RemotePath):
            return self.read()
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # its process has written the next one
                numbers = self._numbers(self.path)
                last = self._object(self.path, numbers[-1]).read_bytes() if numbers else b""
                return last.partition(b"\n")[2] or None
        raise FileNotFoundError(errno.ENOENT, "the state is replaced faster than it is read", str(self.path))

    def write(self, state: bytes) -> None:
        """Replace the state, by nothing if it is empty; once this returns, it outlives a crash.

        Raises TerminalError where another process has taken the state over: what this one has done since its last
        state, the other does again.
        """
        if not isinstance(self.path, RemotePath):
            replace_file(self.path, state, self._mode)
            return
        self.read()
        try:
            self._create(self.path, state, self._number + 1)
        except (FileExistsError, FileNotFoundError):
            raise self._taken() from None

    def _create(self, path: RemotePath, state: bytes, number: int) -> None:
        """Write the next state. Raises FileExistsError where another process has written a later one."""
        check_held(path)
        writer = f"{self._writer}\n".encode()
        while True:
            try:
                create(self._object(path, number), writer + state)
                break
            except FileExistsError:
                if not self._object(path, number).read_bytes().startswith(writer):
                    raise
            number += 1  # an earlier write whose answer was lost
        # Another process may have gone on so far that it has removed its first numbers.
        numbers = self._numbers(path)
        taken = max(numbers, default=number) > number
        with suppress(OSError, Unreachable):  # who writes next removes what is left
            for old in numbers:
                if old < number or (taken and old == number):
                    remove_file(self._object(path, old))
        if taken:
            raise FileExistsError(path)
        self._number, self._state = number, state

    def _taken(self) -> TerminalError:
        why = "another process has taken over this state, so that this one must not write it"
        return TerminalError(why, where=str(self.path), hint="see which other process uses the folder, and end one")

    def _object(self, path: RemotePath, number: int) -> RemotePath:
        return path.with_name(f"{path.name}.{number:012}")

    def _numbers(self, path: RemotePath) -> list[int]:
        pattern = re.compile(rf"{re.escape(path.name)}\.(\d{{12}})")
        return [int(found[1]) for one in entries(path.parent) if (found := pattern.fullmatch(one.name))]
