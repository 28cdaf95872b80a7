"""The per-user folder for what is fetched or made once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_dir() -> Path:
    """The cache folder: `$TIDECAST_CACHE`, or `tidecast` in `$XDG_CACHE_HOME`, or `~/.cache/tidecast`."""
    own = os.environ.get("TIDECAST_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "tidecast"


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
