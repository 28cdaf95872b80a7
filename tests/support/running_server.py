"""`tidecast server` as a process of its own, with Spark behind it, and `tidecast cli` against it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feed_server import Client

_SLOW = 180


@dataclass
class RunningServer:
    """A server, and its command line."""

    port: int
    process: subprocess.Popen[str]
    data: Path
    log: Path

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def changefeed(self, action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `tidecast cli changefeed …`."""
        command = [sys.executable, "-m", "tidecast", "cli", "changefeed", action, f"--server={self.url}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=_SLOW, check=False)

    def query(self, feed: str, *more: str) -> dict[str, Any]:
        """Return what `query` prints, nothing while it fails."""
        asked = self.changefeed("query", "-c", feed, *more)
        return dict(json.loads(asked.stdout)) if asked.returncode == 0 else {}

    def wait(self, feed: str, **wanted: object) -> dict[str, Any]:
        """Wait until the server says so of a changefeed; returns what it said last."""
        ask, deadline = Client(self.url), time.monotonic() + _SLOW
        while True:
            found: dict[str, Any] = ask("GET", f"/api/v2/changefeeds/{feed}").json
            if wanted.items() <= found.items():
                return found
            assert time.monotonic() < deadline, f"{feed} is never {wanted} but {found}"
            time.sleep(0.5)


@contextmanager
def running_server(
    source: str, data: Path, port: int, *options: str, data_dir: str | None = None
) -> Iterator[RunningServer]:
    """A running server, ready to be asked; killed without a word at the end.

    It keeps its changefeeds in the folder `data`, unless `data_dir` names another place; its log lies beside `data`.
    """
    home = data_dir or str(data)
    command = [sys.executable, "-m", "tidecast", "server", "--addr", f"127.0.0.1:{port}", "--data-dir", home]
    command += ["--source", source, "--tz", "UTC", "--allow-path", "/", *options]
    log = data.with_suffix(".log")
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            assert "listens" in process.stdout.readline(), log.read_text()
            yield RunningServer(port, process, data, log)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
