"""HTTP by the byte, for clients that no library would be."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from urllib.parse import urlsplit


def connection(url: str) -> socket.socket:
    """Connect to a server."""
    parts = urlsplit(url)
    assert parts.hostname
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=20)


def all_of(held: socket.socket) -> bytes:
    """Return all that still comes, until the server closes the connection."""
    got = b""
    while piece := held.recv(65536):
        got += piece
    return got


def drip(held: socket.socket) -> None:
    """Send a byte now and then, until the server takes no more."""
    with suppress(OSError):
        while True:
            held.sendall(b"G")
            time.sleep(0.02)
