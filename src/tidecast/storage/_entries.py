"""The entries of a folder."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidecast.storage._remote import AnyPath, RemotePath

_VERSIONS = ("ETag", "etag", "generation", "LastModified", "last_modified", "mtime", "modificationTime")
_MODIFIED = ("LastModified", "last_modified", "mtime", "updated")
"""What drivers call a file's time, as a datetime or in ISO 8601."""


@dataclass(frozen=True)
class Entry:
    """Something in a folder. A remote store has told in its listing what this says of it."""

    path: AnyPath
    info: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return self.path.name

    @property
    def is_dir(self) -> bool:
        """Tell whether it is a folder."""
        return self.path.is_dir() if self.info is None else self.info["type"] == "directory"

    @property
    def size(self) -> int:
        """The bytes in it."""
        return self.path.stat().st_size if not isinstance(self.path, RemotePath) else int((self.info or {})["size"])

    @property
    def modified(self) -> float | None:
        """The time when the file was written, in milliseconds since the epoch; None where the store does not tell."""
        if not isinstance(self.path, RemotePath):
            return self.path.stat().st_mtime_ns / 1e6
        told = self.info or {}
        when = next((told[name] for name in _MODIFIED if told.get(name) is not None), None)
        if isinstance(when, str):
            try:
                when = dt.datetime.fromisoformat(when)
            except ValueError:
                return None
        return when.timestamp() * 1000 if isinstance(when, dt.datetime) else None

    @property
    def version(self) -> str:
        """A text that changes as soon as the file is written again."""
        if not isinstance(self.path, RemotePath):
            return str(self.path.stat().st_mtime_ns)
        told = self.info or {}
        return next((str(told[name]).strip('"') for name in _VERSIONS if told.get(name) is not None), "")


def entries(folder: AnyPath, *, strict: bool = False) -> list[Entry]:
    """Return what is in a folder, in order of name; a folder that is not there is empty.

    So is a file, which with `strict` raises NotADirectoryError where it lies on this machine.
    """
    if not isinstance(folder, RemotePath):
        try:
            return [Entry(path) for path in sorted(folder.iterdir())]
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            if strict:
                raise
            return []
    try:
        with folder.asked() as (system, path):
            listed = system.ls(path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    named = {info["name"].rstrip("/").rpartition("/")[2]: info for info in listed if _within(info["name"], path)}
    return [Entry(folder / name, named[name]) for name in sorted(named)]


def entry(path: AnyPath) -> Entry | None:
    """Return a file or folder, None where there is nothing."""
    if not isinstance(path, RemotePath):
        return Entry(path) if path.exists() else None
    try:
        with path.asked() as (system, name):
            return Entry(path, system.info(name))
    except FileNotFoundError:
        return None


def files_below(folder: AnyPath) -> list[str]:
    """Return the names, seen from a folder, of the files in it at any depth; a folder that is not there has none."""
    if not isinstance(folder, RemotePath):
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    with folder.asked() as (system, path):
        found = system.find(path)  # with them objects that stand for folders
        return sorted(name[len(path) :].strip("/") for name in found if not name.endswith("/") and _within(name, path))


def _within(name: str, folder: str) -> bool:
    """Tell whether a listing's entry is not the folder itself: some stores have an object of its name."""
    return name.strip("/") != folder.strip("/")
