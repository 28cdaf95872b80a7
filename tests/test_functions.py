"""The functions on columns give what the events give."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_data import lines, of_tables, registry_folder, topic
from golden_events import ZONE
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidecast
from tidecast import ConfigError
from tidecast.functions import from_ticdc_avro, row_checksum
from tidecast.spark import union

TABLES = frozenset({("orc", name) for name in ("t_all", "t_num", "t_time", "t_evo_pk", "t_enum")})


@pytest.fixture(scope="module")
def schemas(golden: Callable[[str], Path]) -> dict[int, str]:
    """The texts of the golden schemas by id."""
    return {s["id"]: s["schema"] for s in lines(golden("avro-checksum.schemas.jsonl.gz"))}


def test_golden_messages_give_the_rows_and_checksums_of_the_events(
    session: SparkSession, golden: Callable[[str], Path], schemas: dict[int, str], tmp_path: Path
) -> None:
    """With ANSI rules and without them; the checksum fits where the golden data say so."""
    messages = of_tables(lines(golden("avro-checksum.jsonl.gz")), TABLES)
    file = topic(tmp_path / "topic.jsonl", messages)
    registry = registry_folder(golden("avro-checksum.schemas.jsonl.gz"), tmp_path / "registry")
    expected = {n: (m["db"], m["table"], m["expect"]) for n, m in enumerate(messages) if m["value"]}
    source = f"file://{file}?protocol=avro"
    frames = []
    with tidecast.read(session, source, schema_registry=registry, tz=ZONE) as events:
        for changes in events.tables:
            if changes.upserts_from is None:
                continue
            text = schemas[changes.schema.version]
            row = from_ticdc_avro("value", text, schema_id=changes.schema.version, tz=ZONE)
            frame = changes.frame.withColumn("m", row)
            carried = F.col("m.checksum.current")
            frames.append(
                frame.select(
                    "offset",
                    F.struct("data", "op", "commit_ts", "checksum").eqNullSafe(F.col("m")).alias("same"),
                    (row_checksum("m.data", text) == carried).alias("match"),
                    (row_checksum(F.col("data"), changes.schema) == row_checksum("m.data", text)).alias("alike"),
                    F.col("m.data").isNotNull().alias("there"),
                )
            )
        found = {r["offset"]: r for r in union(frames).collect()}
    assert found.keys() == expected.keys()
    assert all(r["same"] and r["alike"] and r["there"] for r in found.values())
    assert {n for n, r in found.items() if r["match"]} == {n for n, (*_, e) in expected.items() if e == "match"}
    assert {(database, table) for database, table, _ in expected.values()} == TABLES


def test_messages_that_are_not_of_the_schema_are_null(
    spark: SparkSession, golden: Callable[[str], Path], schemas: dict[int, str]
) -> None:
    message = next(m for m in lines(golden("avro-checksum.jsonl.gz")) if m["table"] == "t_evo" and m["value"])
    number = int.from_bytes(base64.b64decode(message["value"])[1:5], "big")
    text = schemas[number]
    whole = F.unbase64(F.lit(message["value"]))
    length = F.octet_length(whole)
    cases = {
        "whole": from_ticdc_avro(whole, text, tz=ZONE),
        "right_id": from_ticdc_avro(whole, text, schema_id=number, tz=ZONE),
        "other_id": from_ticdc_avro(whole, text, schema_id=number + 1, tz=ZONE),
        "cut": from_ticdc_avro(F.substring(whole, F.lit(1), length - 1), text, tz=ZONE),
        "longer": from_ticdc_avro(F.concat(whole, F.lit(b"\0")), text, tz=ZONE),
        "unframed": from_ticdc_avro(F.concat(F.lit(b"\1"), F.substring(whole, F.lit(2), length)), text, tz=ZONE),
        "headless": from_ticdc_avro(F.substring(whole, 1, 3), text, tz=ZONE),
        "nothing": from_ticdc_avro(F.lit(None).cast("binary"), text, tz=ZONE),
    }
    (found,) = spark.range(1).select(*(case.isNotNull().alias(name) for name, case in cases.items())).collect()
    assert found.asDict() == {name: name in ("whole", "right_id") for name in cases}


def test_a_schema_that_is_none_of_ticdcs_is_refused(spark: SparkSession) -> None:
    for call in (from_ticdc_avro, row_checksum):
        with pytest.raises(ConfigError, match="not one of TiCDC's Avro schemas"):
            call("value", '{"type": "string"}')
    with pytest.raises(ConfigError, match="unknown time zone 'Mars'"):
        from_ticdc_avro("value", '{"type": "string"}', tz="Mars")
