"""What is cut out of Debezium's messages as text, counted in it or written by Spark, as Python's json does it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from strategies import drawn, texts

from tidecast.model import Column, DataType, TableSchema
from tidecast.protocols._json_object import CLOSING
from tidecast.protocols.debezium import DebeziumOptions, _json
from tidecast.protocols.debezium import _decode_envelope as envelope
from tidecast.protocols.debezium._decode_schema import fields_of
from tidecast.protocols.debezium._unknown_fields import unknown_fields
from tidecast.protocols.debezium._value_columns import json_column
from tidecast.values import arrow_type

Json = dict[str, Any]

NAMES = st.sampled_from(["id", "op", "after", "payload", "schema", "a,b", "é"])
TRAPS = st.sampled_from([',"schema":{', ',"payload":', '{"payload":{', ',"op":"c","before":null,"after":{', "a,b", ""])
SIDES = st.none() | st.dictionaries(NAMES, st.integers(0, 9) | st.none() | texts | TRAPS)
SOURCES = st.fixed_dictionaries({"name": TRAPS | texts, "commit_ts": st.sampled_from([1, 447984074911121426])})
# In TiCDC's order, which hypothesis does not keep.
PAYLOADS = st.tuples(SOURCES, st.sampled_from("cud"), SIDES, SIDES).map(
    lambda parts: dict(zip(("source", "op", "before", "after"), parts, strict=True))
)
SCHEMAS = st.none() | st.fixed_dictionaries({"type": st.just("struct"), "fields": st.lists(NAMES | TRAPS, max_size=3)})
LAYOUTS = st.sampled_from(["payload first", "schema first", "spaced"])


def message(payload: Json, schema: Json | None, layout: str) -> bytes:
    parts: Json = {"payload": payload} if schema is None else {"payload": payload, "schema": schema}
    if layout == "schema first":
        parts = dict(reversed(parts.items()))
    return json.dumps(parts, separators=None if layout == "spaced" else (",", ":"), ensure_ascii=False).encode()


def first_object(text: str) -> Any:
    """Return the object that a text begins with, whatever follows it; nothing where it begins with none."""
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except json.JSONDecodeError:
        return {"payload": {}}


def test_the_parts_of_a_message_are_those_that_python_reads(spark: SparkSession) -> None:
    parts = drawn(st.tuples(PAYLOADS, SCHEMAS, LAYOUTS), 300)
    frame = spark.createDataFrame([(message(*part),) for part in parts], "value binary").coalesce(1)
    cut = envelope.payload("value"), envelope.schema("value"), envelope.members("value")
    for row, (payload, schema, layout) in zip(frame.select(*cut).collect(), parts, strict=True):
        found = [first_object(row[0]), row[1] and first_object("{" + bytes(row[1]).decode()), row[2]]
        marked = json.loads(f'{{"payload":0{CLOSING}') | {"payload": payload}
        assert found == [marked, schema, list(payload)], message(payload, schema, layout)


@pytest.mark.parametrize("schema", [None, {"type": "struct", "fields": ["é", ',"schema":{']}], ids=["bare", "schema"])
def test_rows_without_their_heads_are_those_that_python_reads(spark: SparkSession, schema: Json | None) -> None:
    payloads = drawn(PAYLOADS, 200)
    messages = [message(payload, schema, "payload first") for payload in payloads]
    head = messages[0].index(b',"op":"')
    shown = None if schema is None else messages[0][messages[0].rindex(b',"schema":{') + len(',"schema":{') :]
    frame = spark.createDataFrame([(one,) for one in messages], "value binary").coalesce(1)
    for row, payload in zip(frame.select(envelope.without_head("value", head, shown)).collect(), payloads, strict=True):
        found = first_object(row[0])["payload"]
        assert {name: found.get(name) for name in ("op", "before", "after")} == {
            k: v for k, v in payload.items() if k != "source"
        }


TABLE = TableSchema(
    "d",
    "t",
    1,
    1,
    tuple(Column(name, DataType("int" if name == "n" else "varchar", "utf8mb4")) for name in ("n", "a,b", "é")),
    (),
)
MEMBERS = st.sampled_from(["n", "a,b", "é", "z"])
VALUES = {"n": st.integers(0, 9) | st.none()}
ROWS = st.sets(MEMBERS, min_size=2).flatmap(
    lambda names: st.fixed_dictionaries(
        {
            name: VALUES.get(name, st.none() | texts | st.sampled_from([",", ",,\x01", "comma,", ',"n":null']))
            for name in names
        }
    )
)


def test_the_columns_that_commas_tell_of_are_those_that_python_lists(spark: SparkSession) -> None:
    changes = drawn(st.tuples(st.sampled_from("cud"), ROWS, ROWS, st.booleans()), 300)
    sides = {
        "c": lambda old, new: {"before": None, "after": new},
        "u": lambda old, new: {"before": old, "after": new},
        "d": lambda old, new: {"after": None, "before": old},
    }
    payloads = [{"source": {}, "op": op} | sides[op](old, new) for op, old, new, _ in changes]
    messages = [
        json.dumps({"payload": payload}, separators=(",", ":"), ensure_ascii=escaped)
        .replace("comma,", "comma\\u002c" if escaped else "comma,")
        .encode()
        for payload, (*_, escaped) in zip(payloads, changes, strict=True)
    ]
    row = "n int, `a,b` string, `é` string"
    head = messages[0].index(b',"op":"')
    frame = spark.createDataFrame(list(zip(messages, (c[0] for c in changes), strict=True)), "value binary, op string")
    cut = frame.coalesce(1).select(
        "op", envelope.without_head("value", head, None).alias("m"), envelope.has_head("value", head).alias("headed")
    )
    read = F.from_json("m", f"payload struct<before: struct<{row}>, after: struct<{row}>>")["payload"]
    typed = cut.select("op", "m", "headed", read["before"].alias("before"), read["after"].alias("after"))
    found = typed.select(
        unknown_fields(
            F.col("m"), F.col("headed"), {"before": F.col("before"), "after": F.col("after")}, fields_of(TABLE)
        )
    ).collect()
    strange = [any("z" in (payload[side] or ()) for side in ("before", "after")) for payload in payloads]
    assert [one[0] for one in found] == ["column z is not in the table" if z else None for z in strange]


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n\x01\x7f\u2028'), max_size=9)


def test_json_is_what_python_reads() -> None:
    strings, numbers = drawn(ANY_TEXT, 300), drawn(st.floats(allow_nan=False, allow_infinity=False), 300)
    kinds = {"s": DataType("varchar", "utf8mb4"), "x": DataType("double")}
    found = {
        name: json_column(Column("c", kinds[name]), pa.array(values, arrow_type(kinds[name])), DebeziumOptions())
        for name, values in (("s", strings), ("x", numbers))
    }
    assert found["s"].to_pylist() == list(map(_json.dumps, strings))
    assert [*map(as_json, found["s"].to_pylist())] == strings
    assert [*map(as_json, found["x"].to_pylist())] == numbers


def as_json(text: str) -> Any:
    """Return what a text says to Python's own reader, which knows nothing of ours; None where it is no JSON."""
    try:
        return json.loads(text, parse_int=float)
    except json.JSONDecodeError:
        return None
