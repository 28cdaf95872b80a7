"""Publishing a recorded Simple topic as Simple and as Debezium gives the golden messages, in their order."""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from golden_data import lines, toml
from pyspark.sql import SparkSession

from tidecast.config import load_config
from tidecast.model import Events
from tidecast.protocols import simple
from tidecast.publish import publish
from tidecast.sources import read_records
from tidecast.topics import open_topics

PARTITIONS = 3
CLOCK = re.compile(rb'("buildTs"|"ts_ms"):\d{13}(?=,"(?:schemaVersion|transaction|checksum|claim|data|old|table)|[,}])')

Message = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def suite(golden: Callable[[str], Path]) -> dict[str, Any]:
    return dict(json.loads(golden("suite.json").read_text()))


@pytest.fixture(scope="module")
def events(golden: Callable[[str], Path], suite: dict[str, Any], spark: SparkSession) -> Iterator[Events]:
    records, _ = read_records(spark, f"file://{golden('simple-json.jsonl.gz')}?protocol=simple")
    with simple.decode(records.frame, ordered=True, zone=suite["time_zone"]) as read:
        yield read


def without_clock(text: str | None) -> bytes:
    return CLOCK.sub(rb"\1:0", base64.b64decode(text or ""))


def statement(value: bytes) -> bytes:
    """Return a Debezium schema change's statement in its message's place: the rest of it has tests of its own."""
    payload = json.loads(value)["payload"] if value.startswith(b'{"payload"') else {}
    return str(payload["ddl"]).encode() if "ddl" in payload else value


def never_sent(variant: str, suite: dict[str, Any], golden: Callable[[str], Path]) -> set[bytes]:
    """Return the commit-ts of the rows over which TiCDC's own encoder fell: they have no golden message."""
    fell = {e["n"] for e in suite["encoder_errors"] if e["variant"] == variant}
    source = lines(golden("simple-json.jsonl.gz"))
    assert {m["table"] for m in source if m["n"] in fell} <= {"t_datedef"}
    return {b'"table":"t_datedef".*"commit_ts":%d,' % int(m["commit_ts"]) for m in source if m["n"] in fell}


def told(messages: list[dict[str, Any]]) -> dict[tuple[str, int], list[Message]]:
    """Return the messages of each partition, in order, without the time at which they were made."""
    found: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for message in messages:
        key, value = without_clock(message["key"]), statement(without_clock(message["value"]))
        # TiCDC's producer sends the key that a row does not have as an empty one.
        places = range(PARTITIONS) if message["partition"] is None else [message["partition"]]
        for partition in places:
            found[message["topic"], partition].append((key, value))
    return found


@pytest.mark.parametrize("variant", ["simple-json", "debezium-ext"])
def test_publish_gives_the_golden_messages(
    variant: str, suite: dict[str, Any], events: Events, golden: Callable[[str], Path], tmp_path: Path
) -> None:
    options = next(f["options"] for f in suite["files"] if f.get("variant") == variant)
    config = tmp_path / "changefeed.toml"
    config.write_text(("force-replicate = true\n" if options["force_replicate"] else "") + toml(options))
    parameters = {
        "protocol": variant.partition("-")[0],
        "format": "jsonl",
        "partition-num": str(PARTITIONS),
        **options["uri_params"],
    }
    settings = load_config(f"file://{tmp_path}/topics/{options['default_topic']}?{urlencode(parameters)}", config)

    result = publish(
        events,
        settings,
        open_topics(settings.place),
        zone=suite["time_zone"],
        cluster_id=suite["cluster_id"],
        dead_letters=tmp_path / "dead",
    )

    records = [r for part in sorted((tmp_path / "topics").glob("*/*.jsonl.gz")) for r in lines(part)]
    records.sort(key=lambda r: (r["topic"], r["partition"], r["offset"]))
    got, want = told(records), told(lines(golden(f"{variant}.jsonl.gz")))
    unsent = [re.compile(pattern) for pattern in never_sent(variant, suite, golden)]
    for place, messages in got.items():
        got[place] = [m for m in messages if m in want[place] or not any(u.search(m[1]) for u in unsent)]
    assert not result.dead_letters
    assert got.keys() == want.keys()
    for place in want:
        assert got[place] == want[place], place
