"""Simple JSON events become the golden Debezium messages, and every golden message survives reading and writing.

`debezium-ext`, the richest variant, with all tables; the others differ from it by what is beside the row, and have the
tables that show each kind of column.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from decoded_events import decoded as decode
from differences import assert_messages_equal
from encoding import Encoded, encoded
from full import FULL, full
from golden_data import ONE_OF_EACH, Line, Table, lines
from golden_events import ZONE, GoldenEvents
from pyspark.sql import SparkSession

from tidecast.model import LOGICAL_BITS, Events, TableSchema, physical_ms
from tidecast.protocols import Rows, debezium
from tidecast.protocols.debezium import DdlHistory, DebeziumEncoder, DebeziumOptions
from tidecast.routing import ColumnMatcher
from tidecast.sources import read_records
from tidecast.values import to_numpy

CLOCK = 250
"""The golden encoder's clock is that many milliseconds after the commit."""

VARIANTS = {
    "debezium": DebeziumOptions(zone=ZONE),
    "debezium-ext": DebeziumOptions(enable_tidb_extension=True, zone=ZONE),
    "debezium-noschema": DebeziumOptions(disable_schema=True, zone=ZONE),
    "debezium-noschema-ext": DebeziumOptions(disable_schema=True, enable_tidb_extension=True, zone=ZONE),
    "debezium-noold": DebeziumOptions(disable_schema=True, output_old_value=False, zone=ZONE),
    "debezium-colsel": DebeziumOptions(zone=ZONE),
}
# What others have together, one in `ext` and `colsel`, the other in `noold`.
_OTHERS_SHOW = ("debezium", "debezium-noschema")
EVERY = [pytest.param(variant, marks=full if variant in _OTHERS_SHOW else ()) for variant in VARIANTS]
_LONG = ("debezium-ext", "debezium-noold")
"""What test_debezium_roundtrip shows of random rows."""

Message = tuple[str, str]


def chosen(variant: str) -> frozenset[Table] | None:
    """Return the tables with which a variant is tested, None for all; a variant of few messages has all of its own."""
    return ONE_OF_EACH if variant in ("debezium", "debezium-noschema", "debezium-noold") else None


def encoder_of(options: DebeziumOptions, rows: Rows) -> DebeziumEncoder:
    return DebeziumEncoder(options, (to_numpy(rows.commit_ts) >> LOGICAL_BITS) + CLOCK, whole=True)


def shown(message: Encoded) -> Message:
    return (message.key or b"").decode(), (message.value or b"").decode()


def watermark(commit_ts: int, options: DebeziumOptions) -> Message:
    key, value = debezium.encode_watermark(commit_ts, options, physical_ms(commit_ts) + CLOCK)
    return (key or b"").decode(), value.decode()


def text(message: Line) -> Message:
    return base64.b64decode(message["key"]).decode(), base64.b64decode(message["value"]).decode()


def entry(golden: Callable[[str], Path], variant: str) -> dict[str, Any]:
    suite = json.loads(golden("suite.json").read_text())
    return next(f for f in suite["files"] if f.get("variant") == variant)


def messages(golden: Callable[[str], Path], variant: str, kind: str) -> dict[int, Line]:
    """Return a variant's messages by event number, with those of the variant that it is given as a difference to."""
    found = {m["n"]: m for m in lines(golden(f"{variant}.jsonl.gz")) if m["kind"] == kind}
    base = entry(golden, variant).get("base")
    return messages(golden, base, kind) | found if base else found


def selected(options: dict[str, Any], schema: TableSchema) -> frozenset[str] | None:
    for rule in options.get("column_selectors", ()):
        if schema.name in rule["matcher"]:
            matcher = ColumnMatcher(rule["columns"])
            return frozenset(c.name for c in schema.columns if matcher.matches(c.name))
    return None


@pytest.mark.parametrize(
    "variant", [one for one in EVERY if one.values != ("debezium-noschema-ext",)]
)  # it is about watermarks
def test_rows_become_the_golden_messages(variant: str, golden: Callable[[str], Path], decoded: GoldenEvents) -> None:
    file, options, source = entry(golden, variant), VARIANTS[variant], decoded("simple-json")
    own = lines(golden(f"{variant}.jsonl.gz"))
    tables = chosen(variant) or {(m["db"], m["table"]) for m in own if m["kind"] == "dml"}
    want = {n: m for n, m in messages(golden, variant, "dml").items() if (m["db"], m["table"]) in tables}
    got: dict[int, Message] = {}
    for table in source.only(tables).tables:
        columns = selected(file["options"], table.schema)
        for one in encoded(table.good, table.schema, partial(encoder_of, options), columns=columns):
            assert one.wrong is None
            got[source.numbers[one.kept["offset"]]] = shown(one)
    # TiCDC's encoder stops at a NULL in a DATE column with a default, and sends no such row.
    errors = json.loads(golden("suite.json").read_text())["encoder_errors"]
    stopped = {e["n"] for e in errors if e["variant"] == variant}
    assert_messages_equal(
        {n: message for n, message in got.items() if n not in stopped},
        {n: text(m) for n, m in want.items()},
        want,
    )


@pytest.mark.parametrize("variant", ["debezium", "debezium-ext", "debezium-noschema"])
def test_schema_changes_become_the_golden_messages(
    variant: str, golden: Callable[[str], Path], decoded: GoldenEvents
) -> None:
    want = messages(golden, variant, "ddl")
    history, got = DdlHistory(), {}
    source = messages(golden, "simple-json", "ddl")
    for ddl, (n, message) in zip(decoded("simple-json").events.ddl, source.items(), strict=True):
        assert ddl.commit_ts == int(message["commit_ts"])
        encoded = debezium.encode_ddl(ddl, VARIANTS[variant], history, build_ts=message["now_ms"])
        if encoded:
            got[n] = (encoded[0].decode(), encoded[1].decode())
    assert len(want) > 80
    assert_messages_equal(got, {n: text(m) for n, m in want.items()}, want)


def test_watermarks_become_the_golden_messages(golden: Callable[[str], Path]) -> None:
    for variant in ("debezium-ext", "debezium-noschema-ext"):
        want = messages(golden, variant, "watermark")
        got = [watermark(int(m["commit_ts"]), VARIANTS[variant]) for m in want.values()]
        assert got == [text(m) for m in want.values()]
        assert len(want) >= 15


def encoded_again(events: Events, options: DebeziumOptions) -> dict[int, Message]:
    """Return the messages that events become, each at the place of the one that it came from."""
    found: dict[int, Message] = {}
    for table in events.tables:
        for one in encoded(table.frame, table.schema, partial(encoder_of, options)):
            assert one.wrong is None
            found[one.kept["offset"]] = shown(one)
    history = DdlHistory()
    for ddl in events.ddl:
        assert ddl.position is not None
        message = debezium.encode_ddl(ddl, options, history, build_ts=physical_ms(ddl.commit_ts) + CLOCK)
        assert message
        found[ddl.position] = (message[0].decode(), message[1].decode())
    if events.watermarks is not None:
        found |= {row["offset"]: watermark(row["commit_ts"], options) for row in events.watermarks.collect()}
    return found


@pytest.mark.parametrize("variant", [v for v in EVERY if FULL or v.values[0] not in _LONG])
def test_messages_survive_reading_and_writing(
    variant: str, golden: Callable[[str], Path], decoded: GoldenEvents, spark: SparkSession
) -> None:
    tables = chosen(variant)
    if "base" in entry(golden, variant):  # the file has no schema changes: others must tell the tables
        path = golden(f"{variant}.jsonl.gz")
        want = {n: m for n, m in enumerate(lines(path)) if tables is None or (m["db"], m["table"]) in tables}
        records, _ = read_records(spark, f"file://{path}?protocol=debezium")
        frame = records.frame.where(records.frame["offset"].isin(*want))
        known = [table.schema for table in decoded("simple-json").events.tables]
        events = decode(frame, "debezium", ordered=True, zone=ZONE, schemas=known)
    else:
        want, events = dict(enumerate(decoded(variant, tables).messages)), decoded(variant, tables).events
    with events:
        assert events.rejected.count() == 0
        got = encoded_again(events, VARIANTS[variant])
        timestamps = (int(m["commit_ts"]) for m in want.values() if m["kind"] == "watermark")
        assert events.watermark == max(timestamps, default=None)
    assert_messages_equal(got, {n: text(m) for n, m in want.items()}, want)
