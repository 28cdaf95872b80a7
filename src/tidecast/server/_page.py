"""The common parts of the status pages of a server and of a replica: files, rules, history and metrics."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from tidecast.server._access import Access, Guard
from tidecast.server._answers import answer, failure, moment
from tidecast.server._history import History
from tidecast.server._letters import first_letters
from tidecast.storage import AnyPath

_PAGE = Path(__file__).with_name("page")
_VERSION = importlib.metadata.version("tidecast")  # a file is read for it, and pages ask each second
_RULES = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'",
    "Cache-Control": "no-cache",
}
_TYPES = {
    "page.css": "text/css",
    "favicon.svg": "image/svg+xml",
    "shared.js": "text/javascript",
    "page.js": "text/javascript",
    "replica.js": "text/javascript",
    "letters.js": "text/javascript",
}


def add_page(
    app: FastAPI,
    access: Access,
    document: str,
    history: History,
    metrics: Callable[[], bytes],
    dead_letters: Callable[[str], AnyPath | None],
) -> None:
    """Add a status page to an application: who may see it, its document and files, its history, and metrics.

    `dead_letters` returns the folder of them that a name has, None for none.
    """
    app.add_middleware(Guard, access=access)
    app.add_exception_handler(HTTPException, _not_found)

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(_PAGE / document, headers=_RULES)

    @app.get("/page/history", include_in_schema=False)
    def page_history() -> Response:
        return answer(history.content())

    @app.get("/dead-letters", include_in_schema=False)
    def letters_page() -> Response:
        return FileResponse(_PAGE / "letters.html", headers=_RULES)

    @app.get("/page/dead-letters", include_in_schema=False)
    def page_letters(of: str = "") -> Response:
        return answer(first_letters(dead_letters(of)))

    @app.get("/page/{name}", include_in_schema=False)
    def page_file(name: str) -> Response:
        if name not in _TYPES:
            raise HTTPException(404)
        return FileResponse(_PAGE / name, headers=_RULES, media_type=_TYPES[name])

    @app.get("/metrics", summary="Metrics for Prometheus")
    def metrics_text() -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in (408, 413):
        return failure(error.detail, "CDC:ErrAPIInvalidParam", error.status_code)
    return PlainTextResponse("404 page not found", 404)


def about(source: str, since: float, now: float) -> dict[str, Any]:
    """Return a page's data on its process; times are in seconds since the epoch."""
    return {
        "now": moment(now),
        "source": source,
        "version": _VERSION,
        "since": moment(since),
        "uptime_seconds": round(now - since, 3),
    }
