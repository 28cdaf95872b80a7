"""The schema changes that `avro-enable-watermark` sends are the golden ones."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

from golden_data import lines

from tidecast.model import Ddl
from tidecast.protocols.avro import encode_ddl
from tidecast.protocols.simple import table_schema


def test_schema_changes_are_the_golden_messages(golden: Callable[[str], Path]) -> None:
    twins = {m["n"]: json.loads(base64.b64decode(m["value"])) for m in lines(golden("simple-json.jsonl.gz"))}
    wanted = [m for m in lines(golden("avro-watermark.jsonl.gz")) if m["kind"] == "ddl"]
    assert len(wanted) == 85
    for message in wanted:
        said = twins[message["n"]]
        schema = table_schema(json.dumps(said["tableSchema"])) if "tableSchema" in said else None
        got = encode_ddl(Ddl(said["type"], said["sql"], said["commitTs"], schema))
        assert got == base64.b64decode(message["value"]), said["sql"]


def test_the_number_of_an_action_that_no_golden_message_has() -> None:
    message = encode_ddl(Ddl("QUERY", "ALTER TABLE `d`.`t` REMOVE TTL", 1))
    assert json.loads(message[1:])["type"] == 67
