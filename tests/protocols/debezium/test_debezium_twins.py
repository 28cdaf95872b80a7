"""What is cut out of Debezium's messages as text, counted in it or written by Spark, as Python's json does it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from decoded_batches import batch
from hypothesis import strategies as st
from strategies import drawn, texts

from tidecast.model import Column, DataType, TableSchema
from tidecast.protocols.debezium import DebeziumOptions, _json
from tidecast.protocols.debezium._columns import DebeziumDecoder
from tidecast.protocols.debezium._known import Known
from tidecast.protocols.debezium._parse import _cut
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


def test_the_parts_of_a_message_are_those_that_python_reads() -> None:
    for payload, schema, layout in drawn(st.tuples(PAYLOADS, SCHEMAS, LAYOUTS), 300):
        whole = message(payload, schema, layout)
        found = _cut(whole)
        assert found is not None, whole
        assert found[0] == payload, whole
        assert (found[1] and first_object("{" + found[1].decode())) == schema, whole


TABLE = TableSchema(
    "d",
    "t",
    1,
    1,
    tuple(Column(name, DataType("int" if name == "n" else "varchar", "utf8mb4")) for name in ("n", "a,b", "é")),
    (),
)
MEMBERS = st.sampled_from(["n", "a,b", "é", "z"])
ROWS = st.sets(MEMBERS, min_size=2).flatmap(
    lambda names: st.fixed_dictionaries({name: st.integers(0, 9) if name == "n" else texts for name in names})
)


def test_a_column_that_the_table_lacks_is_named() -> None:
    changes = drawn(st.tuples(st.sampled_from("cud"), ROWS, ROWS), 300)
    sides = {
        "c": lambda old, new: {"before": None, "after": new},
        "u": lambda old, new: {"before": old, "after": new},
        "d": lambda old, new: {"after": None, "before": old},
    }
    source = {"db": "d", "table": "t", "commit_ts": 5}
    payloads = [{"source": source, "op": op} | sides[op](old, new) for op, old, new in changes]
    messages = batch([(None, json.dumps({"payload": payload}).encode()) for payload in payloads])
    (rows,) = DebeziumDecoder(Known(False).with_version(TABLE, 1)).decode(messages).rows
    strange = [any("z" in (payload[side] or ()) for side in ("before", "after")) for payload in payloads]
    assert rows.detail.to_pylist() == ["column z is not in the table" if z else None for z in strange]


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
