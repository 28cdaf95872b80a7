"""Every golden Avro message decodes to the row that its Simple JSON twin decodes to."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from golden_data import lines
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidecast.model import Events, Kind, sanitize
from tidecast.protocols import avro, simple
from tidecast.sources import read_records
from tidecast.spark import union

ZONE = "Asia/Shanghai"

Row = dict[str, str | Decimal | None]
"""A row by column, as text; decimals as numbers, since a string in Avro does not tell their scale."""


def rows_of(events: Events) -> dict[int, tuple[str, str, int | None, Row | None, Row | None]]:
    """Return table, operation, commit-ts, old and new row of each message, by its place in the file."""

    def text(kind: Kind, value: Column) -> Column:
        return F.hex(value) if kind in (Kind.BINARY, Kind.BIT) else value.cast("string")

    def side(changes: Any, name: str) -> Column:
        columns = changes.schema.columns
        texts = (F.create_map(F.lit(sanitize(c.name)), text(c.data_type.kind, F.col(name)[c.name])) for c in columns)
        decimals = [sanitize(c.name) for c in columns if c.data_type.kind is Kind.DECIMAL]
        said = F.struct(F.map_concat(*texts).alias("texts"), F.array(*map(F.lit, decimals)).alias("decimals"))
        return F.when(F.col(name).isNotNull(), said)

    frames = [
        t.good.select(
            "offset",
            F.lit(f"{sanitize(t.schema.database)}.{sanitize(t.schema.table)}").alias("table"),
            "op",
            "commit_ts",
            side(t, "old").alias("old"),
            side(t, "data").alias("data"),
        )
        for t in events.tables
    ]

    def read(said: Any) -> Row | None:
        if said is None:
            return None
        return {n: Decimal(v) if v is not None and n in said["decimals"] else v for n, v in said["texts"].items()}

    found = union(frames).collect()
    return {r["offset"]: (r["table"], r["op"], r["commit_ts"], read(r["old"]), read(r["data"])) for r in found}


@pytest.fixture(scope="module")
def twins(golden: Callable[[str], Path], spark: SparkSession) -> dict[int, Any]:
    """The rows of the Simple JSON messages, by event number."""
    path = golden("simple-json.jsonl.gz")
    records, _ = read_records(spark, f"file://{path}?protocol=simple")
    with simple.decode(records.frame, ordered=True, zone=ZONE) as events:
        rows = rows_of(events)
    return {line["n"]: rows[n] for n, line in enumerate(lines(path)) if line["kind"] == "dml"}


@pytest.mark.parametrize("variant", ["avro", "avro-ext", "avro-checksum"])
def test_avro_messages_decode_to_the_rows_of_their_twins(
    variant: str, golden: Callable[[str], Path], twins: dict[int, Any], spark: SparkSession
) -> None:
    schemas = {s["id"]: s["schema"] for s in lines(golden(f"{variant}.schemas.jsonl.gz"))}
    path = golden(f"{variant}.jsonl.gz")
    messages = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=avro")
    with avro.decode(records.frame, schemas.get, ordered=True, zone=ZONE) as events:
        rows = rows_of(events)
        assert events.rejected.count() == 0
    assert rows.keys() == set(range(len(messages)))
    extended = variant != "avro"
    for place, message in enumerate(messages):
        table, op, commit_ts, old, new = rows[place]
        twin_table, twin_op, twin_ts, twin_old, twin_new = twins[message["n"]]
        said = (variant, message["n"], table)
        assert table == twin_table
        if twin_op == "d":
            assert (op, new, commit_ts) == ("d", None, None), said
            assert old is not None
            assert old == {name: twin_old[name] for name in old}, said
        else:
            assert op == (twin_op if extended else "c"), said
            assert commit_ts == (twin_ts if extended else None), said
            assert new == twin_new, said


def test_watermarks_and_schema_changes_of_avro_are_read(golden: Callable[[str], Path], spark: SparkSession) -> None:
    path = golden("avro-watermark.jsonl.gz")
    messages = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=avro")
    with avro.decode(records.frame, lambda _: None, ordered=True, zone=ZONE) as events:
        assert events.rejected.count() == 0
    assert events.tables == ()
    assert events.watermark == max(int(m["commit_ts"]) for m in messages if m["kind"] == "watermark")
    assert [d.commit_ts for d in events.ddl] == sorted(int(m["commit_ts"]) for m in messages if m["kind"] == "ddl")
    assert all(d.sql for d in events.ddl)


def test_rows_without_a_key_are_read_but_not_deletes_that_are_empty(
    golden: Callable[[str], Path], twins: dict[int, Any], spark: SparkSession
) -> None:
    schemas = {s["id"]: s["schema"] for s in lines(golden("avro-ext-uknull.schemas.jsonl.gz"))}
    path = golden("avro-ext-uknull.jsonl.gz")
    messages = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=avro")
    with avro.decode(records.frame, schemas.get, ordered=True, zone=ZONE) as events:
        rows = rows_of(events)
        empty = {r["offset"] for r in events.rejected.where("reason = 'bad-message'").select("offset").collect()}
    assert empty == {n for n, m in enumerate(messages) if m["value"] is None}
    assert {n: row[4] for n, row in rows.items()} == {
        n: twins[m["n"]][4] for n, m in enumerate(messages) if m["value"] is not None
    }
