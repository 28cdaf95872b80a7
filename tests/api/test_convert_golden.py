"""`convert` of a recorded Simple topic gives the golden Avro messages, byte for byte."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from golden_data import lines, toml
from pyspark.sql import SparkSession

import tidecast

SOURCES = {
    "avro": "simple-json",
    "avro-ext": "simple-json",
    "avro-checksum": "simple-json-checksum",
    "avro-colsel": "simple-json",
}

Message = tuple[str | None, bytes, str | None, bytes | None]


def message(key: str | None, value: str | None, schemas: dict[int, str]) -> Message:
    """Put a schema's text in the place of its id."""

    def part(text: str | None) -> tuple[str | None, bytes | None]:
        if text is None:
            return None, None
        data = base64.b64decode(text)
        assert data[0] == 0
        return schemas[int.from_bytes(data[1:5], "big")], data[5:]

    key_schema, key_body = part(key)
    assert key_body is not None
    return (key_schema, key_body, *part(value))


def by_partition(records: list[dict[str, Any]], schemas: dict[int, str]) -> dict[tuple[str, int], list[Message]]:
    found: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for record in records:
        found[record["topic"], record["partition"]].append(message(record["key"], record["value"], schemas))
    return found


@pytest.mark.parametrize("variant", SOURCES)
def test_convert_gives_the_golden_messages(
    variant: str, golden: Callable[[str], Path], tmp_path: Path, spark: SparkSession
) -> None:
    suite = json.loads(golden("suite.json").read_text())
    options = next(f["options"] for f in suite["files"] if f.get("variant") == variant)
    want_schemas = lines(golden(f"{variant}.schemas.jsonl.gz"))
    want = lines(golden(f"{variant}.jsonl.gz"))
    registry = tmp_path / "registry"
    registry.mkdir()
    (registry / "config.json").write_text('{"compatibility": "NONE"}')
    config = tmp_path / "changefeed.toml"
    config.write_text(toml(options))
    parameters = {"protocol": "avro", "format": "jsonl", "partition-num": "3", **options["uri_params"]}

    result = tidecast.convert(
        f"file://{golden(f'{SOURCES[variant]}.jsonl.gz')}?protocol=simple",
        f"file://{tmp_path}/topics/{options['default_topic']}?{urlencode(parameters)}",
        config=str(config),
        schema_registry=f"file://{registry}",
        tz=suite["time_zone"],
        spark=spark,
    )

    records = [r for part in sorted((tmp_path / "topics").glob("*/*.jsonl.gz")) for r in lines(part)]
    assert not result.dead_letters
    topics = {r["topic"] for r in want}
    if variant == "avro-colsel":  # this golden file holds the tables with a selector, and no others
        records = [r for r in records if r["topic"] in topics]
    records.sort(key=lambda r: (r["topic"], r["partition"], r["offset"]))
    versions = [
        (f.parent.name, json.loads(f.read_text()))
        for f in registry.glob("subjects/*/*.json")
        if f.name != "config.json"
    ]
    ids = {said["id"]: said["schema"] for _, said in versions}
    got = by_partition(records, ids)
    expected = by_partition(want, {s["id"]: s["schema"] for s in want_schemas})

    assert {r["offset"] for r in records if (r["topic"], r["partition"]) == max(got, key=lambda k: len(got[k]))} == set(
        range(max(map(len, got.values())))
    )
    assert got.keys() == expected.keys()
    for place in expected:
        assert got[place] == expected[place], place
    subjects = {s["subject"] for s in want_schemas}
    assert sorted((n, v["version"], v["schema"]) for n, v in versions if n in subjects) == sorted(
        (s["subject"], s["version"], s["schema"]) for s in want_schemas
    )
    if variant != "avro-colsel":
        assert {name for name, _ in versions} == subjects
        assert result.total == len(want)
