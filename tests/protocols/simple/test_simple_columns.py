"""Simple decoded in batches, in process: every golden message, any split into batches, and damaged messages."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from decoded_batches import Message, Said, batch, damaged, said
from differences import assert_messages_equal
from golden_data import Line, lines
from hypothesis import given, settings
from hypothesis import strategies as st

from tidecast.model import DataType, Kind, TableSchema
from tidecast.protocols import DecodeOptions
from tidecast.protocols.simple._avro import DML, beginning
from tidecast.protocols.simple._columns import SimpleDecoder
from tidecast.protocols.simple._read import SimpleReader

ZONE = "Asia/Shanghai"
RICH = ("simple-json-checksum", "simple-avro-checksum")
Golden = Callable[[str], Path]


def with_offsets(messages: list[Message]) -> pa.RecordBatch:
    return batch(messages).append_column("offset", pa.array(np.arange(len(messages))))


def messages_of(file: Path) -> tuple[list[Line], list[Message]]:
    found = lines(file)
    return found, [(None, base64.b64decode(line["value"])) for line in found]


def reader_of(messages: list[Message], zone: str = ZONE) -> SimpleReader:
    """Return a reader that knows the schemas of messages."""
    reader = SimpleReader(DecodeOptions(ordered=True, zone=zone))
    reader.controls(with_offsets(messages))
    return reader


@pytest.fixture(scope="module")
def both(golden: Golden) -> tuple[list[Message], SimpleDecoder]:
    """The messages of both encodings in one sequence, and their decoder."""
    messages = [
        one for pair in zip(*(messages_of(golden(f"{v}.jsonl.gz"))[1] for v in RICH), strict=True) for one in pair
    ]
    return messages, reader_of(messages).decoder


def members_of(value: bytes) -> dict[str, Any]:
    """Return a row's message as other readers see it."""
    if value.startswith(b"{"):
        members: dict[str, Any] = json.loads(value)
        return members
    stream = io.BytesIO(value[len(beginning(DML)) :])
    found: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(DML), return_record_name=True)
    assert not stream.read()
    return dict(found)


def typed(data_type: DataType, shown: Any) -> Any:
    """Return the value of the model that a message shows, as JSON or as Avro, written another way than ours."""
    if isinstance(shown, tuple):  # a record's name and its members
        shown = shown[1]["value"] if "Unsigned" in shown[0] else shown[1]
    match data_type.kind:
        case _ if shown is None:
            return None
        case Kind.TIMESTAMP:
            return utc(shown["value"], shown["location"])
        case Kind.INTEGER | Kind.YEAR:
            return int(shown) % 2**64 if data_type.unsigned and data_type.mysql_type == "bigint" else int(shown)
        case Kind.FLOAT:
            return float(np.float32(shown))
        case Kind.DOUBLE:
            return float(shown)
        case Kind.DECIMAL:
            return Decimal(shown) if 0 < data_type.length <= 38 else shown
        case Kind.BINARY:
            return shown if isinstance(shown, bytes) else base64.b64decode(shown)
        case Kind.BIT:
            return int(shown).to_bytes(max(1, (data_type.length + 7) // 8), "big")
        case Kind.ENUM:
            return ("", *data_type.elements)[int(shown)]
        case Kind.SET:
            return ",".join(e for n, e in enumerate(data_type.elements) if int(shown) >> n & 1)
    return shown


def utc(text: str, zone: str) -> str:
    seconds, point, fraction = text.partition(".")
    if seconds.startswith("0000"):
        return text
    local = dt.datetime.fromisoformat(seconds).replace(tzinfo=ZoneInfo(zone))
    return f"{local.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}{point}{fraction}"


def row_of(schema: TableSchema, shown: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if shown is None else {c.name: typed(c.data_type, shown.get(c.name)) for c in schema.columns}


@pytest.mark.parametrize("variant", ["simple-json", "simple-avro", *RICH])
def test_every_golden_row_is_what_other_readers_see(variant: str, golden: Golden) -> None:
    golden_lines, messages = messages_of(golden(f"{variant}.jsonl.gz"))
    reader = reader_of(messages)
    schemas = {schema.key: schema for schema in reader.history}
    found = said(reader.decoder.decode(batch(messages)))
    want, got = {}, {}
    for n, line in enumerate(golden_lines):
        if line["kind"] != "dml":
            assert found[n][0] == ("watermark" if line["kind"] == "watermark" else "control")
            continue
        members = members_of(messages[n][1] or b"")
        schema = schemas[members["database"], members["table"], members["schemaVersion"]]
        data, old = (row_of(schema, members.get(side)) for side in ("data", "old"))
        want[n] = (members["type"][0], int(line["commit_ts"]), data or old, old)
        got[n] = ({"c": "I", "u": "U", "d": "D"}[found[n][2]], found[n][3], found[n][1], found[n][8])
    assert_messages_equal(got, want, dict(enumerate(golden_lines)))
    assert len(want) > 2800


@pytest.mark.parametrize("variant", RICH)
def test_every_golden_row_fits_its_checksum(variant: str, golden: Golden) -> None:
    golden_lines, messages = messages_of(golden(f"{variant}.jsonl.gz"))
    found = said(reader_of(messages).decoder.decode(batch(messages)))
    twins = {m["n"]: m["expect"] for m in lines(golden("avro-checksum.jsonl.gz"))}
    wrong = {golden_lines[n]["n"] for n, words in found.items() if len(words) > 4 and words[4] == "mismatch"}
    sound = {golden_lines[n]["n"] for n, words in found.items() if len(words) > 4 and words[4] == "match"}
    assert wrong >= {n for n, expect in twins.items() if expect == "mismatch"}
    assert len(wrong) == 31
    assert len(sound) == 2238


@pytest.mark.parametrize("variant", ["simple-json-handlekey", "simple-avro-handlekey"])
def test_rows_of_handle_keys_alone_are_incomplete(variant: str, golden: Golden) -> None:
    _, messages = messages_of(golden(f"{variant}.jsonl.gz"))
    found = said(SimpleDecoder({}).decode(batch(messages)))
    assert {*found.values()} == {("incomplete-row", "only the handle key, or the place where the whole message lies")}


def test_columns_that_a_selector_kept_back_are_null(golden: Golden) -> None:
    golden_lines, messages = messages_of(golden("simple-json-colsel.jsonl.gz"))
    reader = reader_of(messages_of(golden("simple-json.jsonl.gz"))[1])
    schemas = {schema.key: schema for schema in reader.history}
    found = said(reader.decoder.decode(batch(messages)))
    for n, _ in enumerate(golden_lines):
        members = members_of(messages[n][1] or b"")
        schema = schemas[members["database"], members["table"], members["schemaVersion"]]
        data, old = (row_of(schema, members.get(side)) for side in ("data", "old"))
        assert (found[n][1], found[n][8], found[n][6]) == (data or old, old, None)


def test_rows_without_their_schema_say_which(golden: Golden) -> None:
    _, messages = messages_of(golden("simple-json-colsel.jsonl.gz"))
    found = said(SimpleDecoder({}).decode(batch(messages)))
    details = {
        f"no schema of orc.{t} in version {v}"
        for t, v in [("t_sel", 464041517349339138), ("t_all", 464041517300842498)]
    }
    assert {*found.values()} == {("unknown-table", detail) for detail in details}


def test_a_decoder_of_one_version_reads_its_rows_alone(both: tuple[list[Message], SimpleDecoder]) -> None:
    messages, decoder = both
    whole = batch(messages)
    read = decoder.decode(whole).rows
    for rows in read[::20]:
        alone = decoder.of(rows.version)
        (mine,) = [found for found in alone.decode(whole).rows if found.version.name == rows.version.name]
        assert len(alone.schemas) == 1 < len(decoder.schemas)
        assert (mine.at.tolist(), mine.data, mine.old) == (rows.at.tolist(), rows.data, rows.old)
    assert len(read) > 100


@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=6), seed=st.integers(0, 9))
def test_any_split_into_batches_says_the_same(
    cuts: list[int], seed: int, both: tuple[list[Message], SimpleDecoder]
) -> None:
    messages, decoder = both
    some = random.Random(seed).sample(messages, 400)
    whole = batch(some)
    parts: Said = {}
    for begin, end in pairwise(sorted({0, 400, *cuts})):
        parts |= said(decoder.decode(whole.slice(begin, end - begin)), begin)
    assert parts == said(decoder.decode(whole))


def test_damaged_messages_change_nothing_about_their_neighbours(both: tuple[list[Message], SimpleDecoder]) -> None:
    messages, decoder = both
    sound = said(decoder.decode(batch(messages)))
    r, passed = random.Random(7), 0
    for _ in range(3):
        mixed: list[Message] = []
        hurt: set[int] = set()
        for n, (key, value) in enumerate(messages):
            if r.random() < 0.4:
                hurt.add(n)
                mixed.append((key, damaged(r, value or b"?", 3)))
            else:
                mixed.append((key, value))
        damaged_batch = batch(mixed)
        found = said(decoder.decode(damaged_batch))
        assert found.keys() == sound.keys()
        assert {n: found[n] for n in found.keys() - hurt} == {n: sound[n] for n in sound.keys() - hurt}
        quick = said(decoder.decode(damaged_batch, values=False))
        assert {n: words[:1] for n, words in quick.items()} == {n: words[:1] for n, words in found.items()}
        # What is damaged, and still counts as a match, must be the same row.
        for n in hurt:
            if len(found[n]) > 4 and found[n][4] == "match" and len(sound[n]) > 4 and found[n][1] != sound[n][1]:
                passed += 1
    assert passed == 0
