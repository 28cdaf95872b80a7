"""Messages of Debezium as Avro that are damaged, of other schemas, or cut into batches anyhow."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from debezium_avro import (
    COMMIT_TS,
    KEYS,
    NOTHING,
    READ,
    VALUES,
    WRITTEN,
    Json,
    Subject,
    decoder,
    envelope,
    optional,
    read,
    record,
    required,
    row,
    semantic,
)
from debezium_native import (
    CUSTOMER_KEYS,
    CUSTOMERS,
    NATIVE_ORIGIN,
    NATIVE_ROW,
    NATIVE_SOURCE,
    maybe,
    native,
    native_envelope,
    native_row,
    plain,
)
from decoded_batches import Message, batch, damaged, said
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidecast.model import Column, DataType, Ddl, Reason, TableSchema
from tidecast.protocols import CodecOptions, DecodeOptions, codec_for
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder
from tidecast.protocols.debezium.avro._read import DebeziumAvroReader
from tidecast.registry import header, open_registry


@pytest.mark.parametrize(
    ("content", "reason", "detail"),
    [
        (row("x", None, WRITTEN), Reason.BAD_MESSAGE, "unknown op 'x'"),
        (row("t", WRITTEN, None), Reason.BAD_MESSAGE, "op 't' with a row"),
        (row("c", None, WRITTEN, commit_ts=-1), Reason.BAD_VALUE, "commit_ts is no time"),
        (row("c", None, WRITTEN, commit_ts=2**62), Reason.BAD_VALUE, "commit_ts is no time"),
    ],
)
def test_what_is_wrong_with_an_envelope_is_told(content: Json, reason: Reason, detail: str) -> None:
    messages: list[Message] = [(None, VALUES.message(content)), (None, VALUES.message(row("c", None, WRITTEN)))]
    found = read(messages, VALUES)
    assert found[0] == (str(reason), detail)
    assert found[1][1] == READ


@pytest.mark.parametrize(
    ("content", "reason", "detail"),
    [
        (row("c", WRITTEN, None), Reason.BAD_MESSAGE, "the row is missing"),
        (row("d", None, WRITTEN), Reason.BAD_MESSAGE, "the row is missing"),
        (row("c", None, WRITTEN | {"us": "-1"}), Reason.BAD_VALUE, "not of its column's type: us"),
        (row("u", WRITTEN | {"ts": "now"}, WRITTEN), Reason.BAD_VALUE, "not of its column's type: ts"),
        (row("c", None, WRITTEN | {"bits": b"123"}), Reason.BAD_VALUE, "not of its column's type: bits"),
        (row("c", None, WRITTEN | {"ns": "1e5"}), Reason.BAD_VALUE, "not of its column's type: ns"),
    ],
)
def test_what_is_wrong_with_a_row_is_told(content: Json, reason: Reason, detail: str) -> None:
    good = row("c", None, WRITTEN)
    messages: list[Message] = [(None, VALUES.message(c)) for c in (good, content, good)]
    found = read(messages, VALUES)
    assert found[1][6:8] == (str(reason), detail)
    assert (found[0][1], found[2][1]) == (READ, READ)


def test_a_record_that_its_schema_does_not_describe_is_told() -> None:
    flags = Subject(2, envelope([required("flag", "boolean")]))
    good = flags.message(row("c", None, {"flag": True}))
    strange = good[:7] + b"\2" + good[8:]  # neither true nor false, within the row after
    assert flags.content(good)["after"] == {"flag": True}
    messages: list[Message] = [(None, one) for one in (good, strange, good + b"more", good[:-1])]
    delete = (None, flags.message(row("d", {"flag": True}, None)))
    for some in (messages, [*messages, delete]):
        found = read(some, flags)
        assert found[0][1] == {"flag": b"\1"}
        problem = (str(Reason.UNDECODABLE), "not a record of schema id 2")
        assert [found[n] for n in (1, 2, 3)] == [problem] * 3


def test_damaged_schema_changes_and_watermarks_end_no_run(tmp_path: Path) -> None:
    """Each is a schema change, a watermark, or rejected, as it is."""
    registry = open_registry(f"file://{tmp_path}")
    codec = codec_for("debezium-avro", CodecOptions(enable_tidb_extension=True, avro_enable_watermark=True), registry)
    columns = (Column("id", DataType("int", length=11), nullable=False),)
    shown = TableSchema("shop", "t", 0, 1, columns)
    ((_, change),) = codec.ddl(Ddl("CREATE", "CREATE TABLE `shop`.`t` (`id` INT)", COMMIT_TS, shown))
    assert codec.watermark is not None
    reader = DebeziumAvroReader(DecodeOptions(registry=registry))
    r, both = random.Random(5), (change, codec.watermark(COMMIT_TS)[1])
    values = [*both, *(damaged(r, r.choice(both), 5) for _ in range(600))]
    messages = batch([(None, value) for value in values])
    reader.learn([name for name, _ in reader.decoder.decode(messages).unknown])
    messages = messages.append_column("offset", pa.array(range(len(values)), pa.int64()))
    found = reader.decoder.decode(messages)
    told = reader.controls(messages.take(pa.array(found.control)))
    assert len(told.ddl) + sum(len(part.at) for part in told.rejected) <= len(found.control)
    assert said(found).keys() == {*range(len(values))}
    assert (said(found)[0], said(found)[1]) == (("control",), ("watermark", COMMIT_TS))


@pytest.mark.parametrize(
    ("number", "fits"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_a_number_beyond_its_column_is_a_bad_value(number: int, fits: bool) -> None:
    subject = Subject(2, envelope([optional("n", "long", tidb_type="int")]))
    ((*_, reason, _, _),) = read([(None, subject.message(row("c", None, {"n": number})))], subject).values()
    assert reason == (None if fits else str(Reason.BAD_VALUE))


GEOMETRY = native("io.debezium.data.geometry.Geometry", [plain("wkb", "bytes"), maybe("srid", "int")])
NOT_DEBEZIUMS: list[tuple[Any, str]] = [
    ("string", "it is no record"),
    (record("a.b", [required("id", "int")]), "it has no field op and source, so it is no envelope of Debezium's"),
    (native_envelope([plain("g", GEOMETRY)]), "its column g is of type io.debezium.data.geometry.Geometry"),
    (native_envelope([plain("g", ["int", "string"])]), "its field g is a union of several types"),
    (native_envelope([plain("g", {"type": "array", "items": "int"})]), "its field g is of type array"),
    (native_envelope([plain("g", semantic("string", "io.debezium.time.IsoDate"))]), "its column g is of type io.deb"),
    (envelope([required("g", "int"), required("g", "long")]), "it has two fields of one name in t"),
    (envelope([optional("g", "string", tidb_type="date")]), "its column g is a date and of Avro's type string"),
]


@pytest.mark.parametrize(("schema", "why"), NOT_DEBEZIUMS)
def test_a_foreign_schema_says_which_field_is_why(schema: Any, why: str) -> None:
    known = decoder(VALUES)
    text = json.dumps(schema)
    known = DebeziumAvroDecoder(known.framing, {header(9): known.schemas[header(2)]._replace(text=text)})  # type: ignore[union-attr]
    ((reason, detail),) = said(known.decode(batch([(None, header(9) + b"x")]))).values()
    assert reason == str(Reason.FOREIGN_SCHEMA)
    assert detail.startswith(f"schema id 9 is not one of Debezium's: {why}")


def test_unknown_ids_and_strange_framing_are_told() -> None:
    message = VALUES.message(row("c", None, WRITTEN))
    assert read([(None, message)]) == {0: (header(2),)}
    lacking = DebeziumAvroDecoder(decoder().framing, {header(2): None})
    assert said(lacking.decode(batch([(None, message)]))) == {
        0: (str(Reason.UNKNOWN_SCHEMA_ID), "the registry knows no schema id 2")
    }
    found = read([(b"{}", message), (None, b"\0\0"), (None, None)], VALUES)
    assert [found[n][0] for n in range(3)] == [str(r) for r in (Reason.BAD_MAGIC, Reason.TRUNCATED, Reason.BAD_MESSAGE)]


def messages_of_all_kinds() -> list[Message]:
    ops = [("c", None, WRITTEN), ("u", WRITTEN, NOTHING), ("d", NOTHING, None), ("u", None, WRITTEN)]
    mine: list[Message] = [
        (KEYS.message({"id": n}), VALUES.message(row(op, before, after, commit_ts=COMMIT_TS + n)))
        for n, (op, before, after) in enumerate(ops * 5)
    ]
    theirs: list[Message] = [
        (CUSTOMER_KEYS.message({"id": n}), CUSTOMERS.message(native_row("r", None, NATIVE_ROW | {"id": n})))
        for n in range(9)
    ]
    return [one for pair in zip(mine, theirs, strict=False) for one in pair] + mine[9:]


ALL = (KEYS, VALUES, CUSTOMER_KEYS, CUSTOMERS)


def _comparable(found: dict[int, Any]) -> dict[int, str]:
    """Damage may make a NaN, which equals nothing."""
    return {n: repr(words) for n, words in found.items()}


@settings(max_examples=30, deadline=None)
@example(cuts=[], seed=39604, odd=6)
@given(cuts=st.lists(st.integers(0, 40), max_size=5), seed=st.integers(0, 10**6), odd=st.integers(0, 6))
def test_any_split_into_batches_says_the_same_of_damaged_messages(cuts: list[int], seed: int, odd: int) -> None:
    r, messages = random.Random(seed), messages_of_all_kinds()
    for place in r.sample(range(len(messages)), odd):
        key_bytes, value = messages[place]
        assert value is not None
        messages[place] = (key_bytes, damaged(r, value, 5))
    known = decoder(*ALL)
    whole = said(known.decode(batch(messages)))
    ends = sorted({0, *(min(cut, len(messages)) for cut in cuts), len(messages)})
    parts: dict[int, Any] = {}
    for start, end in pairwise(ends):
        parts |= said(known.decode(batch(messages[start:end])), start)
    assert _comparable(parts) == _comparable(whole)
    kinds = {n: len(words) for n, words in whole.items()}
    assert {n: len(words) for n, words in said_without_values(known, messages).items()} == kinds


def said_without_values(known: DebeziumAvroDecoder, messages: list[Message]) -> dict[int, Any]:
    return said(known.decode(batch(messages), values=False))


def test_no_damage_changes_other_rows() -> None:
    r, known = random.Random(3), decoder(*ALL)
    messages = messages_of_all_kinds()
    sound = said(known.decode(batch(messages)))
    for _ in range(300):
        place = r.randrange(len(messages))
        key_bytes, value = messages[place]
        assert value is not None
        spoiled = [*messages]
        spoiled[place] = (key_bytes, damaged(r, value, 5))
        found = said(known.decode(batch(spoiled)))
        assert {n: words for n, words in found.items() if n != place} == {
            n: words for n, words in sound.items() if n != place
        }


def test_a_version_is_read_by_its_own_schemas_alone() -> None:
    messages = messages_of_all_kinds()
    known = decoder(*ALL)
    for rows in known.decode(batch(messages)).rows:
        own = known.of(rows.version)
        assert len(own.schemas) == 2
        chosen = [messages[n] for n in rows.at]
        (again,) = own.decode(batch(chosen)).rows
        assert again.data.equals(rows.data)
        assert again.version.name == rows.version.name


def test_unknown_schemas_are_asked_for_and_nothing_is_read_twice() -> None:
    messages, known = messages_of_all_kinds(), decoder(*ALL)
    first = decoder(CUSTOMER_KEYS, CUSTOMERS, KEYS).decode(batch(messages))
    ((name, places),) = first.unknown
    assert name == header(2)
    second = said(known.only(frozenset([name])).decode(batch(messages)))
    assert second.keys() == {*places.tolist()}


def test_a_batch_without_messages_is_nothing() -> None:
    found = decoder(*ALL).decode(batch([]))
    assert (found.rows, found.rejected, found.control.tolist(), found.unknown) == ([], [], [], [])
    assert found.watermarks[0].dtype == found.watermarks[1].dtype == pa.int64().to_pandas_dtype()


def test_differences_of_before_and_after_are_refused() -> None:
    fields = [
        maybe("before", record("a.B", [required("x", "int")])),
        maybe("after", record("a.A", [required("x", "string")])),
        plain("source", NATIVE_SOURCE),
        plain("op", "string"),
    ]
    subject = Subject(1, record("a.E", fields))
    content = {"before": None, "after": {"x": "1"}, "source": NATIVE_ORIGIN, "op": "c"}
    ((_, detail),) = read([(None, subject.message(content))], subject).values()
    assert "before and after are of different records" in detail
