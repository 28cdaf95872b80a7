"""TiCDC's API for a cluster and its TiKV: answered as far as one server can, else refused with a reason.

Source: Changefeeds, HTTP API v2.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn

from fastapi import APIRouter, Depends, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from tidecast._errors import ConfigError, TerminalError
from tidecast._go import to_json
from tidecast.changefeed import Changefeeds
from tidecast.server import _answers
from tidecast.server._answers import KEYSPACE, answer

_OFF, _MARKER, _ON = _MODES = ("OFF", "MARKER", "ON")  # each hides more than the one before
_ALIASES = {"1": _ON, "TRUE": _ON, "ENABLE": _ON, "ENABLED": _ON, "MARK": _MARKER}
_ALIASES |= dict.fromkeys(("0", "FALSE", "DISABLE", "DISABLED"), _OFF) | {mode: mode for mode in _MODES}
_PARAM = "CDC:ErrAPIInvalidParam"
_INT = re.compile(r"[+-]?[0-9]{1,19}")
_MOVES = ("move_table", "move_split_table", "split_table_by_region_count", "merge_table")


class RedactRequest(BaseModel):
    """The body of a request that sets the log's redaction."""

    redact_info_log: str = ""


class Redaction(logging.Filter):
    """Hides the values in this program's log lines: behind ‹ and › (`MARKER`), or for `?` (`ON`)."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = _OFF

    def filter(self, record: logging.LogRecord) -> bool:
        """Hide a record's values, once, and let it through."""
        if self.mode != _OFF and record.name.partition(".")[0] == "tidecast" and not hasattr(record, "redacted"):
            record.redacted = True
            if isinstance(record.args, tuple) and record.args:
                record.msg = re.sub(r"%[a-z]", "%s", str(record.msg))
                record.args = tuple("?" if self.mode == _ON else _marked(str(value)) for value in record.args)
            if self.mode == _ON:
                record.exc_info = record.exc_text = None
        return True

    def restrict(self, text: str) -> tuple[str, str]:
        """Go over to a mode that hides no less; returns the modes before and now. Raises ConfigError."""
        if not text.strip():
            raise ConfigError("missing required field 'redact_info_log': must be 'off', 'on', or 'marker'", code=_PARAM)
        wanted = _ALIASES.get(text.strip().upper())
        if wanted is None:
            raise ConfigError(f"invalid redact mode '{text}': must be 'off', 'on', or 'marker'", code=_PARAM)
        before = self.mode
        if _MODES.index(wanted) < _MODES.index(before):
            raise ConfigError(
                f"cannot transition from '{before}' to '{text}': only transitions to more restrictive modes are "
                "allowed (OFF→MARKER→ON)",
                code=_PARAM,
            )
        for handler in logging.getLogger().handlers:
            handler.addFilter(self)
        self.mode = wanted
        return before, wanted


def _marked(text: str) -> str:
    return "‹" + text.replace("‹", "‹‹").replace("›", "››") + "›"


def cluster_routes(
    feeds: Changefeeds, capture: dict[str, Any], redact_request: Callable[..., Awaitable[RedactRequest]]
) -> APIRouter:
    """Return the routes. `redact_request` is what reads the body of `log/redact`."""
    api = APIRouter(include_in_schema=False)
    redaction = Redaction()
    read_redaction = Depends(redact_request)

    @api.post("/api/v2/log/redact")
    def redact(request: RedactRequest = read_redaction) -> Response:
        before, now = redaction.restrict(request.redact_info_log)
        return answer({"previous_mode": before, "current_mode": now})

    @api.get("/api/v2/unsafe/metadata")
    def metadata() -> Response:
        return answer([{"key": k, "value": v} for k, v in _stored(feeds, capture)], indented=True)

    @api.post("/api/v2/unsafe/resolve_lock")
    def resolve_lock() -> Response:
        _refuse_tikv("there are no locks to resolve")

    @api.delete("/api/v2/unsafe/service_gc_safepoint")
    def delete_safepoint() -> Response:
        _refuse_tikv("there is no service GC safepoint to delete")

    def refuse_move(feed_id: str) -> NoReturn:
        feeds.get(feed_id)
        raise TerminalError(
            "scheduler request failed, this server is the only one: its tables cannot be moved, split or merged",
            code="CDC:ErrSchedulerRequestFailed",
        )

    for name in _MOVES:

        @api.post(f"/api/v2/changefeeds/{{feed_id}}/{name}")
        def move_table(feed_id: str, tableID: str = "") -> Response:  # noqa: N803 (TiCDC's name)
            if not _INT.fullmatch(tableID):
                return _answers.failure(f"strconv.ParseInt: parsing {to_json(tableID)}: invalid syntax", "", 500)
            refuse_move(feed_id)

    @api.post("/api/v1/changefeeds/{feed_id}/tables/move_table")
    def old_move_table(feed_id: str) -> Response:
        refuse_move(feed_id)

    @api.post("/api/v1/changefeeds/{feed_id}/tables/rebalance_table")
    def rebalance_table(feed_id: str) -> Response:
        return Response(status_code=202)  # as TiCDC's, which does nothing either

    @api.put("/api/v1/captures/drain")
    def drain_capture() -> Response:
        return answer({"current_table_count": 0}, 202)  # TiDB Operator asks until nothing is left

    @api.get("/debug/info")
    def debug_info() -> Response:
        own = to_json(capture)
        running = "".join(f"changefeedID: {KEYSPACE}/{one.feed.id}\n" for one in feeds.list())
        stored = "".join(f"{key}\n\t{value}\n\n" for key, value in _stored(feeds, capture))
        return PlainTextResponse(
            f"\n\n*** owner info ***:\n\n{own}\n\n*** processors info ***:\n\n{own}{running}"
            f"\n\n*** etcd info ***:\n\n{stored}"
        )

    return api


def _stored(feeds: Changefeeds, capture: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what TiCDC keeps in etcd, as far as it is there: changefeeds, without secrets, and their checkpoints."""
    place = f"/tidb/cdc/{capture['cluster_id']}/{KEYSPACE}/changefeed"
    for one in feeds.list():
        yield f"{place}/info/{one.feed.id}", to_json(_answers.info(one))
        yield f"{place}/status/{one.feed.id}", to_json({"checkpoint-ts": one.checkpoint_ts, "admin-job-type": 0})


def _refuse_tikv(why: str) -> NoReturn:
    raise TerminalError(
        f"failed to get PDClient to connect PD, please recheck: no TiKV is behind this server, {why}",
        code="CDC:ErrAPIGetPDClientFailed",
    )
