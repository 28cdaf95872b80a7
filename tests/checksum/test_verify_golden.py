"""Every golden row has the verdict that the reference's authors say it must have, and every damaged one is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from differences import assert_messages_equal
from golden_data import ONE_OF_EACH, Line, lines, of_tables, registry_folder, topic
from golden_events import ZONE, GoldenEvents
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import tidecast
from tidecast.cli._app import app

VERDICTS = {"match": "match", "mismatch": "mismatch", "none": "none", "delete": "none", "zero": "zero"}


@pytest.fixture(scope="module")
def schemas(golden: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The golden schemas as a registry's folder, written by hand."""
    return registry_folder(golden("avro-checksum.schemas.jsonl.gz"), tmp_path_factory.mktemp("registry"))


def assert_verdicts(rows: DataFrame, messages: list[Line]) -> None:
    found = {r["offset"]: VERDICTS.get(r["verdict"], r["verdict"]) for r in rows.select("offset", "verdict").collect()}
    assert_messages_equal(found, {n: m["expect"] for n, m in enumerate(messages)}, dict(enumerate(messages)))
    assert {m["expect"] for m in messages} == {"match", "mismatch", "none", "zero"}


def test_every_golden_row_has_the_expected_verdict(decoded: GoldenEvents) -> None:
    source = decoded("avro-checksum")
    assert_verdicts(tidecast.verify(source.events), source.messages)


@pytest.mark.parametrize("session", ["true"], indirect=True, ids=["ansi"])
def test_rows_of_each_type_have_the_expected_verdict_under_ansi_rules(
    golden: Callable[[str], Path], schemas: str, session: SparkSession, tmp_path: Path
) -> None:
    """Read and verified in one plan, as by the command."""
    messages = of_tables(lines(golden("avro-checksum.jsonl.gz")), ONE_OF_EACH)
    source = f"file://{topic(tmp_path / 'topic.jsonl', messages)}?protocol=avro"
    with tidecast.read(session, source, schema_registry=schemas, tz=ZONE) as events:
        assert_verdicts(tidecast.verify(events), messages)


def test_every_damaged_row_is_found(decoded: GoldenEvents) -> None:
    source = decoded("avro-checksum-corrupt")
    found = {r["offset"]: r["verdict"] for r in tidecast.verify(source.events).select("offset", "verdict").collect()}
    messages = dict(enumerate(source.messages))
    assert_messages_equal(found, dict.fromkeys(messages, "mismatch"), messages)


@pytest.mark.spark
def test_damaged_rows_are_reported(golden: Callable[[str], Path], schemas: str, tmp_path: Path) -> None:
    """By the command, for a few tables, one of which has several versions."""
    tables = {("orc", name) for name in ("t_all", "t_int", "t_evo")}
    damaged = of_tables(lines(golden("avro-checksum-corrupt.jsonl.gz")), tables)
    file = topic(tmp_path / "topic.jsonl", damaged)
    result = CliRunner().invoke(
        app,
        [
            "verify",
            f"file://{file}?protocol=avro",
            *("--schema-registry", schemas, "--tz", ZONE, "--json"),
            *("--mismatches", str(tmp_path / "mismatches")),
        ],
    )
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    assert report["verdicts"]["mismatch"] == report["verified"] == len(damaged) > 10
    written = [
        json.loads(line)
        for part in (tmp_path / "mismatches").glob("*.jsonl")
        for line in part.read_text().removesuffix("\n").split("\n")
    ]
    assert {(w["topic"], w["partition"], w["offset"]) for w in written} == {
        (d["topic"], d["partition"], n) for n, d in enumerate(damaged)
    }
    assert all(w["expected"] != w["actual"] and w["table"] and w["key"] for w in written)
