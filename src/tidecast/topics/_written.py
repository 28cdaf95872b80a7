"""Count the records that Spark wrote to a folder: machines that share no disk with this one write elsewhere."""

from __future__ import annotations

import gzip
import os
from functools import partial

import pyarrow.parquet as pq

from tidecast._errors import TerminalError
from tidecast.storage import AnyPath, RemotePath, entries

_CHUNK = 1 << 20


def count_lines(file: AnyPath) -> int:
    """Return the number of lines in a file of text, and make it outlive a crash of the machine."""
    _secure(file)
    with file.open("rb") as content, gzip.open(content) if file.suffix == ".gz" else content as lines:
        return sum(chunk.count(b"\n") for chunk in iter(partial(lines.read, _CHUNK), b""))


def count_rows(file: AnyPath) -> int:
    """Return the number of rows in a Parquet file, or in those of a folder, and make them outlive a crash."""
    if file.is_dir():
        return sum(count_rows(one.path) for one in entries(file) if one.name.startswith("part-"))
    _secure(file)
    with file.open("rb") as content:
        return int(pq.read_metadata(content).num_rows)


def check_written(expected: int, found: int, folder: AnyPath) -> None:
    """Raise TerminalError where a folder got another number of records than it should."""
    if found != expected:
        raise TerminalError(
            f"only {found} of {expected} records arrived in this folder"
            if found < expected
            else f"{found} records arrived in this folder instead of {expected}",
            where=str(folder),
            hint="name a folder that every machine of the Spark cluster shares, and let nobody change the source",
        )


def _secure(file: AnyPath) -> None:
    if isinstance(file, RemotePath):  # what a store has taken is safe
        return
    with file.open("rb") as content:
        os.fsync(content.fileno())
