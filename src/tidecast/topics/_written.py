"""What Spark wrote to a local folder, counted: machines that share no folder with this one write elsewhere."""

from __future__ import annotations

import gzip
import os
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from tidecast._errors import TerminalError

_CHUNK = 1 << 20


def count_lines(file: Path) -> int:
    """Return the number of lines in a file of text, and make it outlive a crash of the machine."""
    _secure(file)
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        return sum(chunk.count(b"\n") for chunk in iter(partial(lines.read, _CHUNK), b""))


def count_rows(file: Path) -> int:
    """Return the number of rows in a Parquet file, or in those of a folder, and make them outlive a crash."""
    if file.is_dir():
        return sum(map(count_rows, file.glob("part-*")))
    _secure(file)
    return int(pq.read_metadata(file).num_rows)


def check_written(expected: int, found: int, folder: Path) -> None:
    """Raise TerminalError where a folder got another number of records than it should."""
    if found != expected:
        raise TerminalError(
            f"only {found} of {expected} records arrived in this folder"
            if found < expected
            else f"{found} records arrived in this folder instead of {expected}",
            where=str(folder),
            hint="name a folder that every machine of the Spark cluster shares, and let nobody change the source",
        )


def _secure(file: Path) -> None:
    with file.open("rb") as content:
        os.fsync(content.fileno())
