"""The Java process of a local Spark session, as Linux sees it."""

from __future__ import annotations

import os
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
        """Return the time that all its threads ran, the compiler's and the garbage collector's, too."""
        after_name = (self._folder / "stat").read_text().rpartition(")")[2].split()
        user, system = after_name[11:13]
        return (int(user) + int(system)) / _TICKS

    def forget_peak(self) -> None:
        """Let the peak begin with what is resident now. Source: proc_pid_clear_refs(5)."""
        (self._folder / "clear_refs").write_text(_FORGET_PEAK)

    def peak(self) -> int:
        """Return the most bytes that were resident at once."""
        status = dict(line.split(":", 1) for line in (self._folder / "status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) * 1024
