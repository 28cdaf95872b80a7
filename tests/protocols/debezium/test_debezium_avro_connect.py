"""The golden JSON messages, made Avro by a converter of Kafka Connect, are read as they are themselves."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from decoded_batches import Message, batch
from golden_data import lines
from java_program import Ask, compiled

from tidecast.protocols import Rows
from tidecast.protocols.debezium._columns import DebeziumDecoder
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import Said
from tidecast.protocols.debezium.avro._columns import DebeziumAvroDecoder
from tidecast.registry import CONFLUENT, RegisteredSchema, header

Json = dict[str, Any]
Golden = Callable[[str], Path]
REFUSED = {"Cannot create field because of field name duplication", "Illegal character in", "Illegal initial character"}
"""What Kafka Connect says of virtual columns, which TiCDC declares twice, and Avro of names that it does not allow."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """The Java program, compiled: the schema and the record for each JSON message."""
    return compiled("ToAvro", "to-avro.jars", tmp_path_factory.mktemp("classes"))


class Registered:
    """Schemas with ids in the order in which they come, and messages framed by them."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def message(self, answer: str) -> bytes:
        """Return a message as a producer sends it."""
        schema, record = (base64.b64decode(part) for part in answer.split(" "))
        return header(self._ids.setdefault(schema.decode(), len(self._ids) + 1)) + record

    def decoder(self) -> DebeziumAvroDecoder:
        """Return a decoder that knows all of them."""
        known = {header(number): RegisteredSchema(text, number) for text, number in self._ids.items()}
        return DebeziumAvroDecoder(CONFLUENT, known)


def as_theirs(value: bytes) -> bytes:
    """Return a message of TiCDC's as one of Debezium's own connector, which knows no commit-ts."""
    message = json.loads(value)
    origin = message["payload"]["source"]
    message["payload"]["source"] = {n: v for n, v in origin.items() if n not in ("commit_ts", "cluster_id")}
    message["payload"]["source"]["connector"] = "mysql"
    return json.dumps(message).encode()


def by_place(groups: Sequence[Rows], *, without: frozenset[str] = frozenset()) -> dict[int, tuple[Any, ...]]:
    """Return what is read of each message: table, key, columns, operation, and the rows before and after."""
    found = {}
    for rows in groups:
        assert rows.reason.null_count == len(rows.at), rows.detail
        schema = rows.version.schema
        columns = [(c.name, str(c.data_type), c.nullable, c.default) for c in schema.columns if c.name not in without]
        sides = [
            [row and {n: v for n, v in row.items() if n not in without} for row in c.to_pylist()]
            for c in (rows.old, rows.data)
        ]
        for at, *said in zip(rows.at.tolist(), rows.op.to_pylist(), *sides, strict=True):
            found[at] = (schema.name, schema.handle_key, columns, *said)
    return found


@pytest.mark.kafka
def test_what_the_converter_writes_is_read_as_the_json_is(golden: Golden, ask: Ask) -> None:
    found = lines(golden("debezium.jsonl.gz"))
    json_messages = [(base64.b64decode(m["key"]), as_theirs(base64.b64decode(m["value"]))) for m in found]
    answers = ask([base64.b64encode(part).decode() for message in json_messages for part in message])
    registered, messages, kept = Registered(), list[Message](), list[Message]()
    for place, message in enumerate(json_messages):
        pair = answers[2 * place : 2 * place + 2]
        if wrong := [answer for answer in pair if answer.startswith("error: ")]:
            assert any(words in wrong[0] for words in REFUSED), wrong[0]
            continue
        key, value = map(registered.message, pair)
        messages.append((key, value))
        kept.append(message)
    assert len(kept) > 0.8 * len(found)
    decoded = registered.decoder().decode(batch(messages))
    assert (decoded.rejected, decoded.unknown) == ([], [])
    offsets = pa.array(range(len(kept)), pa.int64())
    wanted = DebeziumDecoder(Known(ordered=False)).decode(batch(kept).append_column("offset", offsets))
    # The converter turns defaults beyond a long, as TiCDC writes them, into others. In JSON they tell the sign.
    large = frozenset({"c_big", "c_ubig"})
    assert by_place(decoded.rows, without=large) == by_place(wanted.rows, without=large)
    assert decoded.control.tolist() == wanted.control.tolist()

    told = [json.loads(kept[at][1] or b"")["payload"] for at in wanted.control]
    said = [registered.decoder().said(messages[at][1] or b"") for at in decoded.control]
    payloads = [one.payload if isinstance(one, Said) else None for one in said]
    assert [p and (p["ddl"], p["tableChanges"]) for p in payloads] == [(p["ddl"], p["tableChanges"]) for p in told]


FORMS: list[tuple[Json, Any]] = [
    ({"type": "int32", "optional": False, "field": "id"}, 1),
    ({"type": "bytes", "optional": True, "field": "raw", "default": "AP8="}, "AP8B"),
    (
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "field": "price",
        },
        "+zI=",
    ),
    ({"type": "boolean", "optional": False, "field": "flag", "default": True}, False),
    (
        {
            "type": "bytes",
            "optional": True,
            "name": "io.debezium.data.Bits",
            "version": 1,
            "parameters": {"length": "12"},
            "field": "bits",
        },
        "AQo=",
    ),
    *(
        (
            {
                "type": kind,
                "optional": True,
                "name": f"org.apache.kafka.connect.data.{name}",
                "version": 1,
                "field": name,
            },
            value,
        )
        for name, kind, value in (
            ("Date", "int32", 19691),
            ("Time", "int32", 45296123),
            ("Timestamp", "int64", 1701347696123),
        )
    ),
    ({"type": "string", "optional": False, "field": "v", "default": "<x>"}, "y"),
]
"""What Debezium's connector writes, and TiCDC does not."""


@pytest.mark.kafka
def test_forms_that_only_debeziums_own_connector_has(golden: Golden, ask: Ask) -> None:
    (line, *_) = (m for m in lines(golden("debezium.jsonl.gz")) if m["kind"] == "dml" and m["op"] == "insert")
    message = json.loads(as_theirs(base64.b64decode(line["value"])))
    message["payload"]["after"] = {form["field"]: value for form, value in FORMS}
    for side in message["schema"]["fields"][:2]:
        side["fields"] = [form for form, _ in FORMS]
    value = json.dumps(message).encode()
    registered = Registered()
    (answer,) = ask([base64.b64encode(value).decode()])
    messages = batch([(None, registered.message(answer))])
    decoded = registered.decoder().decode(messages)
    offsets = pa.array([0], pa.int64())
    wanted = DebeziumDecoder(Known(ordered=False)).decode(batch([(None, value)]).append_column("offset", offsets))
    assert by_place(decoded.rows) == by_place(wanted.rows)
    (rows,) = decoded.rows
    assert rows.data.to_pylist() == [
        {
            "id": 1,
            "raw": b"\0\xff\x01",
            "price": Decimal("-12.30"),
            "flag": b"\0",
            "bits": b"\x0a\x01",
            "Date": "2023-11-30",
            "Time": "12:34:56.123000",
            "Timestamp": "2023-11-30 12:34:56.123",
            "v": "y",
        }
    ]
