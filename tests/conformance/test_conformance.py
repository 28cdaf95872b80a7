"""The conformance kit: what it writes, how it compares, and what it says of a small consumer and of tidecast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from full import FULL
from kit_answers import cases_of, write_answers
from pyspark.sql import SparkSession

from tidecast import ConfigError
from tidecast.conformance import Report, check, features_of, write
from tidecast.conformance._check import check_case

ROOT = Path(__file__).parents[2]
CONSUMER = ROOT / "examples" / "consumer.py"

Said = dict[str, Any]


@pytest.fixture(scope="module")
def report(tidecast_kit: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on the example's answers."""
    results = tmp_path_factory.mktemp("example") / "results.jsonl"
    subprocess.run([sys.executable, str(CONSUMER), str(tidecast_kit), str(results)], check=True)
    return check(tidecast_kit, results)


def test_the_kit_has_the_golden_messages_and_every_feature(tidecast_kit: Path) -> None:
    packed = [sys.executable, str(ROOT / "scripts" / "make-conformance"), "--check"]
    assert subprocess.run(packed, check=False).returncode == 0
    features = features_of(tidecast_kit)
    of_protocol = {name: {f for p, f in features if p == name} for name in dict(features)}
    assert of_protocol.keys() == {"avro", "avro-precise", "canal-json", "debezium", "simple", "simple-avro"}
    everything = set.union(*of_protocol.values())
    assert of_protocol["simple"] == of_protocol["simple-avro"] == everything
    assert everything - of_protocol["canal-json"] == {"checksums"}
    assert everything - of_protocol["debezium"] == {"checksums", "zero dates"}
    by_time = {"replay cut short", "one key in several partitions"}
    assert everything - of_protocol["avro"] == {"schema changes", "watermarks", "old values", *by_time}
    with pytest.raises(ConfigError, match="is not an empty folder"):
        write(tidecast_kit)


def test_a_schedule_delivers_what_ticdc_may(tidecast_kit: Path) -> None:
    def values(case: str) -> list[str]:
        lines = (tidecast_kit / "messages" / f"{case}.jsonl").read_text().splitlines()
        return [json.loads(line)["value"] for line in lines]

    in_order = values("simple.in-order")
    for name in ("duplicates", "replays", "replay-cut-short"):
        sent = values(f"simple.{name}")
        assert list(dict.fromkeys(sent)) == list(dict.fromkeys(in_order))
        assert len(sent) > len(in_order)
    for name in ("partitions-at-other-paces", "one-key-in-several-partitions"):
        assert sorted(values(f"simple.{name}")) == sorted(in_order) != values(f"simple.{name}")


def test_the_example_is_told_what_it_gets_wrong(report: Report) -> None:
    wrong: dict[str, set[str]] = {}
    for feature in report.features:
        assert bool(feature.failed) == bool(feature.first)
        if feature.failed:
            wrong.setdefault(feature.protocol, set()).add(feature.feature)
    schedules = {"duplicates", "replays", "replay cut short", "one key in several partitions"}
    in_text = {"timestamp", "enum and set", "old values", "deleted rows", "bad input"}
    assert wrong == {
        "avro": {"timestamp"},
        "avro-precise": {"timestamp", "bigint unsigned"},
        "canal-json": {*in_text, *schedules},
        "debezium": {"bigint unsigned", "deleted rows", "bad input", *schedules},
        "simple": {*in_text, *schedules},
    }
    assert {f.passed + f.failed for f in report.features if f.protocol == "simple-avro"} == {0}
    assert report.of("avro", "checksums").not_answered > 100
    first = report.of("avro-precise", "bigint unsigned").first
    assert first == (
        'avro-precise offset 0: new.t_ubigint (bigint(20) unsigned) is "-1", expected "18446744073709551615"'
    )


CELL = {"feature": "f", "offset": 1, "kind": "row", "cell": "new.n", "expected": "1.50", "type": "decimal(4,2)"}
ROW = {"offset": 1, "kind": "row", "new": {"n": 1.5}}


@pytest.mark.parametrize(
    ("expected", "answers", "counts"),
    [
        (CELL, [ROW], (1, 0, 0)),
        (CELL, [{**ROW, "new": {"n": "1.51"}}], (0, 1, 0)),
        (CELL, [{**ROW, "new": {"n": None}}], (0, 1, 0)),
        (CELL, [{**ROW, "new": {}}], (0, 1, 0)),
        (CELL, [{**ROW, "offset": 2}], (0, 1, 0)),
        (CELL, [{**ROW, "kind": "error"}, {**ROW, "offset": 2}], (0, 1, 0)),
        (CELL, [], (0, 0, 1)),
        (CELL, [{"offset": 1, "kind": "row", "op": "c"}], (0, 0, 1)),
        ({**CELL, "type": "float", "expected": "0.1"}, [{**ROW, "new": {"n": 0.10000000149011612}}], (1, 0, 0)),
        ({**CELL, "type": "double", "expected": "0.1"}, [{**ROW, "new": {"n": 0.10000000149011612}}], (0, 1, 0)),
        ({**CELL, "type": "json", "expected": '[1.0, true]'}, [{**ROW, "new": {"n": "[1,true]"}}], (1, 0, 0)),
        ({**CELL, "type": "json", "expected": "[1]"}, [{**ROW, "new": {"n": "[true]"}}], (0, 1, 0)),
        ({**CELL, "type": "datetime(3)", "expected": "2000-01-01 00:00:00.500"},
         [{**ROW, "new": {"n": "2000-01-01 00:00:00.5"}}], (1, 0, 0)),
        ({**CELL, "type": "blob", "expected": "0aff"}, [{**ROW, "new": {"n": "0AFF"}}], (1, 0, 0)),
        ({**CELL, "type": "varchar(4)", "expected": "a"}, [{**ROW, "new": {"n": "A"}}], (0, 1, 0)),
    ],
)  # fmt: skip
def test_answers_are_compared_by_type(expected: Said, answers: list[Said], counts: tuple[int, int, int]) -> None:
    report = Report()
    check_case(report, "simple", [expected], answers)
    (feature,) = report.features
    assert (feature.passed, feature.failed, feature.not_answered) == counts


def test_rows_of_tables_are_there_once(tmp_path: Path) -> None:
    types = {"id": "int", "v": "varchar(9)"}
    rows = [{"id": str(n), "v": f"v{n}"} for n in range(4)]
    expected = {"feature": "replays", "table": "d.t", "key": ["id"], "types": types, "rows": rows}
    got = [{"id": 0, "v": "v0"}, {"id": 1, "v": "old"}, {"id": 2, "v": "v2"}, {"id": 2, "v": "v2"}, {"id": 9, "v": ""}]
    report = Report()
    check_case(report, "simple.replays", [expected], [{"table": "d.t", "row": row} for row in got])
    (feature,) = report.features
    # One is right; one has an old value, one is there twice, one is missing, one should not be there.
    assert (feature.passed, feature.failed) == (1, 4)
    assert feature.first == 'simple.replays d.t row {"id": "1"}: v (varchar(9)) is "old", expected "v1"'


def test_the_command_line_shows_a_report_and_what_is_no_answer(tidecast_kit: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tidecast", "conformance", "check", str(tidecast_kit), str(results)]
        return subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    answer = {"case": "avro-precise", "offset": 0, "kind": "row", "op": "c"}
    results.write_text(json.dumps(answer) + "\n")
    shown = run("--json")
    assert shown.returncode == 1  # the other rows of the case have no answer
    features = json.loads(shown.stdout)["features"]
    (operations,) = (f for f in features if f["protocol"] == "avro-precise" and f["feature"] == "operations")
    assert operations["passed"] == 1
    assert operations["first"] == 'avro-precise offset 1: no answer, expected op "c"'
    assert "avro-precise, operations: 10 wrong" in run().stdout
    for line, wrong in (('{"case": "none"}', "there is no case 'none'"), ("{", "no JSON"), ("[]", "no JSON object")):
        results.write_text(line + "\n")
        refused = run()
        assert refused.returncode == 2
        assert f"{results} line 1: {wrong}" in refused.stderr


def test_pytest_tests_a_consumer(tmp_path: Path) -> None:
    def run(consumer: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tidecast-consumer", consumer]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "COLUMNS": "200"}
        )

    done = run(f"{sys.executable} {CONSUMER} {{input}} {{output}}")
    assert done.returncode == 1
    assert "28 failed, 113 passed, 35 skipped" in done.stdout
    assert "FAILED tidecast-conformance::avro: timestamp - 71 of 71 are wrong" in done.stdout
    assert "false ended with 1" in run("false").stdout


FEW = ("avro-precise", "debezium.bad-inputs", "simple.one-key-in-several-partitions")
"""Cases that are answered in every run: the golden tests read the same messages."""
PROTOCOLS = ("avro", "avro-precise", "canal-json", "debezium", "simple", "simple-avro")


@pytest.mark.parametrize("protocol", PROTOCOLS if FULL else [None], ids=lambda protocol: protocol or "few")
def test_tidecast_answers_rightly(
    protocol: str | None, spark: SparkSession, tidecast_kit: Path, tmp_path: Path
) -> None:
    def is_chosen(case: str) -> bool:
        return case in FEW if protocol is None else case.partition(".")[0] == protocol

    cases = [case for case in cases_of(tidecast_kit) if is_chosen(case["case"])]
    write_answers(spark, tidecast_kit, cases, tmp_path / "results.jsonl", tmp_path / "tables")
    report = check(tidecast_kit, tmp_path / "results.jsonl")
    assert [f"{f.protocol}, {f.feature}: {f.failed} wrong, {f.first}" for f in report.features if f.failed] == []
    answered = {(f.protocol, f.feature) for f in report.features if f.answered and not f.not_answered}
    expected = {feature for feature in features_of(tidecast_kit) if feature[0] == protocol}
    assert answered == expected if protocol else len(answered) > 20
