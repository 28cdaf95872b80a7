"""The demo's tables are the shop at the end of its week."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from shop import LOG, actual, expected

import tidecast
from tidecast.cli import _show


def test_the_tables_are_the_shop(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a demo"
    tables = folder / "tables"
    tables.mkdir(parents=True)
    (folder / ".tidecast-demo").touch()
    (tables / "left from an earlier run").touch()
    shop = LOG.Shop()
    shop.run()
    seen: list[tuple[str, int, int]] = []

    result = tidecast.demo(str(folder), progress=lambda *step: seen.append(step), spark=spark)

    assert [t.table for t in result.tables] == sorted(f"shop.{t.name}" for t in shop.tables)
    for table in shop.tables:
        report = next(t for t in result.tables if t.table == f"shop.{table.name}")
        assert report.topic == f"shop_{table.name}"
        assert report.published == report.verified + report.deletes
        assert report.rows == len(table.rows)
        assert actual(report.where, table.key) == expected(table)
    assert [(o.protocol, o.rows) for o in result.others] == [
        (protocol, sum(t.published for t in result.tables)) for protocol in ("debezium", "simple")
    ]
    assert not result.dead_letters
    assert [p.name for p in tables.iterdir()] == ["shop"]
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)

    _show.demo(result, as_json=True)
    assert json.loads(capsys.readouterr().out)["tables"][0]["rows"] == result.tables[0].rows
    _show.demo(result, as_json=False)
    told = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [words[1] for words in told] == ["inspect", "verify", "inspect", "inspect", "-c"]
    assert DeltaTable(told[4][2].split('"')[3]).version() == 0
    assert told[1][2:5] == [result.source, "--schema-registry", result.schema_registry]


@pytest.mark.parametrize("marked", [True, False])
def test_a_folder_with_anything_else_is_refused(marked: bool, tmp_path: Path) -> None:
    mine = tmp_path / ("thesis.tex" if marked else "tables")
    mine.write_text("years of work")
    if marked:
        (tmp_path / ".tidecast-demo").touch()

    with pytest.raises(tidecast.ConfigError, match=f"not the demo's: {mine.name}"):
        tidecast.demo(str(tmp_path))

    assert mine.read_text() == "years of work"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")

    with pytest.raises(tidecast.ConfigError, match="not a folder"):
        tidecast.demo(str(tmp_path / "demo"))
