"""The answers of the API: JSON objects with TiCDC's members, in TiCDC's order. Source: Changefeeds, HTTP API v2."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from fastapi import Response

from tidecast._errors import TidecastError
from tidecast._go import time_text, to_json
from tidecast._uri import masked_sink_uri
from tidecast.changefeed import Problem, Snapshot, State, TableEligibility, lag_seconds
from tidecast.config import default_replica_config, mask_replica_config
from tidecast.model import TableSchema, compose, physical_ms
from tidecast.server._limits import cut

TICDC_VERSION = "v8.5.4"
"""The release of TiCDC whose API this is: clients of TiCDC refuse servers that call themselves older than 6.2.0."""

KEYSPACE = "default"

_BAD_REQUEST = (
    *("ErrAPIInvalidParam", "ErrSinkURIInvalid", "ErrStartTsBeforeGC", "ErrChangeFeedNotExists"),
    *("ErrTargetTsBeforeStartTs", "ErrTableIneligible", "ErrFilterRuleInvalid", "ErrChangefeedUpdateRefused"),
    *("ErrMySQLConnectionError", "ErrMySQLInvalidConfig", "ErrCaptureNotExist", "ErrSchedulerRequestFailed"),
    "ErrActiveActiveTSOIndexIncompatible",
)
_LISTED = (State.NORMAL, State.STOPPED, State.FAILED, State.WARNING)
_INDENT = 4


def answer(value: object, status: int = 200, *, indented: bool = False) -> Response:
    """Return a value as JSON."""
    text = to_json(value, _INDENT if indented else None)
    return Response(text, status, media_type="application/json; charset=utf-8")


def refusal(error: TidecastError) -> Response:
    """Return an error: TiCDC's code, and a text that begins with it."""
    status = 400 if any(name in error.coded for name in _BAD_REQUEST) else 500
    return failure(error.coded, error.code or "", status)


def failure(message: str, code: str, status: int) -> Response:
    """Return an error body with a status of one's own."""
    return answer({"error_msg": cut(message), "error_code": code}, status, indented=True)


def info(shown: Snapshot) -> dict[str, Any]:
    """Return a ChangeFeedInfo."""
    feed = shown.feed
    low, high = feed.gid
    return _without_zeros(
        {"id": feed.id, "keyspace": KEYSPACE, "sink_uri": masked_sink_uri(feed.sink_uri)}
        | {"create_time": time_text(feed.create_time), "start_ts": feed.start_ts, "target_ts": feed.target_ts}
        | {"config": mask_replica_config(feed.config), "state": str(feed.state), "error": _problem(shown.error)}
        | {"creator_version": TICDC_VERSION, "resolved_ts": shown.checkpoint_ts, "checkpoint_ts": shown.checkpoint_ts}
        | {"checkpoint_time": clock(shown.checkpoint_ts), "gid": {"low": low, "high": high}}
    )


def listed(shown: Iterable[Snapshot], state: str) -> list[dict[str, Any]]:
    """Return the items of a list: of every state (`all`), of all but the finished (empty), or of one state."""
    return [
        {"upstream_id": 0, "id": one.feed.id, "keyspace": KEYSPACE, "state": str(one.feed.state)}
        | {"checkpoint_tso": one.checkpoint_ts, "checkpoint_time": clock(one.checkpoint_ts)}
        | {"error": _problem(one.feed.error)}  # of a stopped one, too
        for one in shown
        if state == "all" or (one.feed.state == state if state else one.feed.state in _LISTED)
    ]


def status(shown: Snapshot) -> dict[str, Any]:
    """Return a changefeed's state with its last error or warning, if that is newer than the checkpoint."""
    problem = shown.error
    if problem and problem.time.timestamp() * 1000 <= physical_ms(shown.checkpoint_ts):
        problem = None
    failed = shown.feed.state is State.FAILED
    return _without_zeros(
        {"state": str(shown.feed.state), "resolved_ts": shown.checkpoint_ts, "checkpoint_ts": shown.checkpoint_ts}
        | {"last_error": _problem(problem) if failed else None}
        | {"last_warning": None if failed else _problem(problem)}
    )


def synced(shown: Snapshot, now: int) -> dict[str, Any]:
    """Return whether everything has arrived: nothing was sent for a while, and the checkpoint is fresh."""
    said, defaults = (c.get("synced_status") or {} for c in (shown.feed.config, default_replica_config()))
    config = said if all(said.get(name) for name in defaults) else defaults  # a 0 is as good as nothing, for both
    last = shown.synced_ts or shown.feed.start_ts
    quiet = lag_seconds(now, last) > config["synced_check_interval"]
    fresh = lag_seconds(now, shown.checkpoint_ts) < config["checkpoint_interval"]
    done = quiet and fresh
    return {
        "synced": done,
        "sink_checkpoint_ts": clock(shown.checkpoint_ts),
        "puller_resolved_ts": clock(shown.checkpoint_ts),
        "last_synced_ts": clock(last),
        "now_ts": clock(compose(physical_ms(now) // 1000 * 1000)),
        "info": "Data syncing is finished" if done else "The data syncing is not finished, please wait",
    }


def tables(found: TableEligibility) -> dict[str, Any]:
    """Return tables by their fitness, without the kinds that there are none of."""
    kinds = {
        "ineligible_tables": found.ineligible,
        "eligible_tables": found.eligible,
        "all_tables": found.every,
    }
    return {kind: [_table(t) for t in of] for kind, of in kinds.items() if of}


def clock(tso: int) -> str:
    """Return a TSO's time on this server's clock, to the millisecond."""
    seconds, milliseconds = divmod(physical_ms(tso), 1000)
    return f"{dt.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{milliseconds:03d}"


def moment(seconds: float, digits: str = "seconds") -> str:
    """Return a time, in seconds since the epoch, as pages show it: on this machine's clock with its zone."""
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", digits)


def _problem(problem: Problem | None) -> dict[str, str] | None:
    if problem is None:
        return None
    return {"time": time_text(problem.time), "addr": problem.addr, "code": problem.code, "message": problem.message}


def _table(table: TableSchema) -> dict[str, Any]:
    return {
        "database_name": table.database,
        "table_name": table.table,
        "table_id": table.table_id,
        "is_partition": False,
    }


def _without_zeros(members: dict[str, Any]) -> dict[str, Any]:
    always = ("resolved_ts", "checkpoint_ts")
    return {name: value for name, value in members.items() if name in always or value not in (None, "", 0)}
