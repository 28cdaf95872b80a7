"""Every golden Avro message decodes to the row that its Simple JSON twin decodes to.

`avro-checksum`, the richest variant, with all tables; the others with those that show each kind of column.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from avro_events import decode_avro
from differences import assert_messages_equal
from golden_data import ONE_OF_EACH_IN_AVRO, lines
from golden_events import ZONE, GoldenEvents
from known_schemas import KnownSchemas
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidecast.model import Events, Kind, sanitize
from tidecast.sources import read_records
from tidecast.spark import union

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
        parts = F.struct(F.map_concat(*texts).alias("texts"), F.array(*map(F.lit, decimals)).alias("decimals"))
        return F.when(F.col(name).isNotNull(), parts)

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

    def read(parts: Any) -> Row | None:
        if parts is None:
            return None
        return {n: Decimal(v) if v is not None and n in parts["decimals"] else v for n, v in parts["texts"].items()}

    found = union(frames).collect()
    return {r["offset"]: (r["table"], r["op"], r["commit_ts"], read(r["old"]), read(r["data"])) for r in found}


@pytest.fixture(scope="module")
def twins(decoded: GoldenEvents) -> dict[int, Any]:
    """The rows of the Simple JSON messages, by event number."""
    source = decoded("simple-json")
    return {source.numbers[place]: row for place, row in rows_of(source.events).items()}


@pytest.mark.parametrize("variant", ["avro", "avro-ext", "avro-checksum"])
def test_avro_messages_decode_to_the_rows_of_their_twins(
    variant: str, twins: dict[int, Any], decoded: GoldenEvents
) -> None:
    source = decoded(variant, None if variant == "avro-checksum" else ONE_OF_EACH_IN_AVRO)
    assert source.events.rejected.count() == 0
    extended = variant != "avro"

    def expected(number: int, old: Row | None) -> Any:
        """Return what a message says of its twin's row: of a delete the key alone, and the rest as its columns do."""
        table, op, commit_ts, twin_old, twin_new = twins[number]
        if op == "d":
            return table, "d", None, {name: twin_old[name] for name in old or {}}, None
        return table, op if extended else "c", commit_ts if extended else None, old, twin_new

    rows = rows_of(source.events)
    assert all(row[3] for row in rows.values() if row[1] == "d")
    assert_messages_equal(
        rows,
        {n: expected(m["n"], rows[n][3] if n in rows else None) for n, m in enumerate(source.messages)},
        dict(enumerate(source.messages)),
    )


def test_watermarks_and_schema_changes_of_avro_are_read(golden: Callable[[str], Path], spark: SparkSession) -> None:
    path = golden("avro-watermark.jsonl.gz")
    messages = lines(path)
    records, _ = read_records(spark, f"file://{path}?protocol=avro")
    with decode_avro(records.frame, KnownSchemas({}), ordered=True, zone=ZONE) as events:
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
    with decode_avro(records.frame, KnownSchemas(schemas), ordered=True, zone=ZONE) as events:
        rows = rows_of(events)
        empty = {r["offset"] for r in events.rejected.where("reason = 'bad-message'").select("offset").collect()}
    assert empty == {n for n, m in enumerate(messages) if m["value"] is None}
    assert_messages_equal(
        {n: row[4] for n, row in rows.items()},
        {n: twins[m["n"]][4] for n, m in enumerate(messages) if m["value"] is not None},
        dict(enumerate(messages)),
    )
