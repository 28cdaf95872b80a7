"""Java's archive of the classes that Spark loads, with which a local session starts a good deal faster.

With `TIDECAST_CLASS_ARCHIVE` in the environment Java writes one when a program ends, and each later one maps it: 14 s
become 11 for `tidecast verify` of a small file. Java itself looks whether an archive fits its version, its options and
the jars, and does without one that does not. It can go when Spark starts as quickly. See class data sharing, JEP 350.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

import pyspark

from tidecast.runtime._cache import cache_dir
from tidecast.runtime._java import Java

_CHOSEN = re.compile("-Xshare|SharedArchiveFile|ArchiveClassesAtExit|DumpSharedSpaces")
_SILENT = "-Xlog:cds*=off"
_MAGIC = tuple(number.to_bytes(4, sys.byteorder) for number in (0xF00BABA2, 0xF00BABA8))


def class_archive(java: Java, given: str) -> str:
    """Return the options of a Java that is to start: those that map the archive, or that write one where it is wanted.

    Nothing where Java has no archive of its own classes, or where `given`, its other options, choose one.
    """
    if java.classes is None or _CHOSEN.search(given):
        return ""
    try:
        place = cache_dir() / "classes" / f"{_key(java.classes)}.jsa"
        if re.search(r"[\s'\"\\]", str(place)):
            return ""
        if _is_whole(place):
            return f"-XX:SharedArchiveFile={place} {_SILENT}"
        if not os.environ.get("TIDECAST_CLASS_ARCHIVE"):
            return ""
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError:  # a command does not fail for being slow
        return ""
    return f"-XX:ArchiveClassesAtExit={place} {_SILENT}"


def _key(classes: Path) -> str:
    """Return what tells one pair of a Java and a Spark from others."""
    jars = Path(pyspark.__file__).with_name("jars")
    parts = (f"{path} {path.stat().st_mtime_ns}" for path in (classes.resolve(), jars))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _is_whole(place: Path) -> bool:
    """Tell whether there is an archive that was written to its end: Java writes its beginning last."""
    try:
        with place.open("rb") as file:
            return file.read(4) in _MAGIC
    except FileNotFoundError:
        return False
