"""The limits of one request: time for its head and its body, bytes, values. A larger one is refused."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S, BODY_S = 10.0, 30.0
LARGEST_BODY = 10_000_000
MOST_VALUES = 300_000
LONGEST_TEXT = 4_000


class TimedProtocol(H11Protocol):
    """HTTP/1.1 on connections that are closed when a request's head does not come in time."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes: of a head, or of the body of a request that is being answered."""
        self._wait_for_head()  # these may be the first bytes of the next one
        super().data_received(data)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._head is None:
            self._head = self.loop.call_later(HEAD_S, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


async def content_of(request: Request) -> bytes:
    """Return a request's body. Raises HTTPException for one that is too large or takes too long."""
    content, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= LARGEST_BODY:  # who sends more reads no answer before all is taken
                    content += chunk
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_S:.0f} s") from None
    if size > LARGEST_BODY:
        raise HTTPException(413, f"the body is larger than {LARGEST_BODY} bytes")
    return bytes(content)


def read_json(content: bytes) -> Any:
    """Return the value of JSON text. Raises ValueError for what is none, or has too many values."""
    if content.count(b",") + content.count(b"{") + content.count(b"[") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values")
    return from_json(content, allow_inf_nan=False)


def cut(text: str) -> str:
    """Return a text that may quote a request, and is therefore of any length, without its middle if it is long."""
    half = LONGEST_TEXT // 2
    return text if len(text) <= LONGEST_TEXT else f"{text[:half]} … {text[-half:]}"
