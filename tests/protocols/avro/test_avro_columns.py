"""Avro decoded in batches, in process: every golden message, any split into batches, and damaged messages."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from differences import assert_messages_equal
from golden_data import Line, lines
from hypothesis import given, settings
from hypothesis import strategies as st

from tidecast.checksum import verdicts
from tidecast.protocols import Decoded
from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.registry import CONFLUENT, RegisteredSchema, header

ZONE = "Asia/Shanghai"
Message = tuple[bytes | None, bytes | None]
Said = dict[int, tuple[Any, ...]]
"""What is said of each message, by its place."""


def decoder(schemas: Path) -> AvroDecoder:
    known = {header(s["id"]): RegisteredSchema(s["schema"], s["id"]) for s in lines(schemas)}
    return AvroDecoder(CONFLUENT, known, ZONE)


def messages_of(file: Path) -> tuple[list[Line], list[Message]]:
    def part(line: Line, name: str) -> bytes | None:
        return None if line[name] is None else base64.b64decode(line[name])

    found = lines(file)
    return found, [(part(line, "key"), part(line, "value")) for line in found]


def batch(messages: Sequence[Message]) -> pa.RecordBatch:
    columns = zip(*messages, strict=True) if messages else ((), ())
    return pa.RecordBatch.from_arrays([pa.array(c, pa.binary()) for c in columns], names=["key", "value"])


def said(decoded: Decoded, first: int = 0) -> Said:
    """Return what is said of each message; each must be in one part, and in that once."""
    found: Said = {}

    def say(at: np.ndarray, *columns: Sequence[Any]) -> None:
        for place, *words in zip((at + first).tolist(), *columns, strict=True):
            assert place not in found
            found[place] = tuple(words)

    for rows in decoded.rows:
        schema = rows.version.schema
        judged = verdicts(schema, op=rows.op, old=rows.old, data=rows.data, checksum=rows.checksum, reason=rows.reason)
        good = np.asarray(rows.reason.is_null())
        images = [row if kept else None for row, kept in zip(rows.image.to_pylist(), good, strict=True)]
        columns = (rows.op, rows.commit_ts, judged.verdict, judged.actual, rows.reason, rows.detail)
        texts = [
            [value if kept else None for value, kept in zip(c.to_pylist(), good | (n > 3), strict=True)]
            for n, c in enumerate(columns)
        ]
        say(rows.at, [rows.version.name] * len(rows.at), images, *texts)
    for part in decoded.rejected:
        say(part.at, part.reason.to_pylist(), part.detail.to_pylist())
    say(decoded.control, ["control"] * len(decoded.control))
    at, times = decoded.watermarks
    say(at, ["watermark"] * len(at), times.tolist())
    for name, at in decoded.unknown:
        say(at, [name] * len(at))
    return found


@pytest.fixture(scope="module")
def sums(golden: Callable[[str], Path]) -> AvroDecoder:
    """The decoder of messages with checksums."""
    return decoder(golden("avro-checksum.schemas.jsonl.gz"))


@pytest.mark.parametrize("variant", ["avro-checksum", "avro-checksum-corrupt"])
def test_every_golden_row_has_the_verdict_that_it_must_have(
    variant: str, golden: Callable[[str], Path], sums: AvroDecoder
) -> None:
    golden_lines, messages = messages_of(golden(f"{variant}.jsonl.gz"))
    found = said(sums.decode(batch(messages)))
    expected = {n: m.get("expect", "mismatch") for n, m in enumerate(golden_lines)}
    got = {n: "none" if words[4] == "delete" else words[4] for n, words in found.items()}
    assert_messages_equal(got, expected, dict(enumerate(golden_lines)))
    assert len(expected) >= 80


@pytest.mark.parametrize("variant", ["avro", "avro-ext", "avro-colsel", "avro-ext-uknull"])
def test_every_golden_message_of_every_variant_is_read(variant: str, golden: Callable[[str], Path]) -> None:
    golden_lines, messages = messages_of(golden(f"{variant}.jsonl.gz"))
    found = said(decoder(golden(f"{variant}.schemas.jsonl.gz")).decode(batch(messages)))
    assert found.keys() == set(range(len(messages)))
    empty = {n for n, (key, value) in enumerate(messages) if not key and not value}
    assert {n for n, words in found.items() if len(words) == 2} == empty
    assert not [words for words in found.values() if len(words) > 2 and words[6]]
    for n, line in enumerate(golden_lines):
        if n not in empty and line["kind"] == "dml":
            assert found[n][2] == ("d" if messages[n][1] is None else found[n][2])


def test_schema_changes_and_watermarks_are_told_apart(golden: Callable[[str], Path]) -> None:
    golden_lines, messages = messages_of(golden("avro-watermark.jsonl.gz"))
    found = said(AvroDecoder(CONFLUENT, {}).decode(batch(messages)))
    kinds = {"ddl": "control", "watermark": "watermark"}
    assert {n: words[0] for n, words in found.items()} == {n: kinds[m["kind"]] for n, m in enumerate(golden_lines)}
    times = {n: words[1] for n, words in found.items() if words[0] == "watermark"}
    assert times == {n: int(golden_lines[n]["commit_ts"]) for n in times}


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=6), seed=st.integers(0, 9))
def test_any_split_into_batches_says_the_same(
    cuts: list[int], seed: int, golden: Callable[[str], Path], sums: AvroDecoder
) -> None:
    _, messages = messages_of(golden("avro-checksum.jsonl.gz"))
    some = random.Random(seed).sample(messages, 400)
    whole = batch(some)
    parts: Said = {}
    for begin, end in pairwise(sorted({0, 400, *cuts})):
        parts |= said(sums.decode(whole.slice(begin, end - begin)), begin)
    assert parts == said(sums.decode(whole))


def damaged(r: random.Random, message: bytes) -> bytes:
    """Return a message with flipped bits, without its end or its middle, or with more behind or within it."""
    kind, at = r.randrange(5), r.randrange(len(message))
    match kind:
        case 0:
            return message[:at]
        case 1:
            return message[:at] + bytes([message[at] ^ 1 << r.randrange(8)]) + message[at + 1 :]
        case 2:
            return message + r.randbytes(r.randrange(1, 9))
        case 3:
            return message[:at] + r.randbytes(r.randrange(1, 12)) + message[at:]
        case _:
            return message[:5] + r.randbytes(r.randrange(40))


def test_damaged_messages_change_nothing_about_their_neighbours(
    golden: Callable[[str], Path], sums: AvroDecoder
) -> None:
    _, messages = messages_of(golden("avro-checksum.jsonl.gz"))
    sound = said(sums.decode(batch(messages)))
    r, passed = random.Random(7), 0
    for _ in range(6):
        mixed: list[Message] = []
        hurt: set[int] = set()
        for n, (key, value) in enumerate(messages):
            if r.random() < 0.4:
                hurt.add(n)
                mixed.append((key, damaged(r, value)) if value else (damaged(r, key or b"?"), value))
            else:
                mixed.append((key, value))
        found = said(sums.decode(batch(mixed)))
        assert found.keys() == sound.keys()
        assert {n: found[n] for n in found.keys() - hurt} == {n: sound[n] for n in sound.keys() - hurt}
        # What is damaged, and still counts as a match, must be the same row.
        for n in hurt:
            if len(found[n]) > 4 and found[n][4] == "match":
                passed += 1
                assert found[n][1] == sound[n][1]
    assert passed < 200
