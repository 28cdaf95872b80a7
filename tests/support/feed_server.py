"""A real server on a port of this machine, over changefeeds that need no Spark; also a program of its own."""

from __future__ import annotations

import base64
import json
import logging
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from memory_runner import MemoryRunner

from tidecast.changefeed import Changefeeds, Timing
from tidecast.server import Access, Listener, Service, build_app

QUICK = Timing(poll=0.02, idle=0.05, first_retry=0.02, last_retry=0.1)


@dataclass
class Answer:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Client:
    """Asks a server, as plainly as can be."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    context: ssl.SSLContext | None = None

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {k.replace("_", "-"): v for k, v in {**self.headers, **headers}.items()}
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)
        )
        try:
            with opener.open(request, timeout=30) as reply:
                return Answer(reply.status, dict(reply.headers), reply.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read().decode())


def basic(user: str, password: str) -> str:
    """The header of a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


@contextmanager
def serving(
    folder: Path, runner: MemoryRunner, access: Access | None = None, timing: Timing = QUICK
) -> Iterator[tuple[str, Changefeeds]]:
    """Answer requests until the block ends; gives the URL and the changefeeds behind it."""
    listener = Listener.open("127.0.0.1:0", access or Access())
    feeds = Changefeeds(folder, runner, timing=timing, addr=listener.addr)
    with answering(build_app(feeds, listener.access, addr=listener.addr, source="file:///source"), listener) as url:
        try:
            yield url, feeds
        finally:
            runner.held.set()
    feeds.close(30)


@contextmanager
def answering(app: FastAPI, listener: Listener) -> Iterator[str]:
    """Answer requests until the block ends; gives the URL."""
    service = Service(app, listener)
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        yield listener.url
    finally:
        service.stop()
        thread.join(30)
        assert not thread.is_alive()


def main(folder: str) -> None:
    """Serve changefeeds over a source that has a new event every few milliseconds, and print the address."""
    logging.basicConfig(level=logging.INFO)
    runner = MemoryRunner()
    listener = Listener.open("127.0.0.1:0", Access())
    feeds = Changefeeds(Path(folder), runner, timing=QUICK, addr=listener.addr)

    def flow() -> None:
        while True:
            time.sleep(0.005)
            runner.events.append((runner.now(), "test.user"))

    threading.Thread(target=flow, daemon=True).start()
    print(listener.addr, flush=True)
    Service(build_app(feeds, listener.access, addr=listener.addr), listener).run()
    feeds.close()
    print("stopped", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
