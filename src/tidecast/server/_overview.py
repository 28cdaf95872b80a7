"""The changefeeds on the status page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tidecast._uri import masked_sink_uri
from tidecast.changefeed import Problem, Snapshot
from tidecast.model import physical_ms
from tidecast.server._answers import moment
from tidecast.server._letters import letters_command


def overview(shown: Iterable[Snapshot], now: int) -> list[dict[str, Any]]:
    """Return changefeeds in JSON's types; TSOs as texts, since a browser's numbers end at 2^53."""
    return [_overview(one, now) for one in shown]


def _overview(one: Snapshot, now: int) -> dict[str, Any]:
    feed = one.feed
    counts = Counter[str]()
    for (table, _), count in one.messages.items():
        counts[table] += count
    return {
        "id": feed.id,
        "state": str(feed.state),
        "runs": feed.state.runs,
        "sink_uri": masked_sink_uri(feed.sink_uri),
        "checkpoint_ts": str(one.checkpoint_ts),
        "checkpoint_time": moment(physical_ms(one.checkpoint_ts) / 1000, "milliseconds"),
        "lag_seconds": one.lag(now),
        "source_age_seconds": one.source_age(now),
        "lag_tso": str(now - one.checkpoint_ts),
        "rows_per_second": one.rate,
        "rows": counts.total(),
        "rows_waiting": one.rows_waiting,
        "dead_letters": one.dead_letters,
        "dead_letters_command": letters_command("list", str(one.dead_letters_at)),
        "error": _problem(one.error),
        "retries": feed.retries,
        "retry_in_seconds": one.retry_in,
        "tables": [
            {
                "name": name,
                "version": str(feed.versions[name]) if name in feed.versions else None,
                "messages": counts[name],
                "skipped": one.skipped.get(name, 0),
            }
            for name in sorted({*feed.versions, *counts, *one.skipped})
        ],
    }


def _problem(problem: Problem | None) -> dict[str, str] | None:
    if problem is None:
        return None
    time = moment(problem.time.timestamp())
    return {"time": time, "code": problem.code, "message": problem.message, "hint": problem.hint}
