"""A continuous replica's status page and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import FastAPI, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tidecast.model import physical_ms
from tidecast.replica import ReplicaStatus, Status, Step, TableStatus
from tidecast.server._access import Access
from tidecast.server._answers import answer, moment
from tidecast.server._history import History, Sample
from tidecast.server._letters import letters_command
from tidecast.server._metrics import Metrics
from tidecast.server._page import about, add_page
from tidecast.storage import AnyPath, storage_path

_COUNTS = ("rows", "upserted", "deleted", "unchanged", "refused")


def build_replica_app(status: ReplicaStatus, access: Access) -> FastAPI:
    """Return the web application over a replica: `/` for people, `/status` for programs, `/metrics` for Prometheus."""
    history = History(lambda: {"replica": _sample(status)})
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=history.kept)

    def dead_letters(_: str) -> AnyPath | None:
        where = status.read().dead_letters_at
        return None if where is None else storage_path(where, "dead letters")

    add_page(app, access, "replica.html", history, _ReplicaMetrics(status).text, dead_letters)

    @app.get("/status")
    def content() -> Response:
        return answer(_content(status.read(), status.now()), indented=True)

    return app


def _sample(status: ReplicaStatus) -> Sample:
    shown = status.read()
    return Sample(shown.lag(status.now()), shown.rows)


def _content(status: Status, now: float) -> dict[str, Any]:
    """Return a status in JSON's types; TSOs as texts, since a browser's numbers end at 2^53."""
    return {
        **about(status.source, status.since, now),
        "to": status.to,
        "state": status.state,
        "step": status.step and _step(status.step, now),
        "problem": status.problem,
        "hint": status.hint,
        "retries": status.retries,
        "retry_in_seconds": None if status.retry_at is None else max(round(status.retry_at - now, 3), 0),
        "errors": status.errors,
        "batches": status.batches,
        "batch": status.batch,
        "resolved_ts": _text(status.resolved_ts),
        "resolved_time": _time(status.resolved_ts),
        "lag_seconds": status.lag(now),
        "rows": status.rows,
        "rows_per_second": round(status.rate, 3),
        "waits": list(status.waits),
        "stages": {name: round(seconds, 3) for name, seconds in status.stages.items()},
        "tables": [_table(name, table) for name, table in sorted(status.tables.items())],
        "dead_letters": dict(status.dead_letters),
        "dead_letters_command": status.dead_letters_at and letters_command("list", status.dead_letters_at),
        "schema_changes": [
            {
                "commit_ts": str(change.commit_ts),
                "table": ".".join(filter(None, (change.database, change.table))),  # a database's has no table
                "query": change.sql,
            }
            for change in status.schema_changes
        ],
        "warnings": list(status.warnings),
    }


def _step(step: Step, now: float) -> dict[str, Any]:
    return {
        "text": step.text,
        "done": step.done,
        "total": step.total,
        "since": moment(step.since),
        "seconds": round(max(now - step.since, 0.0), 3),
    }


def _table(name: str, table: TableStatus) -> dict[str, Any]:
    report = table.report
    return {
        "name": name,
        **{count: getattr(report, count) for count in _COUNTS},
        "checksums": dict(report.checksums),
        "unrepresentable": dict(report.unrepresentable),
        "last_commit_ts": _text(table.last_commit_ts),
        "lag_seconds": table.lag,
        "warnings": list(report.warnings),
    }


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _time(tso: int | None) -> str | None:
    return None if tso is None else moment(physical_ms(tso) / 1000, "milliseconds")


class _ReplicaMetrics(Metrics):
    """Those of a replica. Counters are since the start of this process."""

    def __init__(self, status: ReplicaStatus) -> None:
        super().__init__()
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        status, now = self._status.read(), self._status.now()
        physical = None if status.resolved_ts is None else physical_ms(status.resolved_ts)
        tables = sorted(status.tables.items())
        gauge, counter = partial(_metric, GaugeMetricFamily), partial(_metric, CounterMetricFamily)
        yield gauge("up", "1, or 0 while it tries again after an error", {(): status.state != "retrying"})
        yield gauge("resolved_ts", "up to where the source is applied, in ms since the epoch", {(): physical})
        yield gauge("lag_seconds", "how long ago that was", {(): status.lag(now)})
        yield gauge("rows_per_second", "row changes a second, over the last minute", {(): status.rate})
        yield counter("batches", "batches that were applied", {(): status.batches})
        yield counter("errors", "errors after which a batch was tried again", {(): status.errors})
        yield gauge("stage_seconds", "parts of the last batch", status.stages, "stage")
        yield counter("dead_letters", "messages in the dead letters", status.dead_letters, "reason")
        for count in _COUNTS:
            values = {name: getattr(table.report, count) for name, table in tables}
            yield counter(f"table_{count}", f"row changes: {count}", values, "table")
        lags = {name: table.lag for name, table in tables}
        yield gauge("table_lag_seconds", "from the newest commit-ts until it was applied", lags, "table")
        verdicts = {(name, v): rows for name, table in tables for v, rows in table.report.checksums.items()}
        yield counter("checksums", "row checksums by verdict", verdicts, "table", "verdict")


def _metric(
    kind: Callable[..., GaugeMetricFamily | CounterMetricFamily],
    name: str,
    about: str,
    values: Mapping[Any, float | None],
    *labels: str,
) -> Metric:
    """Return a metric; `values` are by its label, or a tuple of its labels."""
    metric = kind(f"tidecast_replica_{name}", about, labels=labels)
    for of, value in values.items():
        if value is not None:
            metric.add_metric(of if isinstance(of, tuple) else (of,), float(value))
    return metric
