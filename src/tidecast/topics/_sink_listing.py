"""The new files in the folder of TiCDC's storage sink. Source: Storage sink, layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidecast._tso import is_tso, physical_ms
from tidecast.storage import AnyPath, Entry, entries, entry
from tidecast.topics._sink_layout import (
    META,
    METADATA,
    DataFile,
    Writer,
    data_file,
    index_prefix,
    is_part,
    is_version,
    renamed,
    schema_version,
)

_AT_ONCE = 16
"""How many questions a storage is asked at the same time."""
_ONE_BY_ONE = 32
"""Up to how many files of a folder are looked at one by one; more are listed."""

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Known:
    """The files that were found before: the last one of each writer, and the schema files."""

    last: Mapping[Writer, int] = field(default_factory=dict)
    schema_files: frozenset[str] = frozenset()

    def versions(self) -> dict[str, int]:
        """Return each table's newest version but one that has data; the newest where it is the only one.

        A file of the older one may wait for `metadata` still. Where versions are no TSO, 0: any may get more files.
        """
        there: dict[str, set[int]] = {}
        for writer in self.last:
            there.setdefault(writer.table, set()).add(writer.version)
        return {
            table: sorted(versions)[-2:][0] if all(map(is_tso, versions)) else 0 for table, versions in there.items()
        }

    def dates(self) -> dict[str, str]:
        """Return, by the folder that folders of dates lie in, the last date but one; the last where it is the only one.

        At midnight one writer may still write into yesterday's folder when another has begun today's.
        """
        there: dict[str, set[str]] = {}
        for writer in self.last:
            if writer.dated:
                folder, _, date = writer.folder.rpartition("/")
                there.setdefault(folder, set()).add(date)
        return {folder: sorted(dates)[-2:][0] for folder, dates in there.items()}


@dataclass(frozen=True)
class Found:
    """The files that are there to be read. `checkpoint_ts` is None where nothing tells it.

    `last` has the newest whole file of each writer; `unnamed` the writers whose index names an earlier one, and which.
    `held` are data files that may be written yet, as no index names them, and indexes that name none.
    """

    checkpoint_ts: int | None
    schema_files: Sequence[str]
    last: Mapping[Writer, DataFile]
    held: Sequence[str]
    unnamed: Mapping[Writer, int] = field(default_factory=dict)


def look(root: AnyPath, known: Known) -> Found:
    """Return what is there, without the tables' older versions and days that are known to have no more.

    `metadata` is read first: all rows up to its checkpoint-ts lie in files that are found then.
    """
    checkpoint_ts = _checkpoint_ts(root / METADATA)
    walk = _Walk(root, known.versions(), known.dates(), frozenset(w.folder for w in known.last), checkpoint_ts)
    found = at_once(walk.table, _tables(root))
    return Found(
        checkpoint_ts,
        sorted(path for paths, _, _, _ in found for path in paths),
        {file.writer: file for _, files, _, _ in found for file in files},
        sorted(path for _, _, paths, _ in found for path in paths),
        {writer: index for _, _, _, unnamed in found for writer, index in unnamed.items()},
    )


def is_storage_sink(root: AnyPath) -> bool:
    """Tell whether a folder is that of a storage sink: it has `metadata`, or schema files where these lie."""
    if (root / METADATA).is_file():
        return True
    tops = [top.path for top in _folders(entries(root))]
    tables = tops + [table.path for top in tops for table in _folders(entries(top))]
    return any(schema_version(file.name) is not None for table in tables for file in entries(table / META))


def files_of(root: AnyPath, writer: Writer, indexes: range, name: str | None = None) -> dict[int, Entry]:
    """Return the files of a writer that are there, by index. `name` is that of one, so that few need no listing."""
    folder = below(root, writer.folder)
    if name and len(indexes) <= _ONE_BY_ONE:
        found = {index: entry(folder / renamed(name, index)) for index in indexes}
        if all(found.values()):
            return {index: one for index, one in found.items() if one}
    listed = ((data_file(one.name), one) for one in entries(folder))
    return {file[1]: one for file, one in listed if file and file[0] == writer.prefix and file[1] in indexes}


def is_passed(file: Entry, checkpoint_ts: int | None) -> bool:
    """Tell whether a checkpoint-ts is later than a file's last writing, before which its rows were committed."""
    written = file.modified
    return checkpoint_ts is not None and written is not None and physical_ms(checkpoint_ts) > written


def at_once(ask: Callable[[In], Out], of: Sequence[In]) -> list[Out]:
    """Return the answers to several questions to a storage, in their order."""
    if len(of) < 2:
        return [ask(one) for one in of]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, of))


def _checkpoint_ts(file: AnyPath) -> int | None:
    """Return what the file `metadata` says; None where it says nothing, or something else."""
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    found = told.get("checkpoint-ts") if isinstance(told, dict) else None
    return found if type(found) is int and 0 <= found < 1 << 63 else None


def _tables(root: AnyPath) -> list[tuple[str, list[Entry]]]:
    """Return the folders of tables and of databases, by their path, with what is in each."""
    tops = _folders(entries(root))
    inside = at_once(lambda top: entries(top.path), tops)
    found: list[tuple[str, list[Entry]]] = []
    inner: list[tuple[str, AnyPath]] = []
    for top, there in zip(tops, inside, strict=True):
        found.append((top.name, there))
        if not any(is_version(one.name, top.name) for one in there):  # else the table's number takes its names' place
            inner += [(f"{top.name}/{one.name}", one.path) for one in _folders(there)]
    inside = at_once(lambda one: entries(one[1]), inner)
    return found + [(path, there) for (path, _), there in zip(inner, inside, strict=True)]


def _has_meta(there: Iterable[Entry]) -> bool:
    return any(one.name == META for one in there)


def _folders(there: Iterable[Entry]) -> list[Entry]:
    return [one for one in there if one.is_dir]


def below(root: AnyPath, path: str) -> AnyPath:
    for part in path.split("/"):
        root = root / part
    return root


@dataclass(frozen=True)
class _Walk:
    """One walk through the folders of tables."""

    root: AnyPath
    versions: Mapping[str, int]
    dates: Mapping[str, str]
    folders: frozenset[str]
    checkpoint_ts: int | None

    def table(self, table: tuple[str, list[Entry]]) -> tuple[list[str], list[DataFile], list[str], dict[Writer, int]]:
        """Return the schema files of a table, the last whole files of its writers, the files that wait, the unnamed."""
        path, there = table
        if not _has_meta(there):
            return [], [], [], {}
        schema_files = [
            f"{path}/{META}/{one.name}"
            for one in entries(below(self.root, path) / META)
            if schema_version(one.name) is not None
        ]
        whole: list[DataFile] = []
        held: list[str] = []
        unnamed: dict[Writer, int] = {}
        for one in there:
            if is_version(one.name, path) and int(one.name) >= self.versions.get(path, 0):
                for file in self._data(path, int(one.name), ()):
                    if isinstance(file, str):
                        held.append(file)
                        continue
                    newest, waits = self._complete(file)
                    whole += [newest] if newest.index else []
                    held += waits
                    if newest.index > file.index:
                        unnamed[file.writer] = file.index
        return schema_files, whole, held, unnamed

    def _data(self, table: str, version: int, parts: tuple[str, ...]) -> Iterator[DataFile | str]:
        """Yield for each writer in a folder, and in those in it, the file that its index names.

        An index that names none, as it is being written, comes itself: its path.
        """
        here = Writer(table, version, parts)
        folder = below(self.root, here.folder)
        leaf = here.dated or here.folder in self.folders
        listed = [] if leaf else entries(folder)
        for one in listed:
            if is_part(one.name) and one.name >= self.dates.get(here.folder, "") and one.is_dir:
                yield from self._data(table, version, (*parts, one.name))
        named = [one for one in entries(folder / META) if index_prefix(one.name)] if leaf or _has_meta(listed) else []
        for one in named:
            name = one.path.read_text(encoding="utf-8").strip().rpartition("/")[2]
            if told := data_file(name):
                yield DataFile(replace(here, prefix=told[0]), told[1], name)
            else:
                yield f"{here.folder}/{META}/{one.name}"
        if not named:  # writers that have no index yet
            files = [one.name for one in listed or entries(folder)]
            first = {told[0]: name for name in sorted(files, reverse=True) if (told := data_file(name))}
            for prefix, name in sorted(first.items()):
                yield DataFile(replace(here, prefix=prefix), 0, name)

    def _complete(self, named: DataFile) -> tuple[DataFile, list[str]]:
        """Return a writer's last whole file: that of its index, or one behind it that `metadata` has passed.

        Besides, the next file, where there is one that is not.
        """
        while True:
            following = DataFile(named.writer, named.index + 1, renamed(named.name, named.index + 1))
            there = entry(below(self.root, following.path))
            if there is None:
                return named, []
            if not is_passed(there, self.checkpoint_ts):
                return named, [following.path]
            named = following
