"""`convert` of a recorded Simple topic gives the golden Avro messages, byte for byte.

`avro-checksum`, the richest variant, from the topic's file and with all tables; the others, from its events, with the
tables that show each kind of column, or those that have a column selector.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from differences import assert_messages_equal
from full import full
from golden_data import ONE_OF_EACH_IN_AVRO, Line, lines, toml
from golden_events import GoldenEvents
from pyspark.sql import SparkSession

import tidecast

SOURCES = {
    "avro": "simple-json",
    "avro-ext": "simple-json",
    "avro-checksum": "simple-json-checksum",
    "avro-colsel": "simple-json",
}
FROM_FILE = "avro-checksum"

Place = tuple[str, int, int]
"""Topic, partition and place in it."""
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


def by_place(records: list[Line]) -> dict[Place, Line]:
    """Return messages by partition and place in it, given in their order."""
    ends: Counter[tuple[str, int]] = Counter()
    found: dict[Place, Line] = {}
    for record in records:
        partition = record["topic"], record["partition"]
        found[*partition, ends[partition]] = record
        ends[partition] += 1
    return found


def content(records: dict[Place, Line], schemas: dict[int, str]) -> dict[Place, Message]:
    return {place: message(record["key"], record["value"], schemas) for place, record in records.items()}


@pytest.mark.parametrize("variant", [pytest.param(v, marks=full if v in ("avro", "avro-ext") else ()) for v in SOURCES])
def test_convert_gives_the_golden_messages(
    variant: str, golden: Callable[[str], Path], decoded: GoldenEvents, tmp_path: Path, spark: SparkSession
) -> None:
    suite = json.loads(golden("suite.json").read_text())
    options = next(f["options"] for f in suite["files"] if f.get("variant") == variant)
    want = lines(golden(f"{variant}.jsonl.gz"))
    tables = {(m["db"], m["table"]) for m in want}
    if variant not in (FROM_FILE, "avro-colsel"):
        tables &= ONE_OF_EACH_IN_AVRO
        want = [m for m in want if (m["db"], m["table"]) in tables]
    subjects = {f"{re.sub('[^A-Za-z0-9_-]', '_', m['topic'])}-{part}" for m in want for part in ("key", "value")}
    want_schemas = [s for s in lines(golden(f"{variant}.schemas.jsonl.gz")) if s["subject"] in subjects]
    registry = tmp_path / "registry"
    registry.mkdir()
    (registry / "config.json").write_text('{"compatibility": "NONE"}')
    config = tmp_path / "changefeed.toml"
    config.write_text(toml(options))
    parameters = {"protocol": "avro", "format": "jsonl", "partition-num": "3", **options["uri_params"]}
    sink = f"file://{tmp_path}/topics/{options['default_topic']}?{urlencode(parameters)}"
    settings = {"config": str(config), "schema_registry": f"file://{registry}", "tz": suite["time_zone"]}

    if variant == FROM_FILE:
        source = f"file://{golden(f'{SOURCES[variant]}.jsonl.gz')}?protocol=simple"
        result = tidecast.convert(source, sink, spark=spark, **settings)
    else:
        result = tidecast.convert(decoded(SOURCES[variant]).only(tables), sink, **settings)

    records = [r for part in sorted((tmp_path / "topics").glob("*/*.jsonl.gz")) for r in lines(part)]
    records.sort(key=lambda r: (r["topic"], r["partition"], r["offset"]))
    versions = [
        (f.parent.name, json.loads(f.read_text()))
        for f in registry.glob("subjects/*/*.json")
        if f.name != "config.json"
    ]
    assert not result.dead_letters
    got, expected = by_place(records), by_place(want)
    assert {place: record["offset"] for place, record in got.items()} == {place: place[2] for place in got}
    assert_messages_equal(
        content(got, {version["id"]: version["schema"] for _, version in versions}),
        content(expected, {s["id"]: s["schema"] for s in want_schemas}),
        expected,
    )
    assert sorted((subject, v["version"], v["schema"]) for subject, v in versions) == sorted(
        (s["subject"], s["version"], s["schema"]) for s in want_schemas
    )
    assert result.total == len(want)
