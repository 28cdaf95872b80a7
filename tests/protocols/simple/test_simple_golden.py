"""Every golden Simple message decodes, and what it decodes to encodes to the same bytes, in both encodings.

`simple-json-checksum` and `simple-avro-checksum`, the richest variants, with all tables, read and written; from one
encoding to the other with the tables that show each kind of column.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from decoded_events import decode_simple
from differences import assert_messages_equal
from encoding import encoded
from full import full
from golden_data import ONE_OF_EACH, Line, Table, lines
from golden_events import ZONE, Decoded, GoldenEvents
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast import verify
from tidecast.model import LOGICAL_BITS, Ddl, Events, physical_ms
from tidecast.protocols import Rows, simple
from tidecast.protocols.simple import SimpleEncoder, SimpleOptions
from tidecast.sources import read_records
from tidecast.values import to_numpy

BUILT_AFTER_MS = 250  # the golden messages were built that long after their commit

# What is read, what its rows are written as, and with which tables, None for all.
ROWS = [
    ("simple-json-checksum", "simple-json-checksum", None),
    pytest.param("simple-avro-checksum", "simple-avro-checksum", None, marks=full),
    ("simple-json", "simple-avro", ONE_OF_EACH),
    ("simple-avro", "simple-json", ONE_OF_EACH),
]


def source_of(decoded: GoldenEvents, variant: str) -> Decoded:
    """Return a golden file with all tables where other tests want them too, and else with some."""
    return decoded(variant, ONE_OF_EACH if variant == "simple-avro" else None)


def options_of(variant: str) -> SimpleOptions:
    return SimpleOptions("avro" if "avro" in variant else "json", ZONE)


def value_of(message: Line) -> bytes:
    return base64.b64decode(message["value"])


def messages_of(events: Events, options: SimpleOptions, **how: Any) -> dict[int, bytes | str]:
    """Return each row's message by its offset, or why it has none."""

    def encoder(rows: Rows) -> SimpleEncoder:
        return SimpleEncoder(options, (to_numpy(rows.commit_ts) >> LOGICAL_BITS) + BUILT_AFTER_MS)

    found = (one for t in events.tables for one in encoded(t.frame, t.schema, encoder, **how))
    return {one.kept["offset"]: one.wrong or one.value or b"" for one in found}


@pytest.mark.parametrize(("source", "target", "tables"), ROWS, ids=["json", "avro", "json-to-avro", "avro-to-json"])
def test_rows_come_back_byte_for_byte(
    source: str, target: str, tables: frozenset[Table] | None, golden: Callable[[str], Path], decoded: GoldenEvents
) -> None:
    read = source_of(decoded, source)
    own = {m["n"]: m for m in lines(golden(f"{target}.jsonl.gz")) if m["kind"] == "dml"}
    want = {n: m for n, m in own.items() if tables is None or (m["db"], m["table"]) in tables}
    got = messages_of(read.events if tables is None else read.only(tables), options_of(target))
    assert read.events.rejected.count() == 0
    assert_messages_equal(
        {read.numbers[offset]: value for offset, value in got.items()}, {n: value_of(m) for n, m in want.items()}, want
    )


@pytest.mark.parametrize("variant", ["simple-json-handlekey", "simple-avro-handlekey"])
def test_rows_shrink_to_their_handle_keys(variant: str, golden: Callable[[str], Path], decoded: GoldenEvents) -> None:
    shrunk = {m["n"]: m for m in lines(golden(f"{variant}.jsonl.gz"))}
    source = decoded("simple-json")
    events = source.only({(m["db"], m["table"]) for m in shrunk.values()})
    found = messages_of(events, options_of(variant), reduced=True)
    got = {source.numbers[offset]: value for offset, value in found.items() if source.numbers[offset] in shrunk}
    assert_messages_equal(got, {n: value_of(m) for n, m in shrunk.items()}, shrunk)


@pytest.mark.parametrize("variant", ["simple-json-handlekey", "simple-avro-handlekey"])
def test_rows_of_handle_keys_alone_are_incomplete(variant: str, decoded: GoldenEvents) -> None:
    source = decoded(variant)
    reasons = [row["reason"] for row in source.events.rejected.collect()]
    assert source.events.tables == ()
    assert reasons == ["incomplete-row"] * len(source.messages)


def test_a_selector_keeps_columns_back(golden: Callable[[str], Path], decoded: GoldenEvents) -> None:
    selected = {m["n"]: m for m in lines(golden("simple-json-colsel.jsonl.gz"))}
    source = decoded("simple-json")
    got: dict[int, bytes | str] = {}
    for name in ("t_sel", "t_all"):
        events = source.only({("orc", name)})
        values = (json.loads(value_of(m)) for m in selected.values() if m["table"] == name)
        (shown,) = {frozenset(value.get("data") or value["old"]) for value in values}
        assert 0 < len(shown) < len(events.tables[0].schema.columns)
        for offset, value in messages_of(events, SimpleOptions(zone=ZONE), columns=shown).items():
            got[source.numbers[offset]] = value
    assert_messages_equal(got, {n: value_of(m) for n, m in selected.items()}, selected)


@pytest.mark.parametrize("variant", ["simple-json", "simple-avro"])
def test_schema_changes_bootstraps_and_watermarks_come_back(variant: str, decoded: GoldenEvents) -> None:
    source, options = source_of(decoded, variant), options_of(variant)
    events, messages = source.events, source.messages
    assert events.watermarks is not None
    watermarks = {r["offset"]: r["commit_ts"] for r in events.watermarks.collect()}
    got: dict[str, list[tuple[int | None, bytes]]] = {
        "watermark": [
            (offset, simple.encode_watermark(ts, options, physical_ms(ts) + BUILT_AFTER_MS)[1])
            for offset, ts in watermarks.items()
        ],
        "ddl": [
            (d.position, simple.encode_ddl(d, options, physical_ms(d.commit_ts) + BUILT_AFTER_MS)) for d in events.ddl
        ],
        "bootstrap": [
            (b.position, simple.encode_bootstrap(b.schema, options, messages[b.position or 0]["now_ms"]))
            for b in events.bootstraps
        ],
    }
    for kind, found in got.items():
        want = {n: value_of(m) for n, m in enumerate(messages) if m["kind"] == kind}
        assert_messages_equal({n: value for n, value in found if n is not None}, want, dict(enumerate(messages)))
        assert len(found) == len(want)
    assert [d.position for d in events.ddl] == sorted(d.position or 0 for d in events.ddl)
    assert events.watermark == max(int(m["commit_ts"]) for m in messages if m["kind"] == "watermark")


def test_schema_changes_with_the_table_before_come_back(decoded: GoldenEvents) -> None:
    found: dict[str, tuple[Ddl, ...]] = {}
    for variant in ("simple-json-pretable", "simple-avro-pretable"):
        source = decoded(variant)
        found[variant] = source.events.ddl
        got = [
            simple.encode_ddl(d, options_of(variant), physical_ms(d.commit_ts) + BUILT_AFTER_MS)
            for d in source.events.ddl
        ]
        want = dict(enumerate(source.messages))
        assert_messages_equal(dict(enumerate(got)), {n: value_of(m) for n, m in want.items()}, want)
    in_json, in_avro = found.values()
    assert all(d.before for d in in_avro)
    assert in_json == in_avro


def in_partitions(records: DataFrame) -> DataFrame:
    """Return messages as Kafka has them: those for all partitions in each of three, and no order between partitions."""
    everywhere = F.array(*map(F.lit, range(3)))
    mine = F.when(F.col("partition").isNull(), everywhere).otherwise(F.array("partition"))
    return records.withColumn("partition", F.explode(mine))


@full
@pytest.mark.parametrize("variant", ["simple-json-checksum", "simple-avro-checksum"])
def test_rows_fit_their_checksums_before_and_after(
    variant: str, golden: Callable[[str], Path], decoded: GoldenEvents
) -> None:
    source = decoded(variant)
    twins = {m["n"]: m["expect"] for m in lines(golden("avro-checksum.jsonl.gz"))}
    checked = verify(source.events).select("offset", "op", "verdict", "corrupted").collect()
    assert {(r["verdict"], r["op"]) for r in checked} >= {("match", "c"), ("match", "u"), ("delete", "d")}
    wrong = {source.numbers[r["offset"]] for r in checked if r["verdict"] in ("mismatch", "unreadable")}
    # The rows whose bytes were damaged before TiCDC saw them, and no others.
    assert wrong == {source.numbers[r["offset"]] for r in checked if r["corrupted"]}
    assert wrong >= {n for n, expect in twins.items() if expect == "mismatch"} != set()


@pytest.mark.parametrize("variant", ["simple-json-checksum", pytest.param("simple-avro-checksum", marks=full)])
def test_partitions_without_an_order_have_the_same_schemas(
    variant: str, golden: Callable[[str], Path], decoded: GoldenEvents, spark: SparkSession
) -> None:
    path = golden(f"{variant}.jsonl.gz")
    few = [n for n, m in enumerate(lines(path)) if m["kind"] != "dml" or m["table"] in ("t_gen", "t_evo_pk")]
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    schemas = {s.key: s for s in decoded(variant).events.history or ()}
    head = in_partitions(records.frame.where(F.col("offset").isin(few)))
    with decode_simple(head, ordered=False, zone=ZONE) as events:
        assert {s.key: s for s in events.history or ()} == schemas != {}
        checked = verify(events).select("verdict", "corrupted").collect()
    assert any(c.virtual for t in events.tables for c in t.schema.columns)
    assert [r for r in checked if (r["verdict"] == "mismatch") != r["corrupted"]] == []


def test_messages_of_all_partitions_count_once(golden: Callable[[str], Path], spark: SparkSession) -> None:
    path = golden("simple-avro.jsonl.gz")
    messages = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    head = records.frame.where(F.col("partition").isNull() & (F.col("offset") < 60))
    with decode_simple(head, ordered=True) as once, decode_simple(in_partitions(head), ordered=False) as thrice:
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
