"""Iceberg tables of catalogs that other programs keep: a REST server on a local disk, and a database beside S3.

Each run is a program of its own, as the session of these tests has no jar for them; pyiceberg reads what they leave.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from full import full
from growing_topic import ID, GrowingTopic, Said, ddl, row, table, watermark
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import StaticTable, Table
from servers import RestCatalogServer, S3Server
from servers._rest_catalog import SQLITE

from tidecast.model import compose
from tidecast.runtime import fetch_jars

pytestmark = [pytest.mark.spark, full]

_T0 = compose(1_700_000_000_000)
_SPARK = "org.apache.iceberg.spark.SparkCatalog"

PROGRAM = """
import json, os, sys, tidecast
from tidecast.replica.targets.iceberg import IcebergTarget

folder, step = sys.argv[1:3]
real = IcebergTarget.move_to

def killed(self, other):
    real(self, other)
    os._exit(9)

if step == "killed":
    IcebergTarget.move_to = killed
options = {"checkpoint": f"{folder}/checkpoint", "dead_letters": f"{folder}/letters", "ddl": "evolve", "tz": "UTC"}
done = tidecast.replicate(f"{folder}/topic?protocol=simple", "lake", **options)
told = {"tables": sorted(one.name for one in done.tables), "dead": done.dead_letters, "warnings": done.warnings}
told["proven"] = {one.table: str(one.verdict) for one in tidecast.prove("lake").tables}
if step.isdigit():
    then = tidecast.snapshot("lake", int(step)).table("d.t")
    told["then"] = sorted((row.asDict() for row in then.collect()), key=str)
print(json.dumps(told))
"""


@dataclass
class Lake:
    """A catalog: Spark's settings of it, their jars, and how pyiceberg opens a table in it."""

    conf: Mapping[str, str]
    open: Any

    def rows(self, name: str = "t") -> list[dict[str, Any]]:
        """Return a table's rows in order, as pyiceberg reads them."""
        found: Table = self.open(("d", name))
        return sorted(found.scan().to_arrow().to_pylist(), key=lambda row: str(list(row.values())))


@pytest.fixture(params=["rest", "jdbc"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    if request.param == "rest":
        with RestCatalogServer() as server:
            catalog = RestCatalog("lake", uri=server.url)
            yield Lake({"type": "rest", "uri": server.url}, catalog.load_table)
        return
    store: S3Server = request.getfixturevalue("s3")
    database = tmp_path / "lake.db"

    def opened(name: tuple[str, str]) -> Table:
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        with sqlite3.connect(database) as connection:
            ((metadata,),) = connection.execute(query, name)
        access = {"s3.access-key-id": store.key, "s3.secret-access-key": store.secret}
        return StaticTable.from_metadata(metadata, {"s3.endpoint": store.url, "s3.region": "us-east-1", **access})

    warehouse = f"s3a://{store.bucket}/{tmp_path.name}"
    place = {"uri": f"jdbc:sqlite:{database}", "warehouse": warehouse}
    yield Lake({"type": "jdbc", "jdbc.schema-version": "V1", "unique-table-location": "true", **place}, opened)


class Runs:
    """A topic that grows, and the programs that apply it to a catalog."""

    def __init__(self, lake: Lake, folder: Path, s3: S3Server) -> None:
        self.topic, self._folder = GrowingTopic(folder / "topic"), folder
        jars = [*fetch_jars(SQLITE), *s3.jars()]
        conf = {"spark.sql.catalog.lake": _SPARK, **{f"spark.sql.catalog.lake.{k}": v for k, v in lake.conf.items()}}
        conf |= {**s3.spark, "spark.jars": ",".join(map(str, jars))}
        (folder / "conf").mkdir()
        lines = (f"{name} {value}\n" for name, value in conf.items())
        (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))

    def run(self, *messages: Said, step: str = "run", code: int = 0) -> dict[str, Any]:
        """Add messages, and apply what is new; return what the program told."""
        if messages:
            self.topic.grow(messages)
        environment = {**os.environ, "SPARK_CONF_DIR": str(self._folder / "conf")}
        command = [sys.executable, "-c", PROGRAM, str(self._folder), step]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self._folder)
        assert done.returncode == code, done.stderr[-6000:]
        return json.loads(done.stdout.splitlines()[-1]) if code == 0 else {}


def test_rows_and_schema_changes(lake: Lake, tmp_path: Path, s3: S3Server) -> None:
    """A rename that is killed halfway, too, and another table of the old name, which has the old table's place."""
    runs = Runs(lake, tmp_path, s3)
    n, m, x = ({**ID, "name": name, "nullable": True} for name in "nmx")
    first = table(_T0, ID, n)
    told = runs.run(
        ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, first),
        *(row(_T0 + i, _T0, id=i, n=i) for i in range(1, 5)),
        watermark(_T0 + 9),
    )
    assert (told["proven"], told["dead"], told["warnings"]) == ({"d.t": "equal"}, {}, [])
    told = runs.run(
        row(_T0 + 11, _T0, kind="UPDATE", id=1, n=10),
        row(_T0 + 12, _T0, kind="DELETE", id=2, n=2),
        ddl("ALTER TABLE `d`.`t` RENAME COLUMN `n` TO `m`", _T0 + 13, table(_T0 + 13, ID, m)),
        ddl("ALTER TABLE `d`.`t` ADD COLUMN `x` INT", _T0 + 14, table(_T0 + 14, ID, m, x)),
        row(_T0 + 15, _T0 + 14, id=5, m=5, x=5),
        watermark(_T0 + 19),
        step=str(_T0 + 9),
    )
    assert (told["proven"], told["dead"], told["warnings"]) == ({"d.t": "equal"}, {}, [])
    assert told["then"] == [{"id": i, "n": i} for i in range(1, 5)]
    kept = [{"id": 3, "m": 3}, {"id": 4, "m": 4}, {"id": 5, "m": 5}]
    assert lake.rows() == [
        {"x": None, **one} | ({"x": 5} if one["id"] == 5 else {}) for one in [{"id": 1, "m": 10}, *kept]
    ]
    renamed = table(_T0 + 21, ID, m, name="u")
    again = table(_T0 + 31, ID, {**ID, "name": "s"})
    runs.run(
        ddl("ALTER TABLE `d`.`t` DROP COLUMN `x`", _T0 + 21, table(_T0 + 21, ID, m)),
        ddl("RENAME TABLE `d`.`t` TO `d`.`u`", _T0 + 22, renamed),
        row(_T0 + 23, _T0 + 21, name="u", kind="UPDATE", id=1, m=11),
        ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0 + 31, again),
        row(_T0 + 32, _T0 + 31, id=7, s=7),
        watermark(_T0 + 39),
        step="killed",
        code=9,
    )
    told = runs.run()
    assert (told["proven"], told["dead"], told["warnings"]) == ({"d.t": "equal", "d.u": "equal"}, {}, [])
    assert lake.rows("u") == [{"id": 1, "m": 11}, *kept]
    assert lake.rows() == [{"id": 7, "s": 7}]
    apart = lake.open(("d", "t")).location() != lake.open(("d", "u")).location()
    assert apart == ("unique-table-location" in lake.conf)
    told = runs.run(
        ddl("TRUNCATE TABLE `d`.`u`", _T0 + 41, renamed),
        row(_T0 + 42, _T0 + 21, name="u", id=8, m=8),
        ddl("DROP TABLE `d`.`t`", _T0 + 43, again) | {"type": "ERASE"},
        watermark(_T0 + 49),
    )
    assert (told["proven"], told["dead"], told["warnings"]) == ({"d.u": "equal"}, {}, [])
    assert lake.rows("u") == [{"id": 8, "m": 8}]
