"""Every golden Simple message decodes, and what it decodes to encodes to the same bytes, in both encodings."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from golden_data import lines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast.checksum import verify
from tidecast.model import Ddl, Events, physical_ms, physical_ms_of
from tidecast.protocols import simple
from tidecast.protocols.simple import SimpleOptions
from tidecast.sources import read_records
from tidecast.spark import union

ZONE = "Asia/Shanghai"
BUILT_AFTER_MS = 250  # the golden messages were built that long after their commit

# What is read, and what its rows are written as; among them are both ways between the encodings.
ROWS = [
    ("simple-json-checksum", "simple-json-checksum"),
    ("simple-avro-checksum", "simple-avro-checksum"),
    ("simple-json", "simple-avro"),
    ("simple-avro", "simple-json"),
]


@pytest.fixture(autouse=True)
def _compiling_less(spark: SparkSession) -> Iterator[None]:
    """Dozens of tables with few rows each: whole stages would take longer to compile than to run."""
    with conf(spark, "spark.sql.codegen.wholeStage", "false"):
        yield


@contextmanager
def conf(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name) or ""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def decoded(spark: SparkSession, path: Path, *, ordered: bool = True) -> Events:
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    return simple.decode(records.frame, ordered=ordered, zone=ZONE)


def options_of(variant: str) -> SimpleOptions:
    return SimpleOptions("avro" if "avro" in variant else "json", ZONE)


def value_of(line: dict[str, Any]) -> bytes:
    return base64.b64decode(line["value"])


def encoded(events: Events, options: SimpleOptions, **how: Any) -> dict[int, bytes | str]:
    """Return each row's message by its offset, or why it has none."""
    build_ts = physical_ms_of(F.col("commit_ts")) + BUILT_AFTER_MS
    frames = [
        t.frame.select(
            "offset",
            F.coalesce("reason", simple.unencodable(t.schema)).alias("wrong"),
            simple.encode_value(t.schema, options, build_ts=build_ts, **how).alias("value"),
        )
        for t in events.tables
    ]
    return {r["offset"]: r["wrong"] or bytes(r["value"]) for r in union(frames).collect()}


@pytest.mark.parametrize(("source", "target"), ROWS, ids=[f"{s}-to-{t}" for s, t in ROWS])
def test_rows_come_back_byte_for_byte(
    source: str, target: str, golden: Callable[[str], Path], spark: SparkSession
) -> None:
    place = {n: line["n"] for n, line in enumerate(lines(golden(f"{source}.jsonl.gz"))) if line["kind"] == "dml"}
    want = {line["n"]: value_of(line) for line in lines(golden(f"{target}.jsonl.gz")) if line["kind"] == "dml"}
    with decoded(spark, golden(f"{source}.jsonl.gz")) as events:
        got = {place[offset]: value for offset, value in encoded(events, options_of(target)).items()}
        assert events.rejected.count() == 0
    assert got == want


@pytest.mark.parametrize("variant", ["simple-json-handlekey", "simple-avro-handlekey"])
def test_rows_shrink_to_their_handle_keys(variant: str, golden: Callable[[str], Path], spark: SparkSession) -> None:
    shrunk = {line["n"]: line for line in lines(golden(f"{variant}.jsonl.gz"))}
    names = {(line["db"], line["table"]) for line in shrunk.values()}
    source = golden("simple-json.jsonl.gz")
    place = {n: line["n"] for n, line in enumerate(lines(source))}
    with decoded(spark, source) as events:
        few = tuple(t for t in events.tables if (t.schema.database, t.schema.table) in names)
        found = encoded(Events(few, events.rejected), options_of(variant), handle_key_only=True)
    got = {place[offset]: value for offset, value in found.items() if place[offset] in shrunk}
    assert got == {n: value_of(line) for n, line in shrunk.items()}


@pytest.mark.parametrize("variant", ["simple-json-handlekey", "simple-avro-handlekey"])
def test_rows_of_handle_keys_alone_are_incomplete(
    variant: str, golden: Callable[[str], Path], spark: SparkSession
) -> None:
    path = golden(f"{variant}.jsonl.gz")
    with decoded(spark, path) as events:
        reasons = [row["reason"] for row in events.rejected.collect()]
    assert events.tables == ()
    assert reasons == ["incomplete-row"] * len(lines(path))


def test_a_selector_keeps_columns_back(golden: Callable[[str], Path], spark: SparkSession) -> None:
    selected = {line["n"]: value_of(line) for line in lines(golden("simple-json-colsel.jsonl.gz"))}
    source = golden("simple-json.jsonl.gz")
    place = {n: line["n"] for n, line in enumerate(lines(source))}
    got: dict[int, bytes | str] = {}
    with decoded(spark, source) as events:
        for name in ("t_sel", "t_all"):
            tables = tuple(t for t in events.tables if t.schema.table == name)
            (shown,) = {
                frozenset(said.get("data") or said["old"])
                for said in map(json.loads, selected.values())
                if said["table"] == name
            }
            assert 0 < len(shown) < len(tables[0].schema.columns)
            for offset, value in encoded(
                Events(tables, events.rejected), SimpleOptions(zone=ZONE), columns=shown
            ).items():
                got[place[offset]] = value
    assert got == selected


@pytest.mark.parametrize("variant", ["simple-json", "simple-avro"])
def test_schema_changes_bootstraps_and_watermarks_come_back(
    variant: str, golden: Callable[[str], Path], spark: SparkSession
) -> None:
    path = golden(f"{variant}.jsonl.gz")
    messages = lines(path)
    want = {
        kind: [(n, value_of(line)) for n, line in enumerate(messages) if line["kind"] == kind]
        for kind in ("ddl", "bootstrap", "watermark")
    }
    options = options_of(variant)
    with decoded(spark, path) as events:
        assert events.watermarks is not None
        build_ts = physical_ms_of(F.col("commit_ts")) + BUILT_AFTER_MS
        value = simple.encode_watermark(F.col("commit_ts"), options, build_ts).alias("value")
        watermarks = sorted(
            (r["offset"], bytes(r["value"])) for r in events.watermarks.select("offset", value).collect()
        )
    assert watermarks == want["watermark"]
    assert events.watermark == max(int(m["commit_ts"]) for m in messages if m["kind"] == "watermark")
    assert [
        (d.position, simple.encode_ddl(d, options, physical_ms(d.commit_ts) + BUILT_AFTER_MS)) for d in events.ddl
    ] == want["ddl"]
    assert (
        sorted(
            (b.position, simple.encode_bootstrap(b.schema, options, messages[b.position or 0]["now_ms"]))
            for b in events.bootstraps
        )
        == want["bootstrap"]
    )


def test_schema_changes_with_the_table_before_come_back(golden: Callable[[str], Path], spark: SparkSession) -> None:
    found: dict[str, tuple[Ddl, ...]] = {}
    for variant in ("simple-json-pretable", "simple-avro-pretable"):
        path = golden(f"{variant}.jsonl.gz")
        with decoded(spark, path) as events:
            found[variant] = events.ddl
        got = [simple.encode_ddl(d, options_of(variant), physical_ms(d.commit_ts) + BUILT_AFTER_MS) for d in events.ddl]
        assert got == [value_of(line) for line in lines(path)]
    assert all(d.before for d in events.ddl)
    in_json, in_avro = found.values()
    assert in_json == in_avro


def in_partitions(records: DataFrame) -> DataFrame:
    """Return messages as Kafka has them: those for all partitions in each of three, and no order between partitions."""
    everywhere = F.array(*map(F.lit, range(3)))
    mine = F.when(F.col("partition").isNull(), everywhere).otherwise(F.array("partition"))
    return records.withColumn("partition", F.explode(mine))


@pytest.mark.parametrize("variant", ["simple-json-checksum", "simple-avro-checksum"])
def test_rows_fit_their_checksums_before_and_after(
    variant: str, golden: Callable[[str], Path], spark: SparkSession
) -> None:
    path = golden(f"{variant}.jsonl.gz")
    place = {n: line["n"] for n, line in enumerate(lines(path))}
    twins = {line["n"]: line["expect"] for line in lines(golden("avro-checksum.jsonl.gz"))}
    with decoded(spark, path) as events:
        judged = verify(events).select("offset", "op", "verdict", "corrupted").collect()
    assert {(r["verdict"], r["op"]) for r in judged} >= {("match", "c"), ("match", "u"), ("delete", "d")}
    wrong = {place[r["offset"]] for r in judged if r["verdict"] in ("mismatch", "unreadable")}
    # The rows whose bytes were damaged before TiCDC saw them, and no others.
    assert wrong == {place[r["offset"]] for r in judged if r["corrupted"]}
    assert wrong >= {n for n, expect in twins.items() if expect == "mismatch"} != set()


@pytest.mark.parametrize("variant", ["simple-json-checksum", "simple-avro-checksum"])
def test_partitions_without_an_order_have_the_same_schemas(
    variant: str, golden: Callable[[str], Path], spark: SparkSession
) -> None:
    path = golden(f"{variant}.jsonl.gz")
    few = [n for n, m in enumerate(lines(path)) if m["kind"] != "dml" or m["table"] in ("t_gen", "t_evo")]
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    head = records.frame.where(F.col("offset").isin(few))
    with simple.decode(head, ordered=True, zone=ZONE) as once:
        schemas = {s.key: s for s in once.history or ()}
    with simple.decode(in_partitions(head), ordered=False, zone=ZONE) as events:
        assert {s.key: s for s in events.history or ()} == schemas
        judged = verify(events).select("verdict", "corrupted").collect()
    assert any(c.virtual for t in events.tables for c in t.schema.columns)
    assert [r for r in judged if (r["verdict"] == "mismatch") != r["corrupted"]] == []


def test_messages_of_all_partitions_count_once(golden: Callable[[str], Path], spark: SparkSession) -> None:
    path = golden("simple-avro.jsonl.gz")
    messages = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    head = records.frame.where(F.col("partition").isNull() & (F.col("offset") < 60))
    with simple.decode(head, ordered=True) as once, simple.decode(in_partitions(head), ordered=False) as thrice:
        assert thrice.watermarks is None or once.watermarks is not None
    assert [d.sql for d in once.ddl] == [d.sql for d in thrice.ddl] != []
    assert len(once.bootstraps) == len(thrice.bootstraps) > 0
    assert {b.schema for b in once.bootstraps} == {b.schema for b in thrice.bootstraps}
    assert [d.position for d in thrice.ddl] == [d.commit_ts for d in thrice.ddl]
    before, highest = {}, 0
    for offset, line in enumerate(messages[:60]):
        before[offset] = highest
        if line["partition"] is None and line["kind"] != "bootstrap":
            highest = max(highest, int(line["commit_ts"]))
    assert sorted(b.position or 0 for b in thrice.bootstraps) == sorted(
        before[b.position or 0] for b in once.bootstraps
    )
    assert any(b.position for b in thrice.bootstraps)
