"""Metrics for Prometheus, under TiCDC's names where TiCDC has them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidecast.changefeed import Changefeeds, State
from tidecast.model import physical_ms
from tidecast.server._answers import KEYSPACE

_LABELS = ("namespace", "changefeed")
_STATES = {State.NORMAL: 0, State.FAILED: 2, State.STOPPED: 3, State.FINISHED: 4, State.WARNING: 6}


class Metrics(Collector):
    """Metrics that are read whenever somebody asks, and those of this process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def describe(self) -> list[Metric]:
        """Return nothing: reading need not be possible yet."""
        return []

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)


class FeedMetrics(Metrics):
    """Those of changefeeds."""

    def __init__(self, feeds: Changefeeds) -> None:
        super().__init__()
        self._feeds = feeds

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of every changefeed."""
        now, shown = self._feeds.runner.now(), self._feeds.list()
        for name, about, of in (
            ("ticdc_owner_status", "state: 0 normal, 2 failed, 3 stopped, 4 finished, 6 warning", "state"),
            ("ticdc_owner_checkpoint_ts", "checkpoint, in ms since the epoch", "physical"),
            ("ticdc_owner_checkpoint_ts_lag", "how far it is behind its source, in s: none if finished", "lag"),
            ("ticdc_owner_resolved_ts", "the same as the checkpoint", "physical"),
            ("ticdc_owner_resolved_ts_lag", "the same as that of the checkpoint", "lag"),
            ("ticdc_sink_total_flushed_rows_count", "messages of rows since the server started", "rows"),
            ("tidecast_source_age_seconds", "how old the source's end is, once all of it is published", "age"),
            ("tidecast_rows_per_second", "messages of rows a second, over the last ten", "rate"),
            ("tidecast_rows_waiting", "rows whose schemas the source has not shown", "rows_waiting"),
            ("tidecast_dead_letters", "messages that could not be published, since the server started", "dead_letters"),
        ):
            metric = GaugeMetricFamily(name, about, labels=_LABELS)
            for one in shown:
                values: dict[str, float | None] = {
                    "state": _STATES[one.feed.state],
                    "physical": physical_ms(one.checkpoint_ts),
                    "lag": one.lag(now),
                    "age": one.source_age(now),
                    "rows": sum(one.messages.values()),
                    "rate": one.rate,
                    "rows_waiting": one.rows_waiting,
                    "dead_letters": one.dead_letters,
                }
                if (value := values[of]) is not None:
                    metric.add_metric((KEYSPACE, one.feed.id), value)
            yield metric
