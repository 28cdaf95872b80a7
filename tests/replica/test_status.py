"""How far a replica is, as its checkpoint, its tables and its topic tell."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from growing_topic import ID, GrowingTopic, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast import ConfigError, PlaceStatus, TerminalError
from tidecast.model import compose
from tidecast.sources import Progress
from tidecast.sources._progress import STATE, state_of
from tidecast.storage import make_folder
from tidecast.topics import Offsets

_T0 = compose(1_700_000_000_000)
_TABLE = table(_T0, ID)


def _keep(folder: Path, source: str, offsets: dict[str, int], **more: object) -> str:
    """Write the state of a stream; return its folder."""
    known: dict[str, object] = {
        "watermarks": {},
        "watermark": None,
        "batch": 3,
        "waiting": None,
        "rows_waiting": 0,
        "tables": (),
    }
    progress = Progress(offsets=Offsets(offsets), source=source, **{**known, **more})  # type: ignore[arg-type]
    make_folder(folder)
    (folder / STATE).write_bytes(state_of(progress, b"[]"))
    return str(folder)


def test_a_checkpoint_tells_it_without_spark(tmp_path: Path) -> None:
    topic = GrowingTopic(tmp_path / "a topic")
    topic.grow([ddl("CREATE TABLE t (id int primary key)", _T0, _TABLE)])
    first = next((tmp_path / "a topic").iterdir())
    read = {f"a topic/{first.name}": first.stat().st_size}
    waits = {"watermark": _T0, "rows_waiting": 2, "rows_unresolved": 5}
    kept = _keep(tmp_path / "checkpoint", f"file://{topic.folder}", read, **waits)
    topic.grow([row(_T0 + 1, _T0, id=1)])
    second = max((tmp_path / "a topic").iterdir())

    program = f"import json, sys, tidecast; done = tidecast.status(checkpoint={kept!r}); "
    program += "from tidecast.runtime import running_session; assert running_session() is None; "
    program += "(one,) = done.sources; print(json.dumps([one.lag, one.backlog]))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lag, backlog = json.loads(ran.stdout)
    assert backlog == second.stat().st_size
    assert lag == pytest.approx(time.time() - 1_700_000_000, abs=60)

    (one,) = tidecast.status(checkpoint=kept).sources
    assert (one.batch, one.resolved_ts, one.rows_waiting, one.rows_unresolved) == (3, _T0, 2, 5)
    size, more = read[f"a topic/{first.name}"], second.stat().st_size
    assert one.places == (
        PlaceStatus("a topic", None, first.name, size, size, 0),
        PlaceStatus("a topic", None, second.name, 0, more, more),
    )
    first.write_text("")
    (one,) = tidecast.status(checkpoint=kept).sources
    assert one.problem
    assert "smaller than when it was read" in one.problem


def test_brokers_that_are_not_known_or_do_not_answer_are_told_beside_the_rest(tmp_path: Path) -> None:
    kept = _keep(tmp_path / "checkpoint", "kafka topic shop", {"shop/10": 7, "shop/2": 5})
    (one,) = tidecast.status(checkpoint=kept).sources
    assert [(p.partition, p.offset, p.end) for p in one.places] == [(2, 5, None), (10, 7, None)]
    assert (one.backlog, one.lag) == (None, None)
    assert "give SOURCE" in str(one.problem)
    dead = "kafka://127.0.0.1:9/shop?sasl-mechanism=PLAIN&sasl-user=ann&sasl-password=geheim&dial-timeout=1s"
    (one,) = tidecast.status(dead, checkpoint=kept).sources
    assert "does not answer" in str(one.problem)
    assert "geheim" not in repr(one)
    with pytest.raises(ConfigError, match="the state of another source: kafka topic shop, not kafka topic other"):
        tidecast.status("kafka://127.0.0.1:9/other", checkpoint=kept)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone: no checkpoint: there is no such folder"):
        tidecast.status(checkpoint=str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"no checkpoint: the folder has no progress\.json"):
        tidecast.status(checkpoint=str(tmp_path))
    (tmp_path / STATE).write_text('{"progress": 3}')
    with pytest.raises(TerminalError, match="this is no state of a topic: it tells no progress"):
        tidecast.status(checkpoint=str(tmp_path))
    with pytest.raises(ConfigError, match="give --checkpoint DIR or --to WHERE"):
        tidecast.status()
    with pytest.raises(ConfigError, match="--dead-letters is for --to"):
        tidecast.status(checkpoint=str(tmp_path), dead_letters="letters")


def test_tables_tell_it_by_their_ledger(spark: SparkSession, tmp_path: Path) -> None:
    topic, to, kept = GrowingTopic(tmp_path / "topic"), str(tmp_path / "tables"), str(tmp_path / "checkpoint")
    sql = "CREATE TABLE t (id int primary key)"
    for batch in ([ddl(sql, _T0, _TABLE), row(_T0 + 1, _T0, id=1)], [row(_T0, _T0, id=2) | {"commitTs": "x"}]):
        topic.grow([*batch, watermark(_T0 + 10)])
        tidecast.replicate(topic.uri, to, checkpoint=kept, spark=spark)
    by_ledger, both = (tidecast.status(to=to, checkpoint=c, spark=spark) for c in (None, kept))
    (one,) = by_ledger.sources
    assert one.source == f"file://{topic.folder}"
    assert (one.batch, one.resolved_ts, one.backlog, one.problem) == (2, _T0 + 10, 0, None)
    assert one.applied_at is not None
    assert abs(one.applied_at.timestamp() - time.time()) < 300
    assert [place.offset for place in one.places] == [
        file.stat().st_size for file in sorted((tmp_path / "topic").iterdir())
    ]
    assert [(c.commit_ts, c.query, c.outcome) for c in by_ledger.schema_changes or ()] == [(_T0, sql, "applied")]
    assert [(letter.count, letter.reason) for letter in by_ledger.dead_letters or ()] == [(1, "bad-json")]
    assert both.sources[0].applied_at == one.applied_at
    assert (both.sources[0].rows_waiting, one.rows_waiting) == (0, None)
    assert (both.dead_letters, both.schema_changes) == (by_ledger.dead_letters, by_ledger.schema_changes)

    other = _keep(tmp_path / "other", one.source, {}, checkpoint="other")
    with pytest.raises(ConfigError, match="the ledger of the tables does not know this checkpoint"):
        tidecast.status(checkpoint=other, to=to, spark=spark)
    with pytest.raises(ConfigError, match=r"this source was not applied.*these were: file://"):
        tidecast.status("kafka://127.0.0.1:9/shop", to=to, spark=spark)
    with pytest.raises(ConfigError, match="there is no ledger of batches beside the tables"):
        tidecast.status(to=str(tmp_path / "nothing"), spark=spark)
