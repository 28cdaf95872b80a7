"""A hundred changefeeds on one server, for an hour: its memory stays what it was."""

from __future__ import annotations

import os
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from feed_server import Client
from growing_topic import ID, Clock, GrowingTopic, ddl, row, table, watermark
from running_server import RunningServer, running_server
from servers import KafkaBroker
from servers._process import free_ports

FEEDS, TABLES = 100, 20
MINUTES = float(os.environ.get("TIDECAST_SOAK_MINUTES", "30"))
EVERY, SLOW = 10.0, 1800.0
ALLOWED = 1.1
_FULL = re.compile(r"Pause Full \(System\.gc\(\)\) \d+M->(\d+)M")


class Memory:
    """What a server holds: Java's heap after each of its full collections, and the resident memory of Python."""

    def __init__(self, server: RunningServer, log: Path) -> None:
        self._pid, self._log = server.process.pid, log

    def sample(self) -> tuple[int, int]:
        """Return both, in MiB."""
        collected = _FULL.findall(self._log.read_text())
        status = Path(f"/proc/{self._pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert resident
        return int(collected[-1]) if collected else 0, int(resident[1]) // 1024


def watch(what: str, memory: Memory, minutes: float, during: Callable[[], None]) -> None:
    """Call `during` every ten seconds; the memory of the last third may not be more than that of the second."""
    samples: list[tuple[int, int]] = []
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        time.sleep(EVERY)
        during()
        samples.append(memory.sample())
        if len(samples) % 6 == 0:
            print(
                f"{what}: {len(samples) // 6} min, heap {samples[-1][0]} MiB, Python {samples[-1][1]} MiB", flush=True
            )
    third = len(samples) // 3
    for kind, measured in zip(("heap", "Python"), zip(*samples, strict=True), strict=True):
        before, after = statistics.median(measured[third : 2 * third]), statistics.median(measured[2 * third :])
        print(f"{what}: {kind} {before:.0f} MiB, then {after:.0f} MiB", flush=True)
        assert after <= before * ALLOWED, f"{what}: {kind} grows"


def each(feeds: Sequence[str], do: Callable[[str], Any]) -> None:
    """Do something to all changefeeds, some at a time."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, feeds))


def states(ask: Client) -> list[str]:
    return [feed["state"] for feed in ask("GET", "/api/v2/changefeeds?state=all").json["items"]]


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_a_hundred_changefeeds(broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "gc.log"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-Xlog:gc:file={log}")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.cleaner.periodicGC.interval=20s pyspark-shell")
    source = GrowingTopic(tmp_path / "log")
    schemas = [table(9, ID, name=f"t{n}") for n in range(TABLES)]
    source.grow(ddl(f"CREATE TABLE `d`.`t{n}` (`id` INT PRIMARY KEY)", 5, schema) for n, schema in enumerate(schemas))
    feeds = [f"feed-{n}" for n in range(FEEDS)]
    rows, now = [0] * TABLES, Clock()
    last = 0

    def commit() -> None:
        nonlocal last
        number, last = random.randrange(TABLES), now()
        source.grow([row(last, 9, name=f"t{number}", id=rows[number]), watermark(last)])
        rows[number] += 1

    def create(feed: str) -> None:
        number = feeds.index(feed)
        body = {
            "changefeed_id": feed,
            "start_ts": 1,
            "sink_uri": f"kafka://{broker.bootstrap}/{feed}?protocol=simple&partition-num=1",
            "replica_config": {"filter": {"rules": [f"d.t{number % TABLES}"]}},
        }
        assert ask("POST", "/api/v2/changefeeds", body).status == 200

    (port,) = free_ports(1)
    with running_server(source.uri, tmp_path / "data", port) as server:
        ask, memory = Client(server.url), Memory(server, log)
        each(feeds, create)
        assert states(ask) == ["normal"] * FEEDS
        commit()
        await_all(ask, last)
        watch("idle", memory, MINUTES, lambda: None)
        watch("light load", memory, MINUTES, commit)
        await_all(ask, last)
        assert states(ask) == ["normal"] * FEEDS
        each(feeds, lambda feed: ask("POST", f"/api/v2/changefeeds/{feed}/pause"))
        assert states(ask) == ["stopped"] * FEEDS
        commit()
        each(feeds, lambda feed: ask("POST", f"/api/v2/changefeeds/{feed}/resume"))
        await_all(ask, last)
        each(feeds, lambda feed: ask("DELETE", f"/api/v2/changefeeds/{feed}"))
        assert states(ask) == []
    for number, feed in enumerate(feeds):
        values = [value or b"" for _, value in broker.messages(feed)[feed, 0]]
        assert sum(b'"type":"INSERT"' in value for value in values) == rows[number % TABLES]


def await_all(ask: Client, checkpoint_ts: int) -> None:
    """Wait until all changefeeds have come that far, and tell how long it took."""
    begin = time.monotonic()
    while True:
        items = ask("GET", "/api/v2/changefeeds?state=all").json["items"]
        if all(item["checkpoint_tso"] >= checkpoint_ts for item in items):
            print(f"all have caught up after {time.monotonic() - begin:.0f} s", flush=True)
            return
        assert time.monotonic() < begin + SLOW, items
        time.sleep(1)
