"""What a table's columns get: moments, defaults and hashes as Spark, MySQL and Java have them."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidecast.model import DataType
from tidecast.replica.tables import table_type, table_value
from tidecast.replica.tables._mask import _as_text
from tidecast.values import TEXT

_TEXTS = [
    "2024-02-29",
    "2023-02-29",
    "0000-00-00",
    "0000-01-01",
    "0001-01-01",
    "1582-10-10",
    "9999-12-31",
    "2024-13-01",
    "2024-1-5",
    "2024",
    "2024-02-29 23:59:59",
    "2024-02-29 23:59:59.000001",
    "2024-02-29 23:59:60",
    "2024-02-29 24:00:00",
    "1969-12-31 23:59:59.9",
    "2024-02-29T01:02:03",
    "2024-02-29 01:02",
    "2024-02-29 01:02:03.1234567",
    "2024-02-29 01:02:03Z",
    "0000-00-00 00:00:00",
    "0000-01-01 00:00:00.5",
    "today",
    "",
    None,
]


@pytest.mark.parametrize("mysql_type", ["date", "datetime", "timestamp"])
def test_moments_are_those_that_spark_reads(spark: SparkSession, mysql_type: str) -> None:
    data_type = DataType(mysql_type, decimal=6)
    zoned = F.concat("text", F.lit("Z")) if mysql_type == "timestamp" else F.col("text")
    texts = spark.createDataFrame([(text,) for text in _TEXTS], "text string")
    read = zoned.try_cast(table_type(data_type))
    # Python has no year 0, and a timestamp is shown in the session's zone.
    number = F.unix_date(read) if mysql_type == "date" else F.unix_micros(read.cast("timestamp"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    expected = [row[0] for row in texts.select(number).collect()]
    found = table_value(pa.array(_TEXTS, TEXT), data_type)
    assert found.cast(pa.int32() if mysql_type == "date" else pa.int64()).to_pylist() == expected


@pytest.mark.parametrize("kind", ["float", "double"])
def test_hashed_floats_are_written_as_java_writes_them(spark: SparkSession, kind: str) -> None:
    """Tables have hashes of these texts."""
    width, arrow = ("f", pa.float32()) if kind == "float" else ("d", pa.float64())
    plain = [0.0, -0.0, 1.0, -1.5, 0.001, 0.00099, 9999999.0, 1e7, 1.25e-10, 123456.789, 1e20, 3.4e38, 100.0, 1200000.0]
    bits = np.random.default_rng(5).integers(0, 1 << 62, 300)
    values = pa.array(plain, arrow).to_pylist() + [
        struct.unpack(width, b.tobytes()[: 4 if width == "f" else 8])[0] for b in bits
    ]
    finite = [v for v in values if np.isfinite(v)]
    frame = spark.createDataFrame([(v,) for v in finite], f"v {kind}")
    java = [row[0] for row in frame.select(F.col("v").cast("string")).collect()]
    ours = _as_text(pa.array(finite, arrow)).to_pylist()
    assert ours[: len(plain)] == java[: len(plain)]
    # Java before 19 may write more digits than tell a number from all others.
    same = np.float32 if kind == "float" else np.float64
    unlike = [(a, b) for a, b in zip(java, ours, strict=True) if a != b]
    assert [(a, b) for a, b in unlike if same(a) != same(b) or len(a) <= len(b)] == []
