"""A replica that follows its topic: new rows and tables, errors that pass, ends of both kinds."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from growing_topic import ID, GrowingTopic, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast._errors import ConfigError, Unreachable
from tidecast._waiting import Waiting
from tidecast.api._follow import follow
from tidecast.model import Events, compose
from tidecast.replica import ReplicaStatus, Replicated
from tidecast.sources import Batch, TopicStream
from tidecast.storage import storage_path

_SLOW = 180
_T0 = compose(1_700_000_000_000)


def waited_for(found: Callable[[], bool]) -> bool:
    """Tell whether something comes true in time."""
    deadline = time.monotonic() + _SLOW
    while not found() and time.monotonic() < deadline:
        time.sleep(0.1)
    return found()


def rows(spark: SparkSession, folder: Path) -> list[tuple[int, ...]]:
    """The rows of a Delta table, none where there is no table."""
    if not (folder / "_delta_log" / "00000000000000000000.json").exists():
        return []
    return sorted(map(tuple, spark.read.format("delta").load(str(folder)).collect()))


def begun(topic: GrowingTopic, name: str = "t") -> None:
    """Let a topic begin with a table of two rows."""
    schema = table(_T0, ID, name=name)
    topic.grow(
        [ddl("CREATE TABLE t", _T0, schema), row(_T0 + 1, _T0, name=name, id=1), row(_T0 + 2, _T0, name=name, id=2)]
    )


def test_new_rows_and_tables_come_without_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    topic, stop, told = GrowingTopic(storage_path(str(tmp_path / "topic"), "")), threading.Event(), list[str]()
    results: list[Replicated] = []
    urls: list[str] = []
    steps: list[dict[str, Any]] = []

    def asked(path: str) -> str:
        with urlopen(urls[0] + path) as answer:
            text: str = answer.read().decode()
            return text

    def tell(text: str, done: int, total: int) -> None:
        told.append(text)
        if total:
            steps.append(json.loads(asked("/status"))["step"])

    def run() -> None:
        result = tidecast.replicate(
            topic.uri,
            str(tmp_path / "tables"),
            checkpoint=str(tmp_path / "checkpoint"),
            continuous=True,
            stop=stop,
            progress=tell,
            addr="127.0.0.1:0",
            ready=urls.append,
            spark=spark,
        )
        results.append(result)

    begun(topic)
    replicating = threading.Thread(target=run)
    replicating.start()
    try:
        first, second = tmp_path / "tables" / "d" / "t", tmp_path / "tables" / "d" / "u"
        assert waited_for(lambda: rows(spark, first) == [(1,), (2,)])
        begun(topic, "u")
        topic.grow([row(_T0 + 3, _T0, kind="DELETE", id=1), watermark(_T0 + 4)])
        assert waited_for(lambda: (rows(spark, first), rows(spark, second)) == ([(2,)], [(1,), (2,)]))
        assert waited_for(lambda: any("resolved-ts" in text for text in told))
        assert waited_for(lambda: json.loads(asked("/status"))["resolved_ts"] == str(_T0 + 4))
        status, metrics, page = json.loads(asked("/status")), asked("/metrics").splitlines(), asked("/")
    finally:
        stop.set()
        replicating.join(_SLOW)
    assert not replicating.is_alive()
    assert [steps[0][part] for part in ("text", "done", "total")] == ["applying d.t", 0, 1]
    assert [(t["name"], t["rows"], t["deleted"]) for t in status["tables"]] == [("d.t", 3, 1), ("d.u", 2, 0)]
    assert (status["state"], status["rows"], status["source"]) == ("waiting", 5, topic.uri)
    assert set(status["stages"]) == {"read", "apply", "commit", "maintain"}
    assert [change["table"] for change in status["schema_changes"]] == ["d.t", "d.u"]
    assert status["lag_seconds"] > 0
    assert "tidecast_replica_up 1.0" in metrics
    assert 'tidecast_replica_table_rows_total{table="d.t"} 3.0' in metrics
    assert 'tidecast_replica_checksums_total{table="d.u",verdict="none"} 2.0' in metrics
    assert "/page/replica.js" in page
    with pytest.raises(URLError):
        asked("/status")  # it ends with the replica
    (result,) = results
    assert {t.name: (t.rows, t.upserted, t.deleted) for t in result.tables} == {"d.t": (3, 2, 1), "d.u": (2, 2, 0)}
    assert f"resolved-ts {_T0 + 4} (2023-11-14T22:13:20+00:00)" in told[-1]


def test_errors_that_pass_are_tried_again_and_nothing_is_lost_or_doubled(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, stop, tries = GrowingTopic(storage_path(str(tmp_path / "topic"), "")), threading.Event(), list[int]()
    begun(topic)
    stream = TopicStream(spark, topic.uri, storage_path(str(tmp_path / "checkpoint"), ""))
    status, seen = ReplicaStatus(topic.uri, "tables"), list[tuple[str, str | None]]()

    def apply(batch: Batch) -> Replicated:
        tries.append(1)
        seen.append((status.read().state, status.read().problem))
        if len(tries) == 1:
            raise Unreachable("the broker does not answer")
        result = tidecast.replicate(batch.events, str(tmp_path / "tables"))
        if len(tries) == 2:  # applied, and then not committed
            raise Unreachable("the store does not answer")
        stop.set()
        return result

    with caplog.at_level(logging.WARNING):
        waiting = Waiting(idle=0.01, first_retry=0.01)
        done = follow(stream, topic.uri, apply, lambda *_: None, stop, status, limit=None, waiting=waiting)
    assert len(tries) == 3
    assert seen[1:] == [("applying", "the broker does not answer"), ("applying", "the store does not answer")]
    assert (status.read().state, status.read().errors, status.read().problem) == ("waiting", 2, None)
    assert [t.unchanged for t in done.tables] == [2]
    assert rows(spark, tmp_path / "tables" / "d" / "t") == [(1,), (2,)]
    assert [r.message.partition(";")[0] for r in caplog.records] == [
        "the broker does not answer",
        "the store does not answer",
    ]


def test_nothing_of_a_batch_is_kept_when_the_next_one_comes(spark: SparkSession, tmp_path: Path) -> None:
    topic, stop = GrowingTopic(storage_path(str(tmp_path / "topic"), "")), threading.Event()
    begun(topic)
    stream = TopicStream(spark, topic.uri, storage_path(str(tmp_path / "checkpoint"), ""))
    before: list[weakref.ref[Events]] = []

    def apply(batch: Batch) -> Replicated:
        if before:
            stop.set()
            assert before[0]() is None
        before.append(weakref.ref(batch.events))
        topic.grow([row(_T0 + 3, _T0, id=3)])
        return Replicated(())

    follow(stream, topic.uri, apply, lambda *_: None, stop, ReplicaStatus(topic.uri, "tables"), limit=None)
    assert len(before) == 2


def test_the_wait_after_errors_grows_up_to_a_bound() -> None:
    waiting = Waiting(first_retry=1, last_retry=60)
    assert [waiting.retry(n) for n in (1, 2, 3, 6, 7, 1000)] == [1, 2, 4, 32, 60, 60]


@pytest.mark.spark
def test_a_killed_replica_goes_on_and_sigterm_ends_it_after_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    topic, tables = GrowingTopic(storage_path(str(tmp_path / "topic"), "")), tmp_path / "tables"
    command = [sys.executable, "-m", "tidecast", "replicate", topic.uri, "--to", str(tables), "--tz", "UTC"]
    command += ["--checkpoint", str(tmp_path / "checkpoint"), "--continuous", "--json"]

    def started() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    begun(topic)
    process = started()
    try:
        assert waited_for(lambda: rows(spark, tables / "d" / "t") == [(1,), (2,)])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    topic.grow([row(_T0 + 3, _T0, id=3), row(_T0 + 4, _T0, kind="DELETE", id=1)])
    process = started()
    try:
        assert waited_for(lambda: rows(spark, tables / "d" / "t") == [(2,), (3,)])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=_SLOW)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, err
    (report,) = json.loads(out)["tables"]
    assert (report["table"], report["deleted"]) == ("t", 1)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"continuous": True}, "a continuous replica has to know"),
        ({"batch_size": 5, "checkpoint": "c"}, "--batch-size is for --continuous"),
        ({"addr": "127.0.0.1:0", "checkpoint": "c"}, "a status page is for --continuous"),
        ({"addr": "0.0.0.0:0", "continuous": True, "checkpoint": "c"}, "takes TLS and users"),
        ({"batch_size": 0, "continuous": True, "checkpoint": "c"}, "at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_spark_starts(
    options: dict[str, object], why: str, tmp_path: Path
) -> None:
    begun(GrowingTopic(storage_path(str(tmp_path / "topic"), "")))
    with pytest.raises(ConfigError, match=why):
        tidecast.replicate(f"file://{tmp_path}/topic?protocol=simple", str(tmp_path / "tables"), **options)  # type: ignore[call-overload]
