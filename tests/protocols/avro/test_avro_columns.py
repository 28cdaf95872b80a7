"""Avro decoded in batches, in process: every golden message, any split into batches, and damaged messages."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from decoded_batches import Message, Said, batch, damaged, said
from differences import assert_messages_equal
from golden_data import Line, lines
from hypothesis import given, settings
from hypothesis import strategies as st

from tidecast.protocols.avro._columns import AvroDecoder
from tidecast.registry import CONFLUENT, RegisteredSchema, header

ZONE = "Asia/Shanghai"


def decoder(schemas: Path) -> AvroDecoder:
    known = {header(s["id"]): RegisteredSchema(s["schema"], s["id"]) for s in lines(schemas)}
    return AvroDecoder(CONFLUENT, known, ZONE)


def messages_of(file: Path) -> tuple[list[Line], list[Message]]:
    def part(line: Line, name: str) -> bytes | None:
        return None if line[name] is None else base64.b64decode(line[name])

    found = lines(file)
    return found, [(part(line, "key"), part(line, "value")) for line in found]


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
                mixed.append((key, damaged(r, value, 5)) if value else (damaged(r, key or b"?", 5), value))
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
