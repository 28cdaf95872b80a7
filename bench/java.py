"""The Java process of a local Spark session, as Linux sees it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
from pyspark import SparkContext

_TICKS = os.sysconf("SC_CLK_TCK")
_FORGET_PEAK = "5"


def java_gateway(context: SparkContext) -> JavaGateway:
    """Return the way to a session's Java."""
    gateway = context._gateway
    assert gateway is not None, "a session of Spark Connect has no Java of its own"
    return gateway


class Java:
    """What a session's Java has taken of the machine."""

    def __init__(self, context: SparkContext) -> None:
        self._folder = Path("/proc", str(java_gateway(context).proc.pid))
        assert self._folder.joinpath("comm").read_text() == "java\n", "this process is not Java"

    def cpu_seconds(self) -> float:
        """Return the time that it ran, with its compiler and garbage collector, and the processes that it began.

        These are the Python processes of a local session, those that have ended, too.
        """
        parents, ticks = dict[str, str](), dict[str, int]()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[folder.name], ticks[folder.name] = after_name[1], sum(map(int, after_name[11:15]))
        mine = {self._folder.name}
        while more := {process for process, parent in parents.items() if parent in mine} - mine:
            mine |= more
        return sum(ticks[process] for process in mine) / _TICKS

    def forget_peak(self) -> None:
        """Let the peak begin with what is resident now. Source: proc_pid_clear_refs(5)."""
        (self._folder / "clear_refs").write_text(_FORGET_PEAK)

    def peak(self) -> int:
        """Return the most bytes that were resident at once."""
        status = dict(line.split(":", 1) for line in (self._folder / "status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) * 1024
