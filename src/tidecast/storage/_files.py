"""Files that are there whole or not at all, on any storage."""

from __future__ import annotations

import shutil
import uuid
from typing import Any

from tidecast import _atomic
from tidecast._errors import ConfigError, TidecastError
from tidecast.storage._remote import AnyPath, RemotePath

_PROBE = ".exclusive-"
_AT_ONCE = "ConditionalRequestConflict"
"""What S3 answers to those who write an object while another one does."""


def replace_file(path: AnyPath, data: bytes, mode: int = 0o666) -> None:
    """Write a file such that a crash leaves either the old one or the new one; once it returns, the new one.

    `mode` are the permissions of a local file, before the umask. One writer at a time: writers of a local file share a
    draft.
    """
    if not isinstance(path, RemotePath):
        _atomic.atomic_write(path, data, mode)
        return
    with path.asked() as (system, name):
        system.pipe_file(name, data)


def write_new(path: AnyPath, data: bytes) -> None:
    """Write a file that is not there yet, whole or not at all; its folder is made if need be.

    On a remote store it raises FileExistsError where there is one, see `create`.
    """
    if isinstance(path, RemotePath):
        create(path, data)
    else:
        _atomic.atomic_write(path, data)


def create(path: RemotePath, data: bytes) -> None:
    """Write a file where there is none: of several that try it at once, one can. Raises FileExistsError for others.

    `data` is like none that another process might write here: a request whose answer was lost may be made twice.
    """
    with path.asked() as (system, name):
        if not path.store.has_folders:
            _create_object(system, name, data)
            return
        draft = f"{name.rpartition('/')[0]}/.{uuid.uuid4().hex}"
        system.pipe_file(draft, data)
        try:
            system.mv(draft, name)  # which Hadoop's file system refuses, or does not do, where there is a file
            if not system.exists(draft):
                return
        except OSError:
            if not system.exists(name):
                raise
        system.rm_file(draft)
        raise FileExistsError(name)


def _create_object(system: Any, name: str, data: bytes) -> None:
    try:
        system.pipe_file(name, data, mode="create")
    except FileExistsError:
        if bytes(system.cat_file(name)) != data:
            raise
    except OSError as error:
        answer = getattr(error.__cause__, "response", None) or {}
        if answer.get("Error", {}).get("Code") != _AT_ONCE:
            raise
        raise FileExistsError(name) from None


def check_exclusive(folder: AnyPath, option: str) -> None:
    """Raise ConfigError for a remote folder that cannot be written, or whose store cannot do what `create` needs."""
    if not isinstance(folder, RemotePath):
        return
    probe = folder / f"{_PROBE}{uuid.uuid4().hex}"
    try:
        create(probe, b"one")
        try:
            create(probe, b"another")
        except FileExistsError:
            return
        finally:
            remove_file(probe)
    except TidecastError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{option}: the folder cannot be used: {folder.store.public(error)}", where=str(folder)
        ) from None
    raise not_exclusive(folder, f"{option}: ")


def not_exclusive(folder: RemotePath, option: str = "") -> ConfigError:
    """Return the error of a store that cannot do what `create` needs."""
    return ConfigError(
        f"{option}this storage cannot keep two processes from writing at once: it writes over what is there",
        where=str(folder),
        hint="take a storage with conditional writes (If-None-Match), or a folder of this machine",
    )


def make_folder(folder: AnyPath, mode: int = 0o777) -> None:
    """Make a folder of this machine, with those above it; on other stores a folder comes with what is written to it."""
    if not isinstance(folder, RemotePath):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)


def move(source: AnyPath, target: AnyPath) -> None:
    """Give a file another place, where it appears whole: by its new name, or as a copy on a store without names."""
    if not isinstance(source, RemotePath) or not isinstance(target, RemotePath):
        assert not isinstance(source, RemotePath)
        assert not isinstance(target, RemotePath)
        source.replace(target)
        return
    with source.asked() as (system, name), target.asked() as (_, there):
        if source.store.has_folders:
            system.mv(name, there)
        else:
            system.cp_file(name, there)
            system.rm_file(name)


def copy(source: AnyPath, target: AnyPath) -> None:
    """Make another file like one, which appears whole on a remote store."""
    if not isinstance(source, RemotePath) or not isinstance(target, RemotePath):
        replace_file(target, source.read_bytes())
        return
    with source.asked() as (system, name), target.asked() as (_, there):
        system.cp_file(name, there)


def remove_file(path: AnyPath) -> None:
    """Remove a file, if it is there."""
    if not isinstance(path, RemotePath):
        path.unlink(missing_ok=True)
        return
    try:
        with path.asked() as (system, name):
            system.rm_file(name)
    except FileNotFoundError:
        pass


def remove_tree(folder: AnyPath, *, ignore_errors: bool = False) -> None:
    """Remove a folder with all that is in it."""
    if not isinstance(folder, RemotePath):
        shutil.rmtree(folder, ignore_errors=ignore_errors)
        return
    try:
        with folder.asked() as (system, name):
            # One by one: where `rm` is given a folder, it takes `[` and `?` in its name for a pattern.
            for file in system.find(name, withdirs=False):
                system.rm_file(file)
            if folder.store.has_folders and system.exists(name):
                system.rm(name, recursive=True)
    except (OSError, TidecastError):
        if not ignore_errors:
            raise


def sync_folder(folder: AnyPath) -> None:
    """Make what was created, renamed or removed in a folder outlive a crash of the machine."""
    if not isinstance(folder, RemotePath):
        _atomic.sync_folder(folder)


def touch(path: AnyPath) -> None:
    """Make an empty file, unless there is a file."""
    if not isinstance(path, RemotePath):
        path.touch()
    elif not path.exists():
        replace_file(path, b"")
