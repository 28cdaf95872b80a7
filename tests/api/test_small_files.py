"""Small files of JSON Lines: what is read in the program's own process is what Spark reads."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from golden_data import Line, lines, registry_folder
from pyspark.sql import SparkSession

import tidecast
from tidecast.topics import FileTopics

TABLES = {("orc", "t_all"), ("orc", "t_pk_1"), ("orc", "t_many"), ("orc", "t_long")}
VARIANTS = ("avro-checksum", "simple-json-checksum", "debezium-ext", "canal-json-ext")


@pytest.fixture(params=VARIANTS)
def source(request: pytest.FixtureRequest, golden: Callable[[str], Path], tmp_path: Path) -> tuple[str, str | None]:
    """Give the URI of a file with messages of several tables, one of them damaged, and that of its registry."""
    name = request.param
    protocol = "canal-json" if name.startswith("canal-json") else name.partition("-")[0]
    few = [m for m in lines(golden(f"{name}.jsonl.gz")) if m["kind"] != "dml" or (m["db"], m["table"]) in TABLES][:150]
    few[-1]["value"] = base64.b64encode(base64.b64decode(few[-1]["value"])[:-9]).decode()
    file = tmp_path / "topic.jsonl.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in _records(few)).encode()))
    registry = registry_folder(golden(f"{name}.schemas.jsonl.gz"), tmp_path / "schemas") if protocol == "avro" else None
    return f"file://{file}?protocol={protocol}", registry


def _records(messages: list[Line]) -> Iterator[dict[str, Any]]:
    for message in messages:
        yield {"topic": "t", "partition": message["partition"], "key": message["key"], "value": message["value"]}


def test_every_command_says_the_same(
    source: tuple[str, str | None], spark: SparkSession, tmp_path: Path, no_spark_here: None
) -> None:
    uri, registry = source
    sinks = [f"file://{tmp_path}/sink?protocol={protocol}" for protocol in ("simple", "csv")]
    both: list[list[Any]] = [
        [
            [
                asdict(one)
                for one in tidecast.inspect(uri, schema_registry=registry, tz="UTC", limit=200, spark=session)
            ],
            asdict(tidecast.verify(uri, schema_registry=registry, tz="UTC", spark=session)),
            *(tidecast.plan(uri, to, source_schema_registry=registry, tz="UTC", spark=session) for to in sinks),
        ]
        for session in (None, spark)
    ]
    for here, by_spark in zip(*both, strict=True):
        assert here
        assert here == by_spark


@pytest.fixture
def no_spark_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing start a session but the test."""

    def refuse() -> SparkSession:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("tidecast.api._source.spark_session", refuse)
    monkeypatch.setattr("tidecast.inspection._events.spark_session", refuse)


_WHOLE = {"topic": "u", "partition": 1, "offset": 7, "timestamp": 1_700_000_000_000, "key": None, "value": "eA=="}


def test_lines_are_records_or_left_to_spark(tmp_path: Path) -> None:
    def read(*content: bytes) -> list[dict[str, Any]] | None:
        for number, text in enumerate(content):
            (tmp_path / f"{number}.jsonl").write_bytes(text)
        topics = FileTopics(tmp_path / "0.jsonl" if len(content) == 1 else tmp_path, "t")
        found = topics.here(1 << 20)
        return None if found is None else found.messages.select(["topic", "offset", "value"]).to_pylist()

    plain = b'{"value":"eA=="}'
    assert read(plain + b"\n \n" + json.dumps(_WHOLE).encode()) == [
        {"topic": "t", "offset": 0, "value": b"x"},
        {"topic": "u", "offset": 7, "value": b"x"},
    ]
    assert read(json.dumps(_WHOLE).encode() + b"\n" + plain) == [
        {"topic": "u", "offset": 7, "value": b"x"},
        {"topic": "t", "offset": None, "value": b"x"},
    ]
    for strange in (
        b"[]",
        b"{",
        plain + b"\r" + plain,
        b'{"value":"eA"}',
        b'{"value":1}',
        b'{"partition":true}',
        b'{"partition":2147483648}',
        b'{"offset":9223372036854775808}',
        b'{"timestamp":9223372036854775807}',
        b'{"value":"\xff"}',
        b'{"value":"eA==","headers":[{"key":"h","value":"?"}]}',
    ):
        assert read(strange) is None, strange
    assert read(plain, plain) == [{"topic": "t", "offset": 0, "value": b"x"}] * 2
    assert FileTopics(tmp_path, "t").here(len(plain)) is None
