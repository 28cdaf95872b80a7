"""Rows of every type survive Debezium, but for what `fidelity` names; and that is all damaged by somebody's row."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from decoded_events import decoded as decode
from encoding import encoded
from full import full
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strategies import fixed

from tidecast.model import RECORD, Column, DataType, Index, Kind, TableSchema, row_type
from tidecast.protocols import debezium
from tidecast.protocols.debezium import DebeziumEncoder, DebeziumOptions
from tidecast.spark import small_table

EXAMPLES = 500
UTF8 = ("utf8mb4", "utf8mb4_bin")
COMMIT_TS = 447984074911121426

VARIANTS = {
    "schema": DebeziumOptions(),
    "schema-ext": DebeziumOptions(enable_tidb_extension=True, cluster_id="a-1"),
    "known": DebeziumOptions(disable_schema=True, zone="Europe/Berlin"),
}
"""Messages that hold their schema, and messages of a table that the reader knows."""


def integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.sampled_from([low, high]) | st.integers(low, high)


def times(digits: int) -> st.SearchStrategy[str]:
    moments = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2037, 12, 31))
    moments |= moments.map(lambda m: m.replace(microsecond=0))
    zero = "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    cut = {0: -7, 6: None}.get(digits, digits - 6)
    return moments.map(lambda m: m.strftime("%Y-%m-%d %H:%M:%S.%f")[:cut]) | st.just(zero)


def durations(digits: int) -> st.SearchStrategy[str]:
    def text(units: int) -> str:
        seconds, fraction = divmod(abs(units), 10**digits)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return ("-" if units < 0 else "") + clock + (f".{fraction:0{digits}}" if digits else "")

    limit = (838 * 3600 + 59 * 60 + 59) * 10**digits
    return integers(-limit, limit).map(text) | st.just("00:00:00" + ("." + "0" * digits if digits else ""))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [f"{chr(c)}x" for c in range(0x20)] + ['"', "\\", '\\"', '},"schema":{', ',"payload":', "\u2028</&>", "\x7f"]
)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
EIGHTHS = integers(-(10**6), 10**6).map(lambda n: n / 8)

COLUMNS: dict[str, tuple[DataType, pa.DataType, st.SearchStrategy[Any]]] = {
    "tiny": (DataType("tinyint", length=4), pa.int32(), integers(-128, 127)),
    "utiny": (DataType("tinyint", length=3, unsigned=True), pa.int32(), integers(0, 255)),
    "small": (DataType("smallint", length=6), pa.int32(), integers(-(2**15), 2**15 - 1)),
    "medium": (DataType("mediumint", length=8, unsigned=True), pa.int32(), integers(0, 2**24 - 1)),
    "uint": (DataType("int", length=10, unsigned=True), pa.int64(), integers(0, 2**32 - 1)),
    "big": (DataType("bigint", length=20), pa.int64(), integers(-(2**63), 2**63 - 1)),
    "ubig": (DataType("bigint", length=20, unsigned=True), pa.decimal128(20, 0), integers(0, 2**64 - 1).map(Decimal)),
    "f": (DataType("float", length=12), pa.float32(), st.just(-0.0) | FLOATS),
    "fmd": (DataType("float", length=7), pa.float32(), st.just(-0.0) | EIGHTHS),
    "d": (DataType("double", length=22), pa.float64(), st.just(-0.0) | DOUBLES),
    "dec": (DataType("decimal", length=12, decimal=3), pa.decimal128(12, 3), fixed(12, 3)),
    "dec15": (DataType("decimal", length=15, decimal=10), pa.decimal128(15, 10), fixed(15, 10)),
    "small dec": (DataType("decimal", length=30, decimal=30), pa.decimal128(30, 30), fixed(30, 30)),
    "full.dec": (DataType("decimal", length=38, decimal=0), pa.decimal128(38, 0), fixed(38, 0)),
    "wide": (DataType("decimal", length=65, decimal=30), pa.string(), fixed(65, 30).map(lambda n: format(n, "f"))),
    "v": (DataType("varchar", *UTF8, length=12), pa.string(), texts),
    "had": (DataType("varchar", *UTF8, length=12), pa.string(), texts),
    "w": (DataType("text", *UTF8, length=65535), pa.string(), texts),
    "b": (DataType("varbinary", length=90), pa.binary(), st.binary(max_size=90)),
    "bit": (DataType("bit", length=1, unsigned=True), pa.binary(), st.sampled_from([b"\0", b"\1"])),
    "bits": (DataType("bit", length=12, unsigned=True), pa.binary(), integers(0, 4095).map(lambda n: n.to_bytes(2))),
    "bits64": (DataType("bit", length=64, unsigned=True), pa.binary(), st.binary(min_size=8, max_size=8)),
    "e": (
        DataType("enum", *UTF8, elements=("a", "b,c", "it's")),
        pa.string(),
        st.sampled_from(["", "a", "b,c", "it's"]),
    ),
    "s": (DataType("set", *UTF8, elements=("x", "y", "z")), pa.string(), st.sampled_from(["", "x", "x,z", "x,y,z"])),
    "j": (DataType("json", length=4294967295), pa.string(), st.sampled_from(["null", '{"k": [1, 2.0]}', '"é"'])),
    "date": (
        DataType("date", length=10),
        pa.string(),
        st.dates().map(str) | st.sampled_from(["0000-00-00", "2023-02-31"]),
    ),
    "at": (DataType("datetime", length=19), pa.string(), times(0)),
    "at3": (DataType("datetime", length=23, decimal=3), pa.string(), times(3)),
    "at4": (DataType("datetime", length=24, decimal=4), pa.string(), times(4)),
    "at6": (DataType("datetime", length=26, decimal=6), pa.string(), times(6)),
    "ts": (DataType("timestamp", length=19), pa.string(), times(0)),
    "ts6": (DataType("timestamp", length=26, decimal=6), pa.string(), times(6)),
    "dur": (DataType("time", length=10), pa.string(), durations(0)),
    "dur2": (DataType("time", length=13, decimal=2), pa.string(), durations(2)),
    "y": (DataType("year", length=4, unsigned=True), pa.int32(), st.sampled_from([0, 1901, 2155])),
    "vec": (DataType("vector", length=-1), pa.string(), st.sampled_from(["[1,2.5,-3]", "[]"])),
}
LOST = {
    "small dec": Decimal("0.123456789012345678901234567891"),
    "full.dec": Decimal("12345678901234567890123456789012345678"),
    "wide": "0.123456789012345678901234567891",
}
"""Values that the encoding surely damages, where chance seldom draws one."""
DEFAULTS = {"had": 'a "default"'}

TABLE = TableSchema(
    "my-db.1",
    "odd té名",
    0,
    1,
    (
        Column("id", DataType("int", length=11), nullable=False),
        *(Column(name, kind, default=DEFAULTS.get(name)) for name, (kind, _, _) in COLUMNS.items()),
    ),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Hypothesis's rows, all at once: one job of Spark for each would take all day."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.fixed_dictionaries({name: st.none() | values for name, (_, _, values) in COLUMNS.items()}))
    def draw(row: dict[str, Any]) -> None:
        found.append({"id": len(found), **row})

    draw()
    assert len(found) >= EXAMPLES
    return [*found, {"id": len(found), **dict.fromkeys(COLUMNS), **LOST}]


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_survive_but_for_what_fidelity_names(
    variant: str, rows: list[dict[str, Any]], spark: SparkSession
) -> None:
    options = VARIANTS[variant]
    fields = [pa.field("id", pa.int32()), *(pa.field(n, kind) for n, (_, kind, _) in COLUMNS.items())]
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
    renamed = table.rename_columns([f"c{n}" for n in range(table.num_columns)])
    data = F.struct(*(F.col(f"c{n}").alias(f.name) for n, f in enumerate(fields)))
    changes = spark.createDataFrame(renamed).select(
        F.lit("c").alias("op"),
        F.lit(COMMIT_TS).alias("commit_ts"),
        data.alias("data"),
        F.lit(None).cast(row_type(TABLE)).alias("old"),
        F.col("c0").cast("bigint").alias("offset"),
    )
    records, messages = records_of(changes, TABLE, options)
    known = [TABLE] if variant == "known" else []
    with decode(records, "debezium", ordered=True, zone=options.zone, schemas=known) as events:
        (decoded,) = events.tables
        assert decoded.schema.handle_key == ("id",)
        assert [c.name for c in decoded.schema.columns] == [c.name for c in TABLE.columns]
        found = decoded.frame.select("offset", "reason", "commit_ts", "data.*").collect()
    assert len(found) == len(rows)
    damaged: dict[str, tuple[Any, Any]] = {}
    kinds = {c.name: c.data_type.kind for c in TABLE.columns}
    for row in found:
        assert (row["reason"], row["commit_ts"]) == (None, COMMIT_TS)
        want = rows[row["offset"]]
        for name, got in zip(kinds, list(row)[3:], strict=True):
            if not same(kinds[name], got, want[name]):
                damaged[name] = (got, want[name])
        said = json.loads(messages[row["offset"]] or b"")["payload"]["after"]
        for name in ("id", "tiny", "big", "v", "w", "e", "j"):
            assert said[name] == want[name], name
        assert want["d"] is None or float(said["d"]) == want["d"]
    named = {name for name, _ in debezium.lossy_columns(TABLE, options)}
    if variant == "known":
        told = {name for name, _ in debezium.lossy_columns(TABLE, DebeziumOptions(enable_tidb_extension=True))}
        assert damaged.keys() == told - {"ts6", "dur2"}  # whose digits after the point the reader knows
    else:
        assert damaged.keys() == named, damaged


@pytest.mark.parametrize("schema", [pytest.param(True, marks=full), False])
def test_a_text_above_twenty_million_characters_is_read(schema: bool, spark: SparkSession) -> None:
    options = DebeziumOptions(disable_schema=not schema)
    id_, text = Column("id", DataType("int", length=11), nullable=False), Column("t", DataType("longtext", *UTF8))
    table = replace(TABLE, columns=(id_, text))
    data = F.struct(F.lit(1).alias("id"), F.repeat(F.lit("x"), F.lit(20_000_001)).alias("t"))
    changes = spark.range(1).select(
        F.lit(0).cast("bigint").alias("offset"),
        F.lit("c").alias("op"),
        F.lit(COMMIT_TS).alias("commit_ts"),
        data.alias("data"),
        F.lit(None).cast(row_type(table)).alias("old"),
    )
    records, _ = records_of(changes, table, options)
    with decode(records, "debezium", ordered=True, zone=options.zone, schemas=[] if schema else [table]) as events:
        (decoded,) = events.tables
        assert decoded.frame.select("reason", F.length("data.t")).collect() == [(None, 20_000_001)]


def records_of(
    changes: DataFrame, table: TableSchema, options: DebeziumOptions
) -> tuple[DataFrame, dict[int, bytes | None]]:
    """Return changes as records of a topic, and their values by offset."""
    made = encoded(changes, table, lambda rows: DebeziumEncoder(options, 1, whole=True))
    assert all(one.wrong is None for one in made)
    kinds = {"offset": pa.int64(), "key": pa.binary(), "value": pa.binary()}
    frame = small_table(changes.sparkSession, [(one.kept["offset"], one.key, one.value) for one in made], kinds)
    there = {name: F.col(name) for name in kinds}
    records = frame.select(*(there.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD.fields))
    return records, {one.kept["offset"]: one.value for one in made}


def same(kind: Kind, got: Any, want: Any) -> bool:
    if got is None or want is None:
        return got is want
    if kind is Kind.DECIMAL:
        return Decimal(str(got)) == Decimal(want)  # without the extension it is a double
    return bool((bytes(got) if isinstance(got, bytearray) else got) == want) and str(got)[:1] == str(want)[:1]
