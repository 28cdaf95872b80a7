"""A program as a child process: started, waited for, and always ended."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tidecast.runtime import find_java

DEADLINE_SECONDS = 60.0
_ATTEMPTS = 3
# Small and quickly there; nothing here runs long enough to be worth compiling well.
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=128m")


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class JavaServer(ABC):
    """A server with a work folder of its own, which lives as long as the `with` block; in Java, as a rule."""

    _process: subprocess.Popen[bytes]
    _started: Sequence[str | Path]
    work: Path

    @property
    def _program(self) -> Sequence[str | Path]:
        return (find_java().executable, *_JAVA_OPTIONS)

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """Choose ports, write configuration into `work`, and give the program's arguments."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server does its work already."""

    def _environment(self) -> Mapping[str, str]:
        """Give variables that the server needs beside those of this process."""
        return {}

    def __enter__(self) -> Self:
        # Between choosing a port and binding it somebody else may take it: then choose again.
        for attempt in range(1, _ATTEMPTS + 1):
            self.work = Path(tempfile.mkdtemp(prefix=f"tidecast-{type(self).__name__.lower()}-"))
            self._started = [*self._program, *self._command()]
            self._start()
            if self._came_up():
                return self
            log_end = self._log_end()
            code = self._process.poll()
            self._end()
            if code is None or attempt == _ATTEMPTS:
                raise RuntimeError(f"{type(self).__name__} does not answer (exit code {code}):\n{log_end}")
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def kill(self) -> None:
        """Kill it, as `kill -9` does; its ports and its work folder stay its own."""
        self._process.kill()
        self._process.wait()
        atexit.unregister(self._process.kill)

    def start_again(self) -> None:
        """Start it once more after `kill`, on the same ports and data, and wait until it answers."""
        self._start()
        if not self._came_up():
            raise RuntimeError(f"{type(self).__name__} does not answer again:\n{self._log_end()}")

    def _start(self) -> None:
        with (self.work / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                self._started,
                cwd=self.work,
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        atexit.register(self._process.kill)

    def _log_end(self) -> str:
        return (self.work / "log.txt").read_text(errors="replace")[-4000:]

    def _came_up(self) -> bool:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return True
            time.sleep(0.1)
        return False

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        atexit.unregister(self._process.kill)
        shutil.rmtree(self.work, ignore_errors=True)
