"""A continuous replica as a process that is killed and started again, and what can be seen of it from outside."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.request import urlopen

from bench.suite import free_ports
from tidecast.model import physical_ms

_FULL = re.compile(r"Pause Full.* \d+M->(\d+)M")
_MIB = 1 << 20
_END_S = 600.0


@dataclass(frozen=True)
class Sample:
    """What was seen at a time: `lag` is how long ago the newest applied change was committed, in seconds.

    Sizes are in MiB: of Java and Python together, of what Java holds after its last full collection, of Python alone.
    """

    at: float
    lag: float
    resident: int
    heap: int | None
    python: int


@dataclass
class Replica:
    """`tidecast replicate --continuous` in a process group of its own, on a folder of its own."""

    source: str
    registry: str
    folder: Path
    options: Sequence[str] = ()
    samples: list[Sample] = field(default_factory=list)
    batches: list[tuple[float, float]] = field(default_factory=list)
    kills: int = 0
    newest: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def tables(self) -> Path:
        """Where its tables lie."""
        return self.folder / "tables"

    @property
    def checkpoint(self) -> Path:
        """Where its checkpoint lies."""
        return self.folder / "checkpoint"

    def start(self) -> None:
        """Start it, or start it again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self._url, self._gc = f"http://127.0.0.1:{port}/status", self.folder / f"gc-{self.kills}.log"
        self._seen = -1
        more = ["--continuous", "--addr", f"127.0.0.1:{port}", "--conf", "spark.cleaner.periodicGC.interval=30s"]
        with (self.folder / "log.txt").open("ab") as log:
            self._process = self._run([*more, *self.options], log)

    def kill(self) -> None:
        """Kill it and its Java, as `kill -9` does, where it runs."""
        if self._process is None or self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.kills += 1

    def end(self) -> list[str]:
        """End it, and apply what is left; return what went wrong."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            codes = [self._process.wait(_END_S)]
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"does not end within {_END_S:.0f} s"]
        with (self.folder / "log.txt").open("ab") as log:
            codes.append(self._run([], log).wait(_END_S))
        return [f"ended with exit codes {codes}, see {self.folder}/log.txt"] if any(codes) else []

    def caught_up(self, last: int) -> bool:
        """Tell whether a commit-ts is applied, as far as has been sampled."""
        return self.newest >= last

    def sample(self) -> None:
        """Look at it; while it does not answer, its lag grows."""
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"the replica ended with exit code {code}, see {self.folder}/log.txt")
        with suppress(OSError, ValueError), urlopen(self._url, timeout=5) as answer:
            status = json.load(answer)
            if status["batches"] and status["batch"] != self._seen:
                self._seen = status["batch"]
                self.batches.append((time.time(), sum(status["stages"].values())))
            self.newest = max(self.newest, *(int(t["last_commit_ts"] or 0) for t in status["tables"]), 0)
        if self.newest:
            now = time.time()
            java, python = self._resident(self._process.pid)
            self.samples.append(Sample(now, now - physical_ms(self.newest) / 1000, java + python, self._heap(), python))

    def _run(self, more: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tidecast", "replicate", self.source, "--to", str(self.tables), "--tz", "UTC"]
        command += ["--checkpoint", str(self.checkpoint), "--schema-registry", self.registry, "--json"]
        environment = os.environ | {"SPARK_SUBMIT_OPTS": f"-Xlog:gc:file={self._gc}"}
        return subprocess.Popen(
            [*command, *more], stdout=log, stderr=log, env=environment, start_new_session=True, stdin=subprocess.DEVNULL
        )

    def _resident(self, session: int) -> tuple[int, int]:
        """Return the resident memory of its Java, and of the rest of its session's processes."""
        found: Counter[bool] = Counter()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                name, _, rest = (folder / "stat").read_text().rpartition(")")
                if int(rest.split()[3]) == session:
                    pages = int((folder / "statm").read_text().split()[1])
                    found[name.endswith("java")] += pages * os.sysconf("SC_PAGE_SIZE")
        return found[True] // _MIB, found[False] // _MIB

    def _heap(self) -> int | None:
        found = _FULL.findall(self._gc.read_text()) if self._gc.exists() else []
        return int(found[-1]) if found else None


def sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Return how many files, and how many bytes, are in a folder's parts."""
    found: dict[str, tuple[int, int]] = {}
    for base, _, names in os.walk(folder):
        part = Path(base).relative_to(folder).parts
        count, size = found.get(name := part[0] if part else ".", (0, 0))
        with suppress(OSError):
            size += sum((Path(base) / file).stat().st_size for file in names)
        found[name] = count + len(names), size
    return found
