"""The per-user folder for what is fetched or made once."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """The cache folder: `$TIDECAST_CACHE`, or `tidecast` in `$XDG_CACHE_HOME`, or `~/.cache/tidecast`."""
    own = os.environ.get("TIDECAST_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "tidecast"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that lock the same folder out; the folder is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_once(path: Path, content: bytes, *, mode: int = 0o644) -> Path:
    """Write a file whose name already says its content; a reader sees all of it or no file."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        Path(draft).chmod(mode)
        Path(draft).replace(path)
    return path
