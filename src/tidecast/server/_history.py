"""The last hour of lag and throughput, in bounded memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

EVERY_S = 30.0
POINTS = 121


class Sample(NamedTuple):
    """How many seconds something is behind, None where nobody knows, and its rows since the start."""

    lag: float | None
    rows: int


class History:
    """Samples of whatever `read` returns, by name; what it no longer names is forgotten."""

    def __init__(self, read: Callable[[], Mapping[str, Sample]], clock: Callable[[], float] = time.time) -> None:
        self._read, self._clock, self._lock = read, clock, threading.Lock()
        self._series: dict[str, deque[tuple[float, Sample]]] = {}

    @asynccontextmanager
    async def kept(self, app: FastAPI) -> AsyncIterator[None]:
        """Take a sample now and then, as long as an application runs."""
        taking = asyncio.create_task(self._keep_taking())
        try:
            yield
        finally:
            taking.cancel()

    async def _keep_taking(self) -> None:
        while True:
            await run_in_threadpool(self.take)
            await asyncio.sleep(EVERY_S)

    def take(self) -> None:
        """Take a sample of everything."""
        samples, now = self._read(), self._clock()
        with self._lock:
            before = self._series
            self._series = {name: before.get(name, deque(maxlen=POINTS)) for name in samples}
            for name, sample in samples.items():
                self._series[name].append((now, sample))

    def content(self) -> dict[str, Any]:
        """Return it in JSON's types: of each name times, lags, and rows a second since the time before."""
        with self._lock:
            series = {name: list(points) for name, points in self._series.items()}
        return {
            "now": round(self._clock(), 3),
            "every_seconds": EVERY_S,
            "span_seconds": EVERY_S * (POINTS - 1),
            "series": {name: _columns(points) for name, points in series.items()},
        }


def _columns(points: list[tuple[float, Sample]]) -> dict[str, list[Any]]:
    rates = [
        round(max(new.rows - old.rows, 0) / max(later - earlier, 0.001), 3)
        for (earlier, old), (later, new) in pairwise(points)
    ]
    return {
        "time": [round(time, 3) for time, _ in points],
        "lag_seconds": [sample.lag if sample.lag is None else round(sample.lag, 3) for _, sample in points],
        "rows_per_second": [None, *rates],
    }
