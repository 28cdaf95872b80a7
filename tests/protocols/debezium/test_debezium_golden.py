"""Simple JSON events become the golden Debezium messages, and every golden message survives reading and writing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_data import lines
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidecast.model import Events, TableSchema, physical_ms, physical_ms_of
from tidecast.protocols import debezium, simple
from tidecast.protocols.debezium import DdlHistory, DebeziumOptions
from tidecast.routing import ColumnMatcher
from tidecast.sources import read_records
from tidecast.spark import union

ZONE = "Asia/Shanghai"
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

Message = tuple[str, str]


def now(commit_ts: Column) -> Column:
    return physical_ms_of(commit_ts) + CLOCK


def text(message: dict[str, Any]) -> Message:
    return base64.b64decode(message["key"]).decode(), base64.b64decode(message["value"]).decode()


def entry(golden: Callable[[str], Path], variant: str) -> dict[str, Any]:
    suite = json.loads(golden("suite.json").read_text())
    return next(f for f in suite["files"] if f.get("variant") == variant)


def messages(golden: Callable[[str], Path], variant: str, kind: str) -> dict[int, dict[str, Any]]:
    """Return a variant's messages by event number, with those of the variant that it is given as a difference to."""
    found = {m["n"]: m for m in lines(golden(f"{variant}.jsonl.gz")) if m["kind"] == kind}
    base = entry(golden, variant).get("base")
    return messages(golden, base, kind) | found if base else found


@pytest.fixture(scope="module")
def source(golden: Callable[[str], Path], spark: SparkSession) -> Iterator[tuple[Events, list[int]]]:
    """What the Simple JSON messages say, and the event number of each line."""
    path = golden("simple-json.jsonl.gz")
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    with simple.decode(records.frame, ordered=True, zone=ZONE) as events:
        yield events, [line["n"] for line in lines(path)]


def selected(options: dict[str, Any], schema: TableSchema) -> frozenset[str] | None:
    for rule in options.get("column_selectors", ()):
        if schema.name in rule["matcher"]:
            matcher = ColumnMatcher(rule["columns"])
            return frozenset(c.name for c in schema.columns if matcher.matches(c.name))
    return None


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "debezium-noschema-ext"])  # it is about watermarks
def test_rows_become_the_golden_messages(
    variant: str, golden: Callable[[str], Path], source: tuple[Events, list[int]]
) -> None:
    said, options = entry(golden, variant)["options"], VARIANTS[variant]
    want = {m["n"]: m for m in lines(golden(f"{variant}.jsonl.gz")) if m["kind"] == "dml"}
    tables = {(m["db"], m["table"]) for m in want.values()}
    want = {n: m for n, m in messages(golden, variant, "dml").items() if (m["db"], m["table"]) in tables}
    events, numbers = source
    encoded = [
        table.good.select(
            "offset",
            debezium.encode_key(table.schema, options).cast("string").alias("key"),
            debezium.encode_value(
                table.schema, options, columns=selected(said, table.schema), build_ts=now(F.col("commit_ts"))
            )
            .cast("string")
            .alias("value"),
            debezium.unencodable(table.schema).alias("wrong"),
        )
        for table in events.tables
        if (table.schema.database, table.schema.table) in tables
    ]
    got = {numbers[row["offset"]]: row for row in union(encoded).collect()}
    assert all(row["wrong"] is None for row in got.values())
    # TiCDC's encoder stops at a NULL in a DATE column with a default, and sends no such row.
    errors = json.loads(golden("suite.json").read_text())["encoder_errors"]
    stopped = {e["n"] for e in errors if e["variant"] == variant}
    assert got.keys() - stopped == want.keys()
    for n, message in want.items():
        assert (got[n]["key"], got[n]["value"]) == text(message), (variant, n, message["table"])


@pytest.mark.parametrize("variant", ["debezium", "debezium-ext", "debezium-noschema"])
def test_schema_changes_become_the_golden_messages(
    variant: str, golden: Callable[[str], Path], source: tuple[Events, list[int]]
) -> None:
    events, _ = source
    want = {n: text(m) for n, m in messages(golden, variant, "ddl").items()}
    said = messages(golden, "simple-json", "ddl")
    history, got = DdlHistory(), {}
    for ddl, (n, message) in zip(events.ddl, said.items(), strict=True):
        assert ddl.commit_ts == int(message["commit_ts"])
        made = debezium.encode_ddl(ddl, VARIANTS[variant], history, build_ts=message["now_ms"])
        if made:
            got[n] = (made[0].decode(), made[1].decode())
    assert got.keys() == want.keys()
    assert len(want) > 80
    for n in want:
        assert got[n] == want[n], n


def test_watermarks_become_the_golden_messages(golden: Callable[[str], Path], spark: SparkSession) -> None:
    for variant in ("debezium-ext", "debezium-noschema-ext"):
        want = messages(golden, variant, "watermark")
        frame = spark.createDataFrame([(int(m["commit_ts"]),) for m in want.values()], "commit_ts bigint")
        commit_ts = F.col("commit_ts")
        key, value = debezium.encode_watermark(commit_ts, VARIANTS[variant], build_ts=now(commit_ts))
        got = [(row[0], row[1]) for row in frame.select(key.cast("string"), value.cast("string")).collect()]
        assert got == [text(m) for m in want.values()]
        assert len(want) >= 15


@pytest.mark.parametrize("variant", VARIANTS)
def test_messages_survive_reading_and_writing(
    variant: str, golden: Callable[[str], Path], source: tuple[Events, list[int]], spark: SparkSession
) -> None:
    options, path = VARIANTS[variant], golden(f"{variant}.jsonl.gz")
    want = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    only = "base" in entry(golden, variant)  # then the file has no schema changes
    known = [table.schema for table in source[0].tables] if only else []
    got: dict[int, Message] = {}
    with debezium.decode(records.frame, ordered=True, zone=ZONE, schemas=known) as events:
        assert events.rejected.count() == 0
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
            got[offset] = (key, value)
        history = DdlHistory()
        for ddl in events.ddl:
            assert ddl.position is not None
            made = debezium.encode_ddl(ddl, options, history, build_ts=physical_ms(ddl.commit_ts) + CLOCK)
            assert made
            got[ddl.position] = (made[0].decode(), made[1].decode())
        if events.watermarks is not None:
            key, value = debezium.encode_watermark(F.col("commit_ts"), options, build_ts=now(F.col("commit_ts")))
            frame = events.watermarks.select("offset", key.cast("string"), value.cast("string"))
            got |= {row[0]: (row[1], row[2]) for row in frame.collect()}
            assert events.watermark == max(int(m["commit_ts"]) for m in want if m["kind"] == "watermark")
    assert got.keys() == set(range(len(want)))
    for place, message in enumerate(want):
        assert got[place] == text(message), (variant, message["n"], message["table"])
