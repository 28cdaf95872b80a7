"""Listening: an address, TLS, and an end that lets every changefeed finish its step."""

from __future__ import annotations

import signal
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from tidecast._errors import ConfigError, TerminalError
from tidecast.server._access import Access
from tidecast.server._limits import TimedProtocol

_GRACE_S = 5
_LOOK_S = 5.0


@dataclass
class Listener:
    """An address that this process holds. Who asks before a `Service` runs waits for its answer."""

    socket: socket.socket
    access: Access

    @classmethod
    def open(cls, addr: str, access: Access) -> Listener:
        """Take an address `host:port`. Raises ConfigError where it is none, or is open to others without TLS and users,
        and TerminalError where it is taken."""
        host, _, port = addr.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"{addr!r} is not an address", hint="write host:port, for example 127.0.0.1:8300")
        access.check(host)
        try:
            family = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][0]
            held = socket.socket(family, socket.SOCK_STREAM)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host, int(port)))
            held.listen()
        except OSError as error:
            raise TerminalError(f"cannot listen: {error.strerror}", where=addr) from None
        return cls(held, access)

    @property
    def addr(self) -> str:
        """`host:port`, the port being the one that was taken where 0 was asked for."""
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def url(self) -> str:
        """Return the address for a browser."""
        return f"{'https' if self.access.tls else 'http'}://{self.addr}"


class Service:
    """The answering of requests at an address."""

    def __init__(self, app: FastAPI, listener: Listener) -> None:
        access = listener.access
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            ssl_certfile=access.cert,
            ssl_keyfile=access.key,
            ssl_ca_certs=access.ca,
            ssl_cert_reqs=ssl.CERT_REQUIRED if access.ca else ssl.CERT_NONE,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._listener = listener

    def run(self) -> None:
        """Answer until `stop` or, in the main thread, SIGTERM or SIGINT."""
        if threading.current_thread() is not threading.main_thread():
            return self._server.run(sockets=[self._listener.socket])
        # uvicorn raises a signal once more after its own handling of it; without these the process would die of it,
        # before the changefeeds are at rest.
        earlier = {s: signal.signal(s, lambda *_: None) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._server.run(sockets=[self._listener.socket])
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
        return None

    def stop(self) -> None:
        """Let `run` return, from another thread."""
        self._server.should_exit = True

    @contextmanager
    def while_alive(self, alive: Callable[[], bool]) -> Iterator[None]:
        """Stop once `alive` tells that the changefeeds cannot go on, and raise TerminalError then."""
        ended, lost = threading.Event(), threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_S):
                if not alive():
                    lost.set()
                    return self.stop()
            return None

        threading.Thread(target=watch, name="watch", daemon=True).start()
        with _without_traces():
            try:
                yield
            finally:
                ended.set()
        if lost.is_set():
            raise TerminalError(
                "Spark's Java has died, and the server ends with it",
                hint="start it again, and every changefeed goes on from its checkpoint; "
                "TIDECAST_SPARK_LOG=warn shows what Java says of its end",
            )


@contextmanager
def _without_traces() -> Iterator[None]:
    """Keep PySpark's server for accumulators from printing a stack trace where Java's end cuts off what it reads."""
    before = socketserver.BaseServer.handle_error
    socketserver.BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        socketserver.BaseServer.handle_error = before  # type: ignore[method-assign]
