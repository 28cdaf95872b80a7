"""A dry run says what the next batch would do to each table, and changes nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from checkpointed import Replica
from growing_topic import ID, Said, ddl, row, table
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tidecast
from tidecast.cli._app import app
from tidecast.model import compose

_T0 = compose(1_700_000_000_000)
_N = {**ID, "name": "n", "nullable": True}
_M = {**ID, "name": "m", "nullable": True}
_WIDE = {**_N, "dataType": {**ID["dataType"], "mysqlType": "bigint", "length": 20}}


def _row(at: int, n: int, version: int = 0, name: str = "t", **more: Any) -> Said:
    return row(_T0 + at, _T0 + version, name=name, id=n, n=n, **more)


def _files(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _looked_at(replica: Replica, *batches: list[Said], **options: Any) -> dict[str, tuple[str, ...]]:
    """Deliver a batch and look at it twice, which leaves all files as they were."""
    replica.topic.deliver((partition, one) for partition, batch in enumerate(batches) for one in batch)
    before = _files(replica.folder)
    found = replica.run(dry_run=True, **options)
    assert replica.run(dry_run=True, **options) == found
    assert _files(replica.folder) == before
    assert not found.tables
    return {plan.name: plan.actions for plan in found.plans}


def test_new_tables_and_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    first = [
        ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _N)),
        *(_row(1, n) for n in range(3)),
        ddl("CREATE TABLE `d`.`waits` (`id` INT)", _T0 + 2, table(_T0 + 2, ID, name="waits")),
    ]
    assert _looked_at(replica, first) == {
        "d.t": ("create the table: id int, n int, key (id)", "merge 3 row changes by key"),
        "d.waits": ("create the table: id int, key (id)",),
    }
    replica.run()
    assert replica.rows("d/t") == [(0, 0), (1, 1), (2, 2)]
    assert _looked_at(replica) == {}


def test_columns_keys_and_rows_of_before(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.run([ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _N)), _row(1, 1)])
    later = table(_T0 + 9, ID, _WIDE, _M)
    sql = "ALTER TABLE `d`.`t` MODIFY COLUMN `n` BIGINT, ADD COLUMN `m` INT"
    found = _looked_at(replica, [ddl(sql, _T0 + 9, later), _row(10, 2, 9, m=5), _row(11, 2, 9, m=6)])
    assert found == {
        "d.t": ("add column m int", "widen column n to bigint", "merge 2 row changes by key"),
    }
    replica.run()
    assert replica.rows("d/t") == [(1, 1, None), (2, 2, 6)]


def test_renamed_truncated_and_dropped_tables(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    names = ("t", "emptied", "gone")
    replica.run(
        [
            message
            for name in names
            for message in (ddl(f"CREATE TABLE `d`.`{name}` (`id` INT)", _T0, table(_T0, ID, _N, name=name)),)
        ]
        + [_row(1, 1, name=name) for name in names]
    )
    moved = table(_T0 + 2, ID, _N, name="now")
    batch = [
        ddl("RENAME TABLE `d`.`t` TO `d`.`now`", _T0 + 2, moved),
        _row(3, 2, 2, name="now"),
        ddl("TRUNCATE TABLE `d`.`emptied`", _T0 + 4, table(_T0 + 4, ID, _N, name="emptied")),
        ddl("DROP TABLE `d`.`gone`", _T0 + 5, table(_T0, ID, _N, name="gone")) | {"type": "ERASE"},
    ]
    found = _looked_at(replica, batch)
    assert found == {
        "d.now": ("rename table d.t to d.now", "merge 1 row change by key"),
        "d.emptied": (f"truncate what is older than {_T0 + 4}",),
        "d.gone": ("drop the table",),
    }
    replica.run()
    assert replica.rows("d/now") == [(1, 1), (2, 2)]
    assert replica.rows("d/emptied") == []
    assert not Path(replica.to, "d", "gone").exists()


def test_what_cannot_be_applied_or_read(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path, ddl="lenient")
    replica.run([ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _N)), _row(1, 1)])
    text = {**_N, "dataType": {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 9}}
    other = table(_T0 + 9, ID, text)
    batch: list[Said] = [ddl("ALTER TABLE `d`.`t` MODIFY COLUMN `n` VARCHAR(9)", _T0 + 9, other), _row(10, 2, 9)]
    replica.topic.grow([*batch, {"version": 1, "type": "INSERT"}])
    found = replica.run(dry_run=True)
    assert [plan.actions for plan in found.plans] == [("set aside 1 row change: column n changed from int to string",)]
    assert sum(found.dead_letters.values()) == 1
    assert replica.run().dead_letters == {"schema-change": 1, **found.dead_letters}


def test_the_command_prints_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    replica = Replica(spark, tmp_path)
    replica.topic.grow([ddl("CREATE TABLE `d`.`t` (`id` INT)", _T0, table(_T0, ID, _N)), _row(1, 1)])
    told = CliRunner().invoke(app, ["replicate", replica.topic.uri, "--to", replica.to, "--dry-run"])
    assert told.exit_code == 0, told.output
    assert "d.t (" in told.output
    assert "  create the table: id int, n int, key (id)\n  merge 1 row change by key\n" in told.output
    assert not Path(replica.to).exists()


def test_it_is_for_one_batch(tmp_path: Path) -> None:
    with pytest.raises(tidecast.ConfigError, match="--dry-run is for one batch"):
        tidecast.replicate("file:///nowhere", str(tmp_path), checkpoint=str(tmp_path), continuous=True, dry_run=True)
