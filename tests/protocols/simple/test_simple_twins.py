"""Rows' messages that Spark joins from pieces: as plain Python writes them."""

from __future__ import annotations

import base64
import io
from typing import Any

import fastavro
import pyarrow as pa
from encoding import encoded as messages
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strategies import drawn, texts

from tidecast._go import to_json
from tidecast.model import CHECKSUM, Column, DataType, TableSchema, row_type
from tidecast.protocols.simple import SimpleEncoder, SimpleOptions
from tidecast.protocols.simple._avro import DML, beginning

COMMIT_TS, BUILD_TS = 447984074911121426, 1708936343598
UTF8 = ("utf8mb4", "utf8mb4_bin")
COLUMNS = {
    "b": (DataType("varbinary", length=9), pa.binary(), "bytes", st.binary(max_size=9)),
    "d": (DataType("double"), pa.float64(), "double", st.floats(-9e6, 9e6).map(lambda x: round(x, 3))),
    "n<": (DataType("bigint"), pa.int64(), "long", st.integers(-(2**63), 2**63 - 1)),
    "t": (DataType("varchar", *UTF8, length=200), pa.string(), "string", texts | st.just("x" * 70)),
    "é": (DataType("text", *UTF8), pa.string(), "string", texts),
}
TABLE = TableSchema("my-db", "té<1>", 7, 9, tuple(Column(name, c[0]) for name, c in COLUMNS.items()), ())
HEAD: dict[str, Any] = {"version": 1, "database": "my-db", "table": "té<1>", "tableID": 7, "type": "INSERT"}
HEAD |= {"commitTs": COMMIT_TS, "buildTs": BUILD_TS, "schemaVersion": 9}
ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, _, _, values) in COLUMNS.items()})


def inserts(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Return inserted rows as the changes of the table."""
    values = {f"c{n}": [row[name] for row in rows] for n, name in enumerate(COLUMNS)}
    kinds = {f"c{n}": kind for n, (_, kind, _, _) in enumerate(COLUMNS.values())}
    frame = spark.createDataFrame(pa.Table.from_pydict(values, schema=pa.schema(list(kinds.items())))).coalesce(1)
    return frame.select(
        F.lit("c").alias("op"),
        F.lit(None).cast(row_type(TABLE)).alias("old"),
        F.struct(*(F.col(f"c{n}").alias(name) for n, name in enumerate(COLUMNS))).alias("data"),
        F.lit(COMMIT_TS).alias("commit_ts"),
        F.lit(None).cast("bigint").alias("table_id"),
        F.lit(None).cast(CHECKSUM).alias("checksum"),
    )


def encoded(changes: DataFrame, encoding: Any) -> list[bytes]:
    encoder = SimpleEncoder(SimpleOptions(encoding), BUILD_TS)
    return [one.value or b"" for one in messages(changes, TABLE, lambda rows: encoder, keep=())]


def test_avro_joined_from_pieces_is_what_fastavro_writes(spark: SparkSession) -> None:
    rows = drawn(ROWS, 200)
    schema = fastavro.parse_schema(DML)

    def message(row: dict[str, Any]) -> bytes:
        data = {name: None if row[name] is None else (c[2], row[name]) for name, c in COLUMNS.items()}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, HEAD | {"data": data})
        return beginning(DML) + out.getvalue()

    assert encoded(inserts(spark, rows), "avro") == list(map(message, rows))


def test_json_joined_from_pieces_is_what_python_writes(spark: SparkSession) -> None:
    rows = drawn(ROWS, 200)
    messages = encoded(inserts(spark, rows), "json")
    assert [pair for pair in zip(messages, map(json_message, rows), strict=True) if pair[0] != pair[1]] == []


def json_message(row: dict[str, Any]) -> bytes:
    return to_json(HEAD | {"data": {name: shown(row[name]) for name in COLUMNS}}).encode()


def shown(value: Any) -> str | None:
    """Return the text that Simple shows of a value."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return repr(value).removesuffix(".0")
    return None if value is None else str(value)
