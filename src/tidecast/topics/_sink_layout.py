"""Names in the folder of TiCDC's storage sink, and the order of what they name. Source: Storage sink, layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidecast._tso import is_tso

METADATA = "metadata"
META = "meta"
_DIGITS = re.compile(r"[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}(-[0-9]{2})?")
_SCHEMA = re.compile(r"schema_([0-9]+)_[0-9]+\.json")
_INDEX = re.compile(r"(CDC(?:_.+)?)\.index")
_DATA = re.compile(r"(CDC(?:_.+_)?)([0-9]{6,20})\.(csv|json)")

LINE_BITS, _INDEX_BITS = 25, 12
RANK_BITS = LINE_BITS + _INDEX_BITS
FILES_OF_SEGMENT = 1 << _INDEX_BITS
"""How many data files of a writer and a folder are one segment, which has one number among all."""


@dataclass(frozen=True)
class Writer:
    """One sequence of data files: a folder's, or in it a dispatcher's. `prefix` is what their names begin with.

    `folder` has the table's path, the version, and what may follow: the physical partition, the date.
    """

    table: str
    version: int
    parts: tuple[str, ...]
    prefix: str = "CDC"

    @property
    def folder(self) -> str:
        """The path of the folder below the sink's."""
        return "/".join((self.table, str(self.version), *self.parts))

    @property
    def index(self) -> str:
        """The path of the index, which names the newest data file."""
        return f"{self.folder}/{META}/{self.prefix}.index"

    def place(self, segment: int) -> str:
        """Return what a checkpoint calls a segment of the sequence."""
        return f"{self.folder}/{self.prefix}+{segment}"

    @property
    def order(self) -> tuple[object, ...]:
        """The order of a table's sequences: version, partition, date; then it does not matter."""
        return (self.version, [(len(part), part) if part.isdigit() else (0, part) for part in self.parts], self.prefix)

    @property
    def dated(self) -> bool:
        """Tell whether the folder is that of a day or a month."""
        return bool(self.parts) and _DATE.fullmatch(self.parts[-1]) is not None


@dataclass(frozen=True)
class DataFile:
    """A data file: the `index`th of a writer, from 1 on."""

    writer: Writer
    index: int
    name: str

    @property
    def path(self) -> str:
        """The file's path below the sink's."""
        return f"{self.writer.folder}/{self.name}"


def place_of(name: str) -> tuple[Writer, int] | None:
    """Return the writer and the segment of a place in a checkpoint; None for one of another kind."""
    folder, _, last = name.rpartition("/")
    prefix, plus, segment = last.rpartition("+")
    writer = writer_of(folder, prefix)
    return (writer, int(segment)) if plus and segment.isdigit() and writer else None


def writer_of(folder: str, prefix: str) -> Writer | None:
    """Return the writer of a data folder's path; None for a path that is none.

    A table's path is a database and a table, or with `use-table-id-as-path` the table's number.
    """
    parts = folder.split("/")
    for at in (1, 2):
        if len(parts) > at and is_version(parts[at], "/".join(parts[:at])):
            return Writer("/".join(parts[:at]), int(parts[at]), tuple(parts[at + 1 :]), prefix)
    return None


def is_version(name: str, path: str) -> bool:
    """Tell whether a folder in that of a table, which may have this path, is a version's.

    Versions are TSO, which have more digits than a table's name is likely to have. Only where none is told, as by Avro,
    a changefeed of ours calls them by smaller numbers, below a database and a table.
    """
    return _DIGITS.fullmatch(name) is not None and (is_tso(int(name)) or "/" in path)


def is_part(name: str) -> bool:
    """Tell whether a folder within a version's is one of data: a physical partition's, or a date's."""
    return _DIGITS.fullmatch(name) is not None or _DATE.fullmatch(name) is not None


def schema_version(name: str) -> int | None:
    """Return the version in the name of a schema file; None for another name."""
    found = _SCHEMA.fullmatch(name)
    return int(found[1]) if found else None


def index_prefix(name: str) -> str | None:
    """Return what the data files of an index file begin with; None for another name."""
    found = _INDEX.fullmatch(name)
    return found[1] if found else None


def data_file(name: str) -> tuple[str, int] | None:
    """Return the prefix of its writer and the index in a data file's name; None for another name."""
    found = _DATA.fullmatch(name)
    return (found[1].rstrip("_") if found[1] != "CDC" else "CDC", int(found[2])) if found else None


def renamed(name: str, index: int) -> str:
    """Return a data file's name with another index, as wide as its own."""
    found = _DATA.fullmatch(name)
    assert found
    return f"{found[1]}{index:0{len(found[2])}}.{found[3]}"


def offset_of(rank: int, index: int, line: int = 0) -> int:
    """Return a record's offset: the number of its segment, the file in it, the line."""
    return rank << RANK_BITS | (index % FILES_OF_SEGMENT) << LINE_BITS | line


def rank_of(offset: int) -> int:
    """Return the number of a segment from an offset in it."""
    return offset >> RANK_BITS


def in_order(writers: Sequence[Writer]) -> list[Writer]:
    """Return writers in the order of their files."""
    return sorted(writers, key=lambda writer: (writer.order, writer.table))
