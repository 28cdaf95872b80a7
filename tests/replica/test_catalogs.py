"""Catalogs as the place of tables: who may write at a time, and what schema changes make of tables of Delta in one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from full import full
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyspark.sql import SparkSession

import tidecast
from tidecast._errors import TerminalError
from tidecast.model import compose
from tidecast.replica.targets import parse_target

_T0 = compose(1_700_000_000_000)
_N = {**ID, "name": "n", "nullable": True}
_numbers = count()


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A catalog of Delta tables, which is Spark's own, or one of Iceberg's."""
    if request.param == "delta":
        yield "spark_catalog"
        for database in ("d", "_tidecast"):
            spark.sql(f"DROP DATABASE IF EXISTS spark_catalog.{database} CASCADE")
        return
    name = f"catalog{next(_numbers)}"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(tmp_path / "lake"))
    yield name


class Replica:
    """A topic that grows, and a catalog that it is applied to."""

    def __init__(self, spark: SparkSession, folder: Path, catalog: str) -> None:
        self._spark, self._folder, self.catalog = spark, folder, catalog
        self.topic = GrowingTopic(folder / "topic")

    def run(self, *messages: Said, checkpoint: str = "checkpoint", **options: Any) -> tidecast.Replicated:
        """Add messages, and apply what is new."""
        if messages:
            self.topic.grow(messages)
        places = {"checkpoint": str(self._folder / checkpoint), "dead_letters": str(self._folder / "letters")}
        options = {"ddl": "evolve", "tz": "UTC", **places, **options}
        return tidecast.replicate(self.topic.uri, self.catalog, spark=self._spark, **options)

    def rows(self, name: str = "t") -> list[dict[str, Any]]:
        """Return a table's rows in order."""
        found = self._spark.table(f"{self.catalog}.d.{name}").collect()
        return sorted((one.asDict() for one in found), key=lambda row: str(list(row.values())))


@pytest.fixture
def replica(spark: SparkSession, tmp_path: Path, catalog: str) -> Replica:
    return Replica(spark, tmp_path, catalog)


_FIRST = [
    ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _N)),
    *(row(_T0 + n, _T0, id=n, n=n) for n in range(1, 4)),
    watermark(_T0 + 5),
]


@pytest.mark.parametrize("catalog", ["delta", "iceberg"], indirect=True)
def test_a_second_run_of_a_topic_is_refused_while_one_is_at_work(replica: Replica) -> None:
    """The second one has a checkpoint of its own, so that nothing but the catalog tells it of the first."""
    applied, stop = threading.Event(), threading.Event()

    def seen(what: str, done: int, total: int) -> None:
        if what.startswith("batch"):
            applied.set()

    replica.topic.grow(_FIRST)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(replica.run, continuous=True, stop=stop, progress=seen)
        try:
            assert applied.wait(120)
            with pytest.raises(TerminalError, match="another run applies this topic to these tables"):
                replica.run(checkpoint="another")
        finally:
            stop.set()
        assert running.result().tables[0].upserted == 3
    assert replica.rows() == [{"id": n, "n": n} for n in range(1, 4)]


@full
@pytest.mark.parametrize("catalog", ["delta"], indirect=True)
def test_schema_changes_of_delta_tables(
    replica: Replica, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    replica.run(*_FIRST)
    assert "Spark keeps spark_catalog in memory" in caplog.text
    columns = (ID, {**_N, "name": "m"}, {**_N, "name": "x", "default": "5"})
    changed = table(_T0 + 10, *columns)
    sql = "ALTER TABLE `d`.`t` RENAME COLUMN `n` TO `m`, ADD COLUMN `x` INT DEFAULT 5"
    replica.run(ddl(sql, _T0 + 10, changed), row(_T0 + 11, _T0 + 10, id=4, m=4, x=4), watermark(_T0 + 12))
    assert replica.rows() == [*({"id": n, "m": n, "x": 5} for n in range(1, 4)), {"id": 4, "m": 4, "x": 4}]
    then = tidecast.snapshot(replica.catalog, _T0 + 9, spark=spark).table("d.t").collect()
    assert sorted(map(tuple, then)) == [(n, n) for n in range(1, 4)]
    dropped = table(_T0 + 20, *columns[:2])
    renamed = table(_T0 + 20, *columns[:2], name="u")
    replica.run(
        ddl("ALTER TABLE `d`.`t` DROP COLUMN `x`", _T0 + 20, dropped),
        ddl("RENAME TABLE `d`.`t` TO `d`.`u`", _T0 + 30, renamed),
        row(_T0 + 31, _T0 + 20, name="u", id=1, m=10),
        watermark(_T0 + 32),
    )
    assert replica.rows("u") == [{"id": 1, "m": 10}, *({"id": n, "m": n} for n in range(2, 5))]
    assert not spark.catalog.tableExists("spark_catalog.d.t")
    again = table(_T0 + 40, ID, {**_N, "name": "s"})
    replica.run(
        ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0 + 41, again),
        row(_T0 + 42, _T0 + 40, id=7, s=7),
        ddl("TRUNCATE TABLE `d`.`u`", _T0 + 43, renamed),
        row(_T0 + 44, _T0 + 20, name="u", id=8, m=8),
        watermark(_T0 + 45),
    )
    assert (replica.rows(), replica.rows("u")) == ([{"id": 7, "s": 7}], [{"id": 8, "m": 8}])
    assert tidecast.prove(replica.catalog, spark=spark).ok
    anew = table(_T0 + 60, ID, _N, name="u")
    replica.run(
        ddl("DROP TABLE `d`.`u`", _T0 + 50, renamed) | {"type": "ERASE"},
        ddl("CREATE TABLE `d`.`u` (`id` INT)", _T0 + 60, anew),
        row(_T0 + 61, _T0 + 60, name="u", id=9, n=9),
        watermark(_T0 + 62),
    )
    assert replica.rows("u") == [{"id": 9, "n": 9}]
    replica.run(ddl("DROP TABLE `d`.`u`", _T0 + 70, anew) | {"type": "ERASE"}, watermark(_T0 + 71))
    assert not spark.catalog.tableExists("spark_catalog.d.u")
    assert tidecast.prove(replica.catalog, spark=spark).ok


def test_threads_make_databases_one_after_the_other() -> None:
    """A catalog that looks whether one is there, and then makes it, fails where another thread has made it since."""
    made = list[str]()

    class Session:
        """Makes databases as Iceberg's JDBC catalog does."""

        def __init__(self) -> None:
            self.conf = dict[str, str]()

        def sql(self, statement: str) -> None:
            if statement not in made:
                time.sleep(0.05)
                made.append(statement)

    session: Any = Session()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: parse_target("lake").table(session, "d", name), ("t", "u")))
    assert made == ["CREATE DATABASE IF NOT EXISTS `lake`.`d`"]
