"""Every golden row is judged as the reference's authors say it must be, and every damaged one is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from golden_data import lines, registry_folder
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tidecast
from tidecast.cli._app import app

JUDGED = {"match": "match", "mismatch": "mismatch", "none": "none", "delete": "none", "zero": "zero"}


@pytest.fixture(scope="module")
def schemas(golden: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The golden schemas as a registry's folder, written by hand."""
    return registry_folder(golden("avro-checksum.schemas.jsonl.gz"), tmp_path_factory.mktemp("registry"))


@contextmanager
def ansi(spark: SparkSession, on: bool) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled", "true") or "true"
    spark.conf.set("spark.sql.ansi.enabled", str(on).lower())
    try:
        yield
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize("on", [False, True], ids=["ansi-off", "ansi-on"])
def test_every_golden_row_is_judged_as_expected(
    golden: Callable[[str], Path], schemas: str, spark: SparkSession, on: bool
) -> None:
    path = golden("avro-checksum.jsonl.gz")
    expected = [line["expect"] for line in lines(path)]
    with ansi(spark, on):
        events = tidecast.read(spark, f"file://{path}?protocol=avro", schema_registry=schemas, tz="Asia/Shanghai")
        rows = tidecast.verify(events).select("offset", "verdict").collect()
    judged = {row["offset"]: JUDGED.get(row["verdict"], row["verdict"]) for row in rows}
    wrong = {n: (judged.get(n), e) for n, e in enumerate(expected) if judged.get(n) != e}
    assert not wrong
    assert set(expected) == {"match", "mismatch", "none", "zero"}


def test_every_damaged_row_is_found_and_reported(
    golden: Callable[[str], Path], schemas: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = golden("avro-checksum-corrupt.jsonl.gz")
    damaged = lines(path)
    result = CliRunner().invoke(
        app,
        [
            "verify",
            f"file://{path}?protocol=avro",
            *("--schema-registry", schemas, "--tz", "Asia/Shanghai", "--json"),
            *("--mismatches", str(tmp_path / "mismatches")),
        ],
    )
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    assert report["verdicts"]["mismatch"] == report["verified"] == len(damaged)
    written = [
        json.loads(line)
        for part in (tmp_path / "mismatches").glob("*.jsonl")
        for line in part.read_text().removesuffix("\n").split("\n")
    ]
    assert {(w["topic"], w["partition"], w["offset"]) for w in written} == {
        (d["topic"], d["partition"], n) for n, d in enumerate(damaged)
    }
    assert all(w["expected"] != w["actual"] and w["table"] and w["key"] for w in written)
