"""A Schema Registry kept as readable JSON files in a folder: the embedded twin of the HTTP one.

    config.json                        {"compatibility": "BACKWARD"}, only where the level is another one
    subjects/<subject>/config.json     the same for one subject
    subjects/<subject>/<version>.json  {"id": 1, "version": 1, "schema": "<text>"}

Such a folder may as well be written by hand or by another program.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from tidecast._atomic import atomic_write
from tidecast._errors import RegistryError
from tidecast.registry._base import API_ERROR, MAX_BYTES, Registry, bounded_json, is_schema_id, refused
from tidecast.registry._compatibility import DEFAULT_LEVEL, LEVELS, refusal

_UNSAFE = re.compile(r"^\.|[/\\%\x00-\x1f]")


class _Version(NamedTuple):
    number: int
    id: int
    schema: str


class FolderRegistry(Registry):
    """The registry in the folder `root`, which is made with the first registration.

    Registrations of several processes at once are put in a row by a lock on the file `.lock`; every file appears
    whole or not at all, so reading takes no lock. Raises `RegistryError` naming the file that cannot be used.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __repr__(self) -> str:
        return f"FolderRegistry({str(self._root)!r})"

    def _register(self, subject: str, schema: str) -> int:
        with _usable(), self._lock():
            home = self._home(subject)
            earlier = _versions(home)
            for version in earlier:
                if version.schema == schema:
                    return version.id
            if reason := self._reason(subject, schema, earlier):
                raise refused(subject, reason)
            present = [version for other in self._homes() for version in _versions(other)]
            same = (version.id for version in present if version.schema == schema)
            number = max((version.number for version in earlier), default=0) + 1
            schema_id = next(same, max((version.id for version in present), default=0) + 1)
            members = {"id": schema_id, "version": number, "schema": schema}
            atomic_write(home / f"{number}.json", (json.dumps(members, indent=2, ensure_ascii=False) + "\n").encode())
            return schema_id

    def _find(self, schema_id: int) -> str | None:
        if not self._root.exists():
            raise RegistryError(
                "there is no such folder to look up schemas in", where=str(self._root), hint="check --schema-registry"
            )
        with _usable():
            versions = (version for home in self._homes() for version in _versions(home))
            return next((version.schema for version in versions if version.id == schema_id), None)

    def check(self) -> None:
        """See `Registry.check`; a folder that is not there yet is fine."""
        with _usable():
            _entries(self._root)

    def subjects(self) -> list[str]:
        with _usable():
            return sorted(unquote(home.name) for home in self._homes() if _versions(home))

    def versions(self, subject: str) -> list[int]:
        with _usable():
            return [version.number for version in _versions(self._home(subject))]

    def compatibility(self, subject: str) -> str:
        with _usable():
            for path in (self._home(subject) / "config.json", self._root / "config.json"):
                if path.exists():
                    level = str(_members(path).get("compatibility")).upper()
                    if level not in LEVELS:
                        raise RegistryError(f"'compatibility' must be one of {', '.join(LEVELS)}", where=str(path))
                    return level
        return DEFAULT_LEVEL

    def refusal(self, subject: str, schema: str) -> str | None:
        with _usable():
            earlier = _versions(self._home(subject))
        known = any(version.schema == schema for version in earlier)
        return None if known else self._reason(subject, schema, earlier)

    def _reason(self, subject: str, schema: str, earlier: list[_Version]) -> str | None:
        return refusal(schema, [(version.number, version.schema) for version in earlier], self.compatibility(subject))

    def _homes(self) -> list[Path]:
        """Return the folders of all subjects."""
        return [entry for entry in _entries(self._root / "subjects") if entry.is_dir()]

    def _home(self, subject: str) -> Path:
        """Return a subject's folder: its name, but for what would lead elsewhere or be no file name."""
        if not subject:
            raise RegistryError("a subject needs a name", where=str(self._root))
        return self._root / "subjects" / _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", subject)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed, and by the system when the process dies
            yield


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RegistryError(
            f"the registry's folder cannot be used: {error.strerror}", code=API_ERROR, where=str(error.filename)
        ) from error


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder, in one order; a folder that is not there is empty."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _versions(home: Path) -> list[_Version]:
    """Return the versions in a subject's folder, ascending."""
    files = [path for path in _entries(home) if re.fullmatch(r"\d+\.json", path.name)]
    return sorted(_version(path, path.stat().st_mtime_ns) for path in files)


@cache
def _version(path: Path, changed: int) -> _Version:
    """Read a version's file; `changed`, its time of change, is there for the cache."""
    members = _members(path)
    schema_id, schema = members.get("id"), members.get("schema")
    if not is_schema_id(schema_id) or not isinstance(schema, str):
        raise RegistryError("a version needs a number 'id' and the schema's text as a string 'schema'", where=str(path))
    return _Version(int(path.stem), schema_id, schema)


def _members(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RegistryError(f"the file has more than {MAX_BYTES:,} bytes", where=str(path))
    try:
        members = bounded_json(content.decode("utf-8"))
    except ValueError as error:
        raise RegistryError(f"not a JSON file: {error}", where=str(path)) from error
    if not isinstance(members, dict):
        raise RegistryError("not a JSON object", where=str(path))
    return members
