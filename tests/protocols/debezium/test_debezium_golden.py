"""Simple JSON events become the golden Debezium messages, and every golden message survives reading and writing.

`debezium-ext`, the richest variant, with all tables; the others differ from it by what is beside the row, and have the
tables that show each kind of column.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from differences import assert_messages_equal
from full import FULL, full
from golden_data import ONE_OF_EACH, Line, Table, lines
from golden_events import ZONE, GoldenEvents
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidecast.model import Events, TableSchema, physical_ms, physical_ms_of
from tidecast.protocols import debezium
from tidecast.protocols.debezium import DdlHistory, DebeziumOptions
from tidecast.routing import ColumnMatcher
from tidecast.sources import read_records
from tidecast.spark import union

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


def now(commit_ts: Column) -> Column:
    return physical_ms_of(commit_ts) + CLOCK


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
    encoded = [
        table.good.select(
            "offset",
            debezium.encode_key(table.schema, options).cast("string").alias("key"),
            debezium.encode_value(
                table.schema, options, columns=selected(file["options"], table.schema), build_ts=now(F.col("commit_ts"))
            )
            .cast("string")
            .alias("value"),
            debezium.unencodable(table.schema).alias("wrong"),
        )
        for table in source.only(tables).tables
    ]
    got = {source.numbers[row["offset"]]: row for row in union(encoded).collect()}
    assert all(row["wrong"] is None for row in got.values())
    # TiCDC's encoder stops at a NULL in a DATE column with a default, and sends no such row.
    errors = json.loads(golden("suite.json").read_text())["encoder_errors"]
    stopped = {e["n"] for e in errors if e["variant"] == variant}
    assert_messages_equal(
        {n: (row["key"], row["value"]) for n, row in got.items() if n not in stopped},
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


def test_watermarks_become_the_golden_messages(golden: Callable[[str], Path], spark: SparkSession) -> None:
    for variant in ("debezium-ext", "debezium-noschema-ext"):
        want = messages(golden, variant, "watermark")
        frame = spark.createDataFrame([(int(m["commit_ts"]),) for m in want.values()], "commit_ts bigint")
        commit_ts = F.col("commit_ts")
        key, value = debezium.encode_watermark(commit_ts, VARIANTS[variant], build_ts=now(commit_ts))
        got = [(row[0], row[1]) for row in frame.select(key.cast("string"), value.cast("string")).collect()]
        assert got == [text(m) for m in want.values()]
        assert len(want) >= 15


def encoded_again(events: Events, options: DebeziumOptions) -> dict[int, Message]:
    """Return the messages that events become, each at the place of the one that it came from."""
    found: dict[int, Message] = {}
    encoded = [
        table.frame.select(
            "offset",
            debezium.encode_key(table.schema, options).cast("string").alias("key"),
            debezium.encode_value(table.schema, options, build_ts=now(F.col("commit_ts"))).cast("string"),
            "reason",
        )
        for table in events.tables
    ]
    for offset, key, value, reason in union(encoded).collect() if encoded else ():
        assert reason is None
        found[offset] = (key, value)
    history = DdlHistory()
    for ddl in events.ddl:
        assert ddl.position is not None
        message = debezium.encode_ddl(ddl, options, history, build_ts=physical_ms(ddl.commit_ts) + CLOCK)
        assert message
        found[ddl.position] = (message[0].decode(), message[1].decode())
    if events.watermarks is not None:
        key, value = debezium.encode_watermark(F.col("commit_ts"), options, build_ts=now(F.col("commit_ts")))
        frame = events.watermarks.select("offset", key.cast("string"), value.cast("string"))
        found |= {row[0]: (row[1], row[2]) for row in frame.collect()}
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
        frame = records.frame.where(F.col("offset").isin(*want))
        known = [table.schema for table in decoded("simple-json").events.tables]
        events = debezium.decode(frame, ordered=True, zone=ZONE, schemas=known)
    else:
        want, events = dict(enumerate(decoded(variant, tables).messages)), decoded(variant, tables).events
    with events:
        assert events.rejected.count() == 0
        got = encoded_again(events, VARIANTS[variant])
        timestamps = (int(m["commit_ts"]) for m in want.values() if m["kind"] == "watermark")
        assert events.watermark == max(timestamps, default=None)
    assert_messages_equal(got, {n: text(m) for n, m in want.items()}, want)
