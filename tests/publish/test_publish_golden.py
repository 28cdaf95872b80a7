"""Publishing a recorded Simple topic as Simple and as Debezium gives the golden messages, in their order.

All schema changes, bootstraps and watermarks, and the rows of the tables that show each kind of column and each rule of
the dispatchers: the bytes of all other rows are in test_simple_golden and test_debezium_golden.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from differences import assert_messages_equal
from full import full
from golden_data import ONE_OF_EACH, Line, lines, of_tables, toml
from golden_events import GoldenEvents

from tidecast.config import load_config
from tidecast.publish import publish
from tidecast.topics import open_topics

PARTITIONS = 3
CLOCK = re.compile(rb'("buildTs"|"ts_ms"):\d{13}(?=,"(?:schemaVersion|transaction|checksum|claim|data|old|table)|[,}])')

TABLES = ONE_OF_EACH | {("orc", name) for name in ("t_pk_str", "t_time", "t_uk_null")}

Place = tuple[str, int, int]
"""Topic, partition and place in it."""


@pytest.fixture(scope="module")
def suite(golden: Callable[[str], Path]) -> dict[str, Any]:
    return dict(json.loads(golden("suite.json").read_text()))


def without_clock(text: str | None) -> bytes:
    return CLOCK.sub(rb"\1:0", base64.b64decode(text or ""))


def statement(value: bytes) -> bytes:
    """Return a Debezium schema change's statement in its message's place: the rest of it has tests of its own."""
    payload = json.loads(value)["payload"] if value.startswith(b'{"payload"') else {}
    return str(payload["ddl"]).encode() if "ddl" in payload else value


def by_place(messages: list[Line]) -> dict[Place, Line]:
    """Return messages by partition and place in it, given in their order; some go to all partitions."""
    ends: Counter[tuple[str, int]] = Counter()
    found: dict[Place, Line] = {}
    for message in messages:
        for partition in range(PARTITIONS) if message["partition"] is None else [message["partition"]]:
            topic = message["topic"]
            found[topic, partition, ends[topic, partition]] = message
            ends[topic, partition] += 1
    return found


def contents(messages: dict[Place, Line]) -> dict[Place, tuple[bytes, bytes]]:
    """Return keys and values without the time at which they were made."""
    # TiCDC's producer sends the key that a row does not have as an empty one.
    return {
        place: (without_clock(message["key"]), statement(without_clock(message["value"])))
        for place, message in messages.items()
    }


@pytest.mark.parametrize("variant", ["simple-json", pytest.param("debezium-ext", marks=full)])
def test_publish_gives_the_golden_messages(
    variant: str, suite: dict[str, Any], decoded: GoldenEvents, golden: Callable[[str], Path], tmp_path: Path
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
        decoded("simple-json").only(TABLES),
        settings,
        open_topics(settings.place),
        zone=suite["time_zone"],
        cluster_id=suite["cluster_id"],
        dead_letters=tmp_path / "dead",
    )

    records = [r for part in sorted((tmp_path / "topics").glob("*/*.jsonl.gz")) for r in lines(part)]
    records.sort(key=lambda r: (r["topic"], r["partition"], r["offset"]))
    want = by_place(of_tables(lines(golden(f"{variant}.jsonl.gz")), TABLES))
    assert not result.dead_letters
    assert_messages_equal(contents(by_place(records)), contents(want), want)
