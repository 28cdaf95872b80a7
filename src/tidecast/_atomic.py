"""Files that are there whole or not at all, and folders that one process uses at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import IO

from tidecast._errors import ConfigError, TerminalError

_LOCK = ".lock"


def atomic_write(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file such that a crash leaves either the old one or the new one; once it returns, the new one.

    `mode` are the permissions of the new file, before the umask. One writer at a time: writers share a draft.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder outlive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def locked(folder: Path, hint: str | None = None) -> IO[bytes]:
    """Take a folder for oneself, make it if need be, and return what holds it until that is closed.

    The system lets go of it when the process ends, however that happens. Where another one has it, raises
    TerminalError with a `hint` what to do about that; without a hint, waits for it. Raises ConfigError where the folder
    cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / _LOCK).open("ab")
    except OSError as error:
        raise ConfigError(f"the folder cannot be used: {error.strerror}", where=str(folder)) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX if hint is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise ConfigError(f"the folder cannot be locked: {error.strerror}", where=str(folder)) from None
        raise TerminalError("another process uses this folder", where=str(folder), hint=hint) from None
    return file
