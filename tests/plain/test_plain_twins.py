"""What Python makes of a value is what Spark's expressions make of it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from real_numbers import doubles, read_again, shortest_double, singles
from strategies import drawn, fixed, moments, texts

from tidecast.checksum import explain, plain_explain, plain_verdict, row_checksum
from tidecast.expressions import from_text, shift_zone
from tidecast.model import Column, DataType, TableSchema, row_type, spark_type
from tidecast.plain import (
    TakesSpark,
    Value,
    float_from,
    in_utc,
    real_of,
    real_text,
    shortest_text,
    value_text,
    zone_named,
)
from tidecast.plain import from_text as plain_from_text
from tidecast.spark import active_java

JAVA_IS_SHORTEST = 19
ELEMENTS = ("small", "it's", "中", "x y")
_float32 = st.floats(width=32).map(lambda x: struct.unpack("<f", struct.pack("<f", x))[0])
_finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    DataType("int"): _signed(32),
    DataType("tinyint"): _signed(8),
    DataType("int", unsigned=True): st.integers(0, 2**32 - 1),
    DataType("bigint"): _signed(64),
    DataType("bigint", unsigned=True): st.integers(0, 2**64 - 1),
    DataType("year", unsigned=True): st.integers(0, 2155),
    DataType("float"): _float32,
    DataType("double"): st.floats(),
    DataType("decimal", length=10, decimal=3): fixed(10, 3),
    DataType("decimal", length=38, decimal=30): fixed(38, 30),
    DataType("decimal"): fixed(65, 30).map(lambda d: format(d, "f")),
    DataType("varchar", "utf8mb4"): texts | st.text(max_size=400).filter(lambda t: t.isprintable()),
    DataType("blob"): st.binary(max_size=300),
    DataType("json"): texts,
    DataType("bit", length=10): st.binary(min_size=2, max_size=2),
    DataType("bit", length=64): st.binary(min_size=8, max_size=8),
    DataType("enum", elements=ELEMENTS): st.sampled_from(["", *ELEMENTS, "it\\'s", "it''s"]),
    DataType("set", elements=ELEMENTS): st.sets(st.sampled_from(ELEMENTS)).map(
        lambda some: ",".join(e for e in ELEMENTS if e in some)
    ),
    DataType("vector"): st.lists(_finite32, max_size=5).map(lambda v: f"[{','.join(map(repr, v))}]"),
    DataType("datetime", decimal=6): moments.map(lambda m: m.strftime("%Y-%m-%d %H:%M:%S.%f")),
    DataType("date"): moments.map(lambda m: m.strftime("%Y-%m-%d")),
    DataType("geometry"): texts,
}
"""Random values of each type, as the model holds them."""


def _table() -> TableSchema:
    # Ids run against the columns' order, which the checksum does not follow.
    columns = (Column(f"c{n}", kind, id=100 - n, virtual=n == 1) for n, kind in enumerate(VALUES))
    return TableSchema("test", "t", 1, 1, tuple(columns))


def _rows(schema: TableSchema, count: int) -> list[dict[str, Value]]:
    """Return so many rows, and one of NULLs; a type of few values has them again and again."""
    names = [c.name for c in schema.columns]
    values = [islice(cycle(drawn(strategy | st.none(), count)), count) for strategy in VALUES.values()]
    return [*(dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)), dict.fromkeys(names)]


def _frame(spark: SparkSession, schema: TableSchema, rows: Sequence[dict[str, Value]]) -> DataFrame:
    """Return rows as Spark has them, each as `data`."""
    decimals = {c.name for c in schema.columns if isinstance(spark_type(c.data_type), T.DecimalType)}
    made = [{n: Decimal(str(v)) if n in decimals and v is not None else v for n, v in row.items()} for row in rows]
    return spark.createDataFrame([(row,) for row in made], T.StructType([T.StructField("data", row_type(schema))]))


def _hexed(content: bytes | None) -> str | None:
    return None if content is None else content.hex().upper()


def test_rows_have_the_bytes_and_the_checksum_that_spark_computes(session: SparkSession) -> None:
    schema = _table()
    rows = _rows(schema, 300)
    frame = _frame(session, schema, rows)
    data = F.col("data")
    explained = [F.struct(*(text.alias(name) for name, text in explain(schema, data))).alias("bytes")]
    found = frame.select(*explained, row_checksum(schema, data).alias("checksum")).collect()
    for row, said in zip(rows, found, strict=True):
        mine = plain_explain(schema, row)
        assert {name: _hexed(mine[name]) for name in said["bytes"].asDict()} == said["bytes"].asDict()
        assert plain_verdict(schema, row, None).actual == said["checksum"]


def test_values_are_shown_as_spark_casts_them(spark: SparkSession) -> None:
    schema = _table()
    rows = _rows(schema, 300)
    frame = _frame(spark, schema, rows)

    def text(column: Column) -> Any:
        value = F.col("data")[column.name]
        return F.concat(F.lit("0x"), F.hex(value)) if isinstance(spark_type(column.data_type), T.BinaryType) else value

    found = frame.select(*(text(c).cast("string").alias(c.name) for c in schema.columns)).collect()
    for column in schema.columns:
        mine = [value_text(column.data_type, row[column.name]) for row in rows]
        spark_said = [row[column.name] for row in found]
        if column.data_type.mysql_type in ("float", "double"):
            kind = column.data_type.mysql_type
            mine, spark_said = _real_texts(mine, kind), _real_texts(spark_said, kind)
        assert mine == spark_said, column.data_type


def _real_texts(texts: Sequence[str | None], kind: str) -> list[str | None]:
    """Return the texts of numbers as one Java writes them: before version 19 some have a digit too many."""
    return list(texts) if active_java() >= JAVA_IS_SHORTEST else [str(read_again(t, kind)) for t in texts]


@pytest.mark.parametrize("is_float", [True, False], ids=["float", "double"])
def test_reals_are_written_as_java_does(is_float: bool, spark: SparkSession) -> None:
    numbers = singles() if is_float else doubles()
    kind = "float" if is_float else "double"
    rows = spark.createDataFrame([(n,) for n in numbers], f"x {kind}").select(F.col("x").cast("string"))
    said = [row[0] for row in rows.collect()]
    assert _real_texts([real_text(n, is_float=is_float) for n in numbers], kind) == _real_texts(said, kind)
    if not is_float:
        assert [shortest_text(n) for n in numbers] == [shortest_double(n) for n in numbers]


KNOWN = {
    2e-3: "0.002",
    2e23: "2.0E23",
    1e7: "1.0E7",
    123.0: "123.0",
    4.9e-324: "4.9E-324",
    1.5e-5: "1.5E-5",
    -0.0: "-0.0",
}


def test_reals_are_written_as_java_19_does() -> None:
    assert {n: real_text(n, is_float=False) for n in KNOWN} == KNOWN
    assert [real_text(x, is_float=True) for x in (3.4028234663852886e38, 1.401298464324817e-45)] == [
        "3.4028235E38",
        "1.4E-45",
    ]


TEXTS: dict[DataType, st.SearchStrategy[str]] = {
    DataType("int"): _signed(33).map(str),
    DataType("bigint"): _signed(65).map(str),
    DataType("int", unsigned=True): st.integers(-5, 2**33).map(str),
    DataType("bigint", unsigned=True): st.integers(-5, 2**65).map(str),
    DataType("year"): st.integers(0, 2155).map(str),
    DataType("float"): _finite32.map(repr) | st.floats(-1e3, 1e3).map(repr),
    DataType("double"): st.floats(allow_nan=False, allow_infinity=False).map(repr),
    DataType("decimal", length=8, decimal=2): fixed(9, 2).map(lambda d: format(d, "f")),
    DataType("decimal"): fixed(65, 30).map(lambda d: format(d, "f")),
    DataType("bit", length=10): st.integers(0, 2**11).map(str),
    DataType("enum", elements=ELEMENTS): st.integers(0, 6).map(str),
    DataType("set", elements=ELEMENTS): st.integers(0, 20).map(str),
    DataType("varchar", "utf8mb4"): texts,
}
ODD = [
    "",
    " 1",
    "1 ",
    "+1",
    "01",
    "1.0",
    "1e3",
    "-0",
    "x",
    "NaN",
    "Infinity",
    "1_0",
    "٣",
    "0x1",
    "1d",
    "1.",
    ".5",
    "1e-99999999",
]


@pytest.mark.parametrize("data_type", TEXTS, ids=str)
def test_texts_are_read_as_spark_reads_them_or_left_to_it(data_type: DataType, spark: SparkSession) -> None:
    given = [*drawn(TEXTS[data_type], 300), *ODD]
    rows = spark.createDataFrame([(t,) for t in given], "x string").select(from_text(data_type, F.col("x")))
    read = 0
    for text, (said,) in zip(given, rows.collect(), strict=True):
        try:
            mine = plain_from_text(data_type, text)
        except TakesSpark:
            continue
        read += 1
        wanted = int(said) if isinstance(said, Decimal) and isinstance(mine, int) else said
        assert mine == (bytes(wanted) if isinstance(wanted, bytearray) else wanted), text
    assert read


ZONES = ("Asia/Shanghai", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "+05:30", "-08:00")


@pytest.mark.parametrize("zone", ZONES)
def test_moments_are_shifted_as_spark_shifts_them(zone: str, spark: SparkSession) -> None:
    given = [m.strftime("%Y-%m-%d %H:%M:%S.%f")[: 19 + n] for n, m in enumerate_six(drawn(moments, 400))]
    # Clocks change: an hour that is never, one that is twice; and what is no moment.
    given += [
        f"2021-{day} {h:02}:{m:02}:00"
        for day in ("03-14", "11-07", "03-28", "10-31")
        for h in range(4)
        for m in (0, 30)
    ]
    given += ["0000-00-00 00:00:00", "2021-02-30 01:02:03", "x", "", "2021-01-01", "2021-01-01 00:00:00.1234567"]
    rows = spark.createDataFrame([(t,) for t in given], "x string").select(shift_zone(F.col("x"), zone, "UTC"))
    assert [in_utc(t, zone_named(zone)) for t in given] == [row[0] for row in rows.collect()]


def enumerate_six(items: Sequence[Any]) -> list[tuple[int, Any]]:
    """Return items with a number of digits for each: none, or a point and up to six."""
    return [(n % 7 + 1 if n % 7 else 0, item) for n, item in enumerate(items)]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "right/Asia/Shanghai", "posixrules", "GMT+8", "+8"])
def test_a_zone_that_spark_may_not_know_is_left_to_it(zone: str) -> None:
    with pytest.raises(TakesSpark):
        zone_named(zone)


def test_a_text_between_two_floats_is_left_to_spark() -> None:
    assert float_from("16777217.1") == 16777218
    assert float_from("1.4e-45") == 1.401298464324817e-45
    with pytest.raises(TakesSpark, match="between two floats"):
        float_from("16777217")


@pytest.mark.parametrize("text", ["1e-99999999", "1e99999999", "1e" + "9" * 30])
def test_an_exponent_beyond_all_floats_is_left_to_spark(text: str) -> None:
    for read in (float_from, real_of):
        with pytest.raises(TakesSpark):
            read(text)
