"""A Schema Registry kept as readable JSON files in a folder: the embedded twin of the HTTP one.

    config.json                        {"compatibility": "BACKWARD"}, only where the level is another one
    subjects/<subject>/config.json     the same for one subject
    subjects/<subject>/<version>.json  {"id": 1, "version": 1, "schema": "<text>"}

Such a folder may as well be written by hand or by another program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

from tidecast._errors import ConfigError, RegistryError
from tidecast.registry._base import (
    API_ERROR,
    MAX_BYTES,
    RegisteredSchema,
    Registry,
    SchemaId,
    bounded_json,
    is_schema_id,
    refused,
)
from tidecast.registry._compatibility import DEFAULT_LEVEL, LEVELS, refusal
from tidecast.storage import AnyPath, Lock, entries, locked, write_new

_UNSAFE = re.compile(r"^\.|[/\\%\x00-\x1f]")


class _Version(NamedTuple):
    number: int
    id: int
    schema: str


class FolderRegistry(Registry):
    """The registry in the folder `root`, which is made with the first registration.

    Registrations of several processes at once are put in a row by a lock on the folder; every file appears
    whole or not at all, so reading takes no lock. Raises `RegistryError` naming the file that cannot be used.
    """

    def __init__(self, root: AnyPath) -> None:
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
            write_new(home / f"{number}.json", (json.dumps(members, indent=2, ensure_ascii=False) + "\n").encode())
            return schema_id

    def _find(self, schema_id: SchemaId) -> RegisteredSchema | None:
        if not self._root.exists():
            raise RegistryError(
                "there is no such folder to look up schemas in", where=str(self._root), hint="check --schema-registry"
            )
        with _usable():
            versions = (version for home in self._homes() for version in _versions(home))
            found = (RegisteredSchema(version.schema, version.id) for version in versions if version.id == schema_id)
            return next(found, None)

    def guess(self, wanted: Callable[[str], bool]) -> Mapping[SchemaId, RegisteredSchema]:
        """See `Registry.guess`; here all of them."""
        with _usable():
            homes = [home for home in self._homes() if wanted(unquote(home.name))]
            return {v.id: RegisteredSchema(v.schema, v.id) for home in homes for v in _versions(home)}

    def check(self) -> None:
        """See `Registry.check`; a folder that is not there yet is fine."""
        with _usable():
            entries(self._root, strict=True)

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted."""
        with _usable():
            return sorted(unquote(home.name) for home in self._homes() if _versions(home))

    def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions, ascending; none for an unknown subject."""
        with _usable():
            return [version.number for version in _versions(self._home(subject))]

    def compatibility(self, subject: str) -> str:
        """Return the compatibility level that a new version of this subject has to keep, such as `BACKWARD`."""
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

    def _homes(self) -> list[AnyPath]:
        """Return the folders of all subjects."""
        return [entry.path for entry in entries(self._root / "subjects", strict=True) if entry.is_dir]

    def _home(self, subject: str) -> AnyPath:
        """Return a subject's folder: its name, but for what would lead elsewhere or be no file name."""
        if not subject:
            raise RegistryError("a subject needs a name", where=str(self._root))
        return self._root / "subjects" / _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", subject)

    def _lock(self) -> Lock:
        try:
            return locked(self._root)
        except ConfigError as error:
            why = error.message.replace("the folder", "the registry's folder")
            raise RegistryError(why, code=API_ERROR, where=error.where) from error


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RegistryError(
            f"the registry's folder cannot be used: {error.strerror}", code=API_ERROR, where=str(error.filename)
        ) from error


def _versions(home: AnyPath) -> list[_Version]:
    """Return the versions in a subject's folder, ascending."""
    files = [file for file in entries(home, strict=True) if re.fullmatch(r"\d+\.json", file.name)]
    return sorted(_version(file.path, file.version) for file in files)


@cache
def _version(path: AnyPath, changed: str) -> _Version:
    """Read a version's file; `changed`, the file's version, is there for the cache."""
    members = _members(path)
    schema_id, schema = members.get("id"), members.get("schema")
    if not is_schema_id(schema_id) or not isinstance(schema, str):
        raise RegistryError("a version needs a number 'id' and the schema's text as a string 'schema'", where=str(path))
    return _Version(int(path.stem), schema_id, schema)


def _members(path: AnyPath) -> dict[str, Any]:
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
