"""The side effects of a run, each a point at which it can be killed; seen from outside.

Python tells of each file that it is about to change, and what Spark writes goes through a few methods of pyspark. A
kill comes before an effect, which is as good as after the one before it; one in the middle of what Spark writes takes a
process: `python crash_points.py FOLDER POINT DELAY ARGUMENT…` runs tidecast, and kills it and its Java that many
seconds after it came to a point.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.merge import MergeIntoWriter

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FILES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "shutil.rmtree")
_STATEMENT = re.compile(r"\s*(ALTER|CREATE|DROP|INSERT|UPDATE|DELETE|MERGE|TRUNCATE|REPLACE|OPTIMIZE|VACUUM|RESTORE)\b")
_SAVES = ("save", "parquet", "json", "text", "csv", "orc", "insertInto", "saveAsTable")
_COMMITS = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<![0-9a-f])([0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])")
_LENGTH = 100

Point = tuple[str, int]
"""What is going to happen, and for which time: where tables are written side by side, each has its own order."""


class Killed(BaseException):
    """The end of a run, which nothing catches."""


class CrashPoints:
    """The effects of one run on a folder. It ends before the effect `at`; what comes then has no effect either.

    `at` is a point, or the number of one, counted from 1. `kill` is done there instead.
    """

    def __init__(self, folder: Path, at: Point | int | None = None, kill: Callable[[], None] | None = None) -> None:
        self.points: list[Point] = []
        self.killed = False
        self._folder, self._at, self._kill = str(folder), at, kill
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def watching(self) -> Iterator[CrashPoints]:
        """Watch the effects of this process until the block ends."""
        global _watching
        _install()
        _watching = self
        try:
            yield self
        finally:
            _watching = None

    def meet(self, what: str, where: str = "") -> None:
        """Come to an effect."""
        with self._lock:
            if self.killed:
                raise Killed
            text = re.sub(r"\s+", " ", f"{what} {where.replace(self._folder, '')}".replace("`", ""))
            name = _RANDOM.sub("*", text).replace("delta.", "").strip()[:_LENGTH]
            self._times[name] += 1
            point = name, self._times[name]
            self.points.append(point)
            if self._at in (point, len(self.points)):
                if self._kill:
                    self._kill()
                else:
                    self.killed = True
                    raise Killed

    def is_within(self, path: object) -> bool:
        """Tell whether a file is in the folder."""
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)


_watching: CrashPoints | None = None
_installed = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    watching = _watching
    if watching is None or not arguments or not (event == "open" or event in _FILES):
        return
    if not watching.is_within(arguments[0]):
        return
    path = os.fspath(arguments[0])
    if event == "open" and not arguments[2] & _WRITES:
        return
    if event == "os.mkdir" and os.path.isdir(path):  # noqa: PTH112 - a Path would be no quicker, and this is often
        return
    watching.meet(event.removeprefix("os.").removeprefix("shutil."), path)


def _install() -> None:
    """Let `_watching` see what this process does. Neither can be taken back, and both do nothing without it."""
    global _installed
    if _installed:
        return
    _installed = True
    sys.addaudithook(_audit)
    for name in _SAVES:
        _before(DataFrameWriter, name, lambda _, arguments: str(arguments[0]) if arguments else "")
    for kind, names in ((DataFrameWriterV2, _COMMITS), (MergeIntoWriter, ("merge",))):
        _remember_table(kind)
        for name in names:
            _before(kind, name, lambda writer, _: writer.crash_point_table)
    run_sql: Callable[..., Any] = SparkSession.sql

    @wraps(run_sql)
    def sql(self: SparkSession, statement: str, *arguments: Any, **named: Any) -> Any:
        if _watching is not None and _STATEMENT.match(statement):
            _watching.meet("sql", statement)
        return run_sql(self, statement, *arguments, **named)

    setattr(SparkSession, "sql", sql)  # noqa: B010 - mypy lets no method be replaced


def _before(kind: type, name: str, where: Callable[[Any, tuple[Any, ...]], str]) -> None:
    """Let a method tell that it is going to write."""
    method: Callable[..., Any] = getattr(kind, name)

    @wraps(method)
    def met(self: Any, *arguments: Any, **named: Any) -> Any:
        if _watching is not None:
            _watching.meet(name, where(self, arguments))
        return method(self, *arguments, **named)

    setattr(kind, name, met)


def _remember_table(kind: type) -> None:
    """Let a writer know the table that it was made for, which Python else forgets."""
    make: Callable[..., None] = kind.__init__  # type: ignore[misc]

    @wraps(make)
    def made(self: Any, frame: Any, table: str, *arguments: Any, **named: Any) -> None:
        make(self, frame, table, *arguments, **named)
        self.crash_point_table = table

    kind.__init__ = made  # type: ignore[misc]


def is_of_spark(point: Point) -> bool:
    """Tell whether an effect is something that Spark writes."""
    return point[0].split(" ")[0] in {*_SAVES, *_COMMITS, "merge", "sql"}


def _main(folder: str, name: str, times: str, delay: str, *arguments: str) -> None:
    def kill() -> None:
        threading.Timer(float(delay), lambda: os.killpg(os.getpgrp(), signal.SIGKILL)).start()

    from tidecast.cli import main

    sys.argv = ["tidecast", *arguments]
    with CrashPoints(Path(folder), (name, int(times)), kill).watching():
        main()


if __name__ == "__main__":
    sys.path.pop(0)  # the tests' own modules
    _main(*sys.argv[1:])
