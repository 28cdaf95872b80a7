"""A replica that an earlier tidecast wrote: it goes on where that one ended."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from checkpointed import Replica
from growing_topic import ID, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_N: Said = {**ID, "name": "n", "nullable": True}


@pytest.fixture
def replica(spark: SparkSession, tmp_path: Path) -> Replica:
    """Two batches of a topic, applied by tidecast as it was before a replica had its five stages.

    They have a table that was renamed and got a column, one without a key, and a row that waits for its schema.
    """
    with tarfile.open(Path(__file__).parents[1] / "golden" / "replica-of-2026-11-27.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    for file in tmp_path.rglob("*.json"):  # which name the folder that all lay in
        file.write_text(file.read_text().replace("/replica", str(tmp_path)))
    return Replica(spark, tmp_path)


def test_a_replica_of_an_earlier_version_goes_on(replica: Replica) -> None:
    before = {"d.log": "equal", "d.t2": "equal"}
    assert replica.proven() == before
    later = table(_T0 + 80, ID, _N, name="later")
    done = replica.run(
        [
            ddl("CREATE TABLE `d`.`later` (`id` INT, `n` INT)", _T0 + 80, later),
            row(_T0 + 12, _T0, id=1, n=99),  # which comes again, and is older
            row(_T0 + 90, _T0 + 60, kind="UPDATE", name="t2", id=6, n=60, m=60),
            row(_T0 + 91, _T0 + 60, kind="DELETE", name="t2", id=0, n=0, m=0),
            watermark(_T0 + 95),
        ],
        [row(_T0 + 21, _T0 + 1, name="log", id=2, n=2), row(_T0 + 92, _T0 + 1, name="log", id=3, n=3)],
    )
    assert (dict(done.dead_letters), done.warnings) == ({}, ())
    assert replica.rows("d/t2") == [(1, 10, None), (3, 3, None), (5, 5, None), (6, 60, 60)]
    assert replica.rows("d/log") == [(1, 1), (2, 2), (3, 3)]
    assert replica.rows("d/later") == [(1, 1)]
    assert replica.proven() == {**before, "d.later": "equal"}
    report = tidecast.compare(replica.topic.uri, replica.to, spark=replica.spark)
    assert {one.table: one.ok for one in report.tables} == {"d.log": True, "d.t2": True, "d.later": True}
