"""Rows of every type survive encoding and decoding, and fastavro reads the same values."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from avro_events import decode_avro
from encoding import encoded
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from known_schemas import KnownSchemas
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from strategies import fixed, plain, texts, utc_texts

from tidecast.model import CHECKSUM, RECORD, Column, DataType, Index, TableSchema, row_type
from tidecast.protocols import RoutedTable, avro
from tidecast.protocols.avro import AvroEncoder, AvroOptions
from tidecast.spark import small_table

UTF8 = ("utf8mb4", "utf8mb4_bin")
OPTIONS = {
    "precise-long": AvroOptions(),
    "string-string": AvroOptions(
        enable_tidb_extension=True,
        decimal_handling_mode="string",
        bigint_unsigned_handling_mode="string",
        checksum=True,
        zone="Europe/Berlin",
    ),
}


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)

COLUMNS: dict[str, tuple[DataType, pa.DataType, st.SearchStrategy[Any]]] = {
    "tiny": (DataType("tinyint", length=4), pa.int32(), st.integers(-128, 127)),
    "medium": (DataType("mediumint", length=8, unsigned=True), pa.int32(), st.integers(0, 2**24 - 1)),
    "uint": (DataType("int", length=10, unsigned=True), pa.int64(), st.integers(0, 2**32 - 1)),
    "big": (DataType("bigint", length=20), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "ubig": (
        DataType("bigint", length=20, unsigned=True),
        pa.decimal128(20, 0),
        st.integers(0, 2**64 - 1).map(Decimal),
    ),
    "f": (DataType("float", length=12), pa.float32(), floats),
    "d": (DataType("double", length=22), pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "dec": (DataType("decimal", length=12, decimal=3), pa.decimal128(12, 3), fixed(12, 3)),
    "small dec": (DataType("decimal", length=30, decimal=30), pa.decimal128(30, 30), fixed(30, 30)),
    "full.dec": (DataType("decimal", length=38, decimal=0), pa.decimal128(38, 0), fixed(38, 0)),
    "wide": (DataType("decimal", length=65, decimal=30), pa.string(), fixed(65, 30).map(plain)),
    "wide0": (DataType("decimal", length=65, decimal=0), pa.string(), fixed(65, 0).map(plain)),
    "v": (DataType("varchar", *UTF8, length=12), pa.string(), texts),
    "w": (DataType("text", *UTF8, length=65535), pa.string(), texts),
    "b": (DataType("varbinary", length=9), pa.binary(), st.binary(max_size=9)),
    "bits": (DataType("bit", length=12, unsigned=True), pa.binary(), st.integers(0, 4095).map(lambda n: n.to_bytes(2))),
    "bits64": (DataType("bit", length=64, unsigned=True), pa.binary(), st.binary(min_size=8, max_size=8)),
    "e": (DataType("enum", *UTF8, elements=("a", "b,c", "it's")), pa.string(), st.sampled_from(["a", "b,c", "it's"])),
    "s": (DataType("set", *UTF8, elements=("x", "y", "z")), pa.string(), st.sampled_from(["", "x", "x,z", "x,y,z"])),
    "j": (DataType("json", length=4294967295), pa.string(), st.sampled_from(["null", '{"k": [1, 2.0]}', '"é"'])),
    "date": (DataType("date", length=10), pa.string(), st.dates().map(str) | st.just("0000-00-00")),
    "at": (DataType("datetime", length=26, decimal=6), pa.string(), utc_texts),
    "ts": (DataType("timestamp", length=26, decimal=6), pa.string(), utc_texts),
    "dur": (DataType("time", length=10), pa.string(), st.sampled_from(["-838:59:59", "00:00:00", "838:59:59"])),
    "y": (DataType("year", length=4, unsigned=True), pa.int32(), st.sampled_from([0, 1901, 2155])),
    "vec": (DataType("vector", length=-1), pa.string(), st.sampled_from(["[1,2.5,-3]", "[]"])),
}

TABLE = TableSchema(
    "my-db.1",
    "odd té名",
    1,
    1,
    (
        Column("id", DataType("int", length=11), nullable=False),
        *(Column(name, kind) for name, (kind, _, _) in COLUMNS.items()),
    ),
    (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
)

ROUTED = RoutedTable(TABLE, TABLE, "topic")

rows = st.fixed_dictionaries({name: st.none() | values for name, (_, _, values) in COLUMNS.items()})


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(batch=st.lists(rows, min_size=1, max_size=12))
@example(batch=[dict.fromkeys(COLUMNS) | {"ubig": Decimal(number)} for number in (0, 2**63 - 1, 2**63, 2**64 - 1)])
def test_rows_survive(options: AvroOptions, batch: list[dict[str, Any]], session: SparkSession) -> None:
    fields = [pa.field("id", pa.int32()), *(pa.field(n, kind) for n, (_, kind, _) in COLUMNS.items())]
    given_rows = [{"id": n, **row} for n, row in enumerate(batch)]
    table = pa.Table.from_pylist(given_rows, schema=pa.schema(fields))
    renamed = table.rename_columns([f"c{n}" for n in range(table.num_columns)])
    data = F.struct(*(F.col(f"c{n}").alias(f.name) for n, f in enumerate(fields)))
    changes = session.createDataFrame(renamed).select(
        F.lit("c").alias("op"),
        F.lit(447984074911121426).alias("commit_ts"),
        data.alias("data"),
        F.lit(None).cast(row_type(TABLE)).alias("old"),
        F.lit(None).cast(CHECKSUM).alias("checksum"),
        F.col("c0").alias("id"),
    )
    texts = {1: avro.key_schema(TABLE, options), 2: avro.value_schema(TABLE, options)}
    schemas = KnownSchemas(texts)
    ids = {avro.schema_key(ROUTED, part): number for number, part in ((1, "key"), (2, "value"))}
    messages = {
        one.kept["id"]: one for one in encoded(changes, TABLE, lambda rows: AvroEncoder(options, ids), keep=("id",))
    }
    kinds = {"offset": pa.int64(), "key": pa.binary(), "value": pa.binary()}
    given = small_table(session, [(n, one.key, one.value) for n, one in messages.items()], kinds)
    record = {f.name: F.lit(None).cast(f.dataType).alias(f.name) for f in RECORD.fields}
    record |= {name: F.col(name) for name in kinds}
    with decode_avro(given.select(*record.values()), schemas, ordered=True, zone=options.zone) as events:
        (decoded,) = events.tables
        assert decoded.schema.handle_key == ("id",)
        found = decoded.frame.select("offset", "reason", "data.*").collect()
    assert len(found) == len(given_rows)
    parsed = {part: fastavro.parse_schema(json.loads(text)) for part, text in texts.items()}
    for row in found:
        assert row["reason"] is None
        expected = given_rows[row["offset"]]
        values = list(row)[2:]
        for name, got in zip((f.name for f in fields), values, strict=True):
            want = expected[name]
            said = bytes(got) if isinstance(got, bytearray) else got
            if name in ("dec", "small dec", "full.dec") and isinstance(said, str):
                said = Decimal(said)
            assert same(said, want), (name, said, want)
        message = messages[row["offset"]]
        independent: Any = fastavro.schemaless_reader(io.BytesIO((message.value or b"")[5:]), parsed[2])
        assert independent["id"] == row["offset"]
        assert independent["v"] == expected["v"]
        assert independent["big"] == expected["big"]
        if options.decimal_handling_mode == "precise":
            for name in ("dec", "small_dec", "full_dec"):
                want = expected[name.replace("_", " ") if name == "small_dec" else name.replace("_", ".")]
                assert same(independent[name], want), name


def same(got: Any, want: Any) -> bool:
    return bool(got == want) and str(got)[:1] == str(want)[:1]
