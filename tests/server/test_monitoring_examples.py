"""The alert rules and the dashboard in `examples` speak of metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from memory_runner import MemoryRunner

from tidecast.changefeed import Changefeeds
from tidecast.checksum import Verdict
from tidecast.replica import ReplicaStatus
from tidecast.server._metrics import FeedMetrics
from tidecast.server._replica import _ReplicaMetrics

EXAMPLES = Path(__file__).parents[2] / "examples"
METRIC = re.compile(r"\b(?:ticdc|tidecast)_\w+")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((EXAMPLES / "prometheus-rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def targets() -> list[dict[str, Any]]:
    panels = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())["panels"]
    return [target for panel in panels for target in panel["targets"]]


@pytest.fixture
def exported(tmp_path: Path) -> Iterator[set[str]]:
    """The names of the metrics that a server and a replica tell."""
    feeds = Changefeeds(tmp_path / "feeds", MemoryRunner())
    texts = FeedMetrics(feeds).text() + _ReplicaMetrics(ReplicaStatus("file:///topic", "tables")).text()
    yield set(re.findall(r"^# TYPE (\w+)", texts.decode(), re.M))
    feeds.close(5)


def test_every_metric_is_exported(exported: set[str]) -> None:
    alerts = {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    shown = {name for target in targets() for name in METRIC.findall(target["expr"])}
    assert len(alerts) > 5
    assert len(shown) > 10
    assert not (alerts | shown) - exported


def test_alerts_have_what_prometheus_and_people_need() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert {*rule} <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert re.fullmatch(r"\d+m", rule.get("for", "1m"))
        for verdict in re.findall(r'verdict="(\w+)"', rule["expr"]):
            assert verdict in [*Verdict]
