"""Random rows of random tables survive encoding and decoding, in both encodings, in one batch of messages."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from decoded_events import decode_simple
from encoding import encoded
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from strategies import drawn, fixed, plain, texts, utc_texts

from tidecast.model import CHECKSUM, RECORD, Column, DataType, Index, TableSchema
from tidecast.protocols import simple
from tidecast.protocols.simple import SimpleEncoder, SimpleOptions
from tidecast.spark import small_table, union

EXAMPLES = 500
UTF8 = ("utf8mb4", "utf8mb4_bin")
ZONE = "Asia/Tokyo"  # no wall clock time of it comes twice since 1970
COMMIT_TS = 447984074911121426


elements = ("a", "b,c", "it's")
members = tuple(f"m{n}" for n in range(64))
bits12 = st.integers(0, 4095).map(lambda n: n.to_bytes(2))

# The model holds ENUM, SET and so on as text, and DECIMAL of more than 38 digits, too.
COLUMNS: dict[str, tuple[DataType, pa.DataType, st.SearchStrategy[Any]]] = {
    "tiny": (DataType("tinyint", length=4), pa.int32(), st.integers(-128, 127)),
    "medium": (DataType("mediumint", length=8, unsigned=True), pa.int32(), st.integers(0, 2**24 - 1)),
    "uint": (DataType("int", length=10, unsigned=True, zerofill=True), pa.int64(), st.integers(0, 2**32 - 1)),
    "big": (DataType("bigint", length=20), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u<b>ig": (DataType("bigint", length=20, unsigned=True), pa.decimal128(20), st.integers(0, 2**64 - 1).map(Decimal)),
    "f": (DataType("float", length=12), pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "d": (DataType("double", length=22), pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "dec": (DataType("decimal", length=12, decimal=3), pa.decimal128(12, 3), fixed(12, 3)),
    "small dec": (DataType("decimal", length=30, decimal=30), pa.decimal128(30, 30), fixed(30, 30)),
    "wide.dec": (DataType("decimal", length=65, decimal=30), pa.string(), fixed(65, 30).map(plain)),
    'v"\\': (DataType("varchar", *UTF8, length=12), pa.string(), texts),
    "té`\x0f": (DataType("text", *UTF8, length=65535), pa.string(), texts | texts.map(lambda t: t * 200)),
    "b": (DataType("varbinary", length=99), pa.binary(), st.binary(max_size=99)),
    "bits": (DataType("bit", length=12, unsigned=True), pa.binary(), bits12),
    "bits64": (DataType("bit", length=64, unsigned=True), pa.binary(), st.binary(min_size=8, max_size=8)),
    "e": (DataType("enum", *UTF8, length=4, elements=elements), pa.string(), st.sampled_from([*elements, ""])),
    "s": (
        DataType("set", *UTF8, length=255, elements=members),
        pa.string(),
        st.sets(st.sampled_from(range(64)), max_size=9).map(
            lambda chosen: ",".join(members[n] for n in sorted(chosen))
        ),
    ),
    "j": (DataType("json", length=4294967295), pa.string(), st.sampled_from(["null", '{"k": [1, 2.0]}', '"é\\u001f"'])),
    "date": (DataType("date", length=10), pa.string(), st.dates().map(str) | st.just("0000-00-00")),
    "at": (DataType("datetime", length=26, decimal=6), pa.string(), utc_texts),
    "ts": (DataType("timestamp", length=26, decimal=6), pa.string(), utc_texts),
    "dur": (DataType("time", length=10), pa.string(), st.sampled_from(["-838:59:59", "00:00:00", "838:59:59"])),
    "y": (DataType("year", length=4, unsigned=True, zerofill=True), pa.int32(), st.sampled_from([0, 1901, 2155])),
    "vec": (DataType("vector", length=-1), pa.string(), st.sampled_from(["[1,2.5,-3]", "[]"])),
}

Row = dict[str, Any] | None
Example = tuple[int, str, Row, Row]
"""A table's number, an operation, and the rows before and after."""


def table_of(number: int, names: list[str]) -> TableSchema:
    """Return a table of some of the columns, in an order of their own."""
    columns = (Column("id", DataType("int", length=11), nullable=False), *(Column(n, COLUMNS[n][0]) for n in names))
    key = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))
    return TableSchema("my-db.1", f"té<{number}>", 100 + number, 7 + number, columns, (key,))


def row_of(table: TableSchema) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({c.name: st.none() | COLUMNS[c.name][2] for c in table.columns[1:]})


def change_of(number: int, table: TableSchema) -> st.SearchStrategy[Example]:
    row, nothing = row_of(table), st.none()
    return (
        st.tuples(st.just(number), st.just("c"), nothing, row)
        | st.tuples(st.just(number), st.just("u"), row, row)
        | st.tuples(st.just(number), st.just("d"), row, nothing)
    )


def changes_of(spark: SparkSession, table: TableSchema, rows: dict[int, Example]) -> DataFrame:
    """Return changes as the model has them, with their numbers as `n`."""
    types = {c.name: pa.int32() if c.name == "id" else COLUMNS[c.name][1] for c in table.columns}
    fields = [("n", pa.int64()), ("op", pa.string())]
    values: dict[str, list[Any]] = {"n": list(rows), "op": [op for _, op, _, _ in rows.values()]}
    for side in ("old", "data"):
        fields += [(side, pa.bool_()), *((f"{side}{n}", t) for n, t in enumerate(types.values()))]
        said = [old if side == "old" else data for _, _, old, data in rows.values()]
        values[side] = [row is not None for row in said]
        for n, name in enumerate(types):
            values[f"{side}{n}"] = [
                k if name == "id" else (row or {}).get(name) for k, row in zip(rows, said, strict=True)
            ]
    frame = spark.createDataFrame(pa.Table.from_pydict(values, schema=pa.schema(fields)))
    structs = {
        side: F.when(F.col(side), F.struct(*(F.col(f"{side}{n}").alias(name) for n, name in enumerate(types))))
        for side in ("old", "data")
    }
    checksum = F.struct(F.lit(1), F.lit(False), F.col("n") + 1, F.lit(0).cast("bigint")).cast(CHECKSUM)
    return frame.select(
        "n",
        "op",
        F.lit(COMMIT_TS).alias("commit_ts"),
        (F.col("n") + 1000).alias("table_id"),
        checksum.alias("checksum"),
        *(column.alias(side) for side, column in structs.items()),
    )


def messages_of(changes: DataFrame, table: TableSchema, options: SimpleOptions, first: int) -> DataFrame:
    """Return the table's bootstrap and its rows as records, their numbers counted from `first`."""
    bootstrap = simple.encode_bootstrap(table, options, 1)
    made = encoded(changes, table, lambda rows: SimpleEncoder(options, 1), keep=("n",))
    values = [(one.kept["n"] + first, None if one.wrong else one.value) for one in made]
    known = {"offset": pa.int64(), "value": pa.binary()}
    frame = small_table(changes.sparkSession, [(-first, bootstrap), *values], known)
    there = {name: F.col(name) for name in known}
    return frame.select(*(there.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in RECORD))


@pytest.fixture(scope="module")
def tables() -> list[TableSchema]:
    """A table of all columns, and two of some."""
    some = drawn(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, min_size=3, max_size=8), 2)
    return [table_of(n, names) for n, names in enumerate([list(COLUMNS), *some])]


def test_rows_of_every_type_survive_in_both_encodings(tables: list[TableSchema], spark: SparkSession) -> None:
    examples = drawn(st.one_of([change_of(n, table) for n, table in enumerate(tables)]), EXAMPLES)
    assert len(examples) >= EXAMPLES * 0.9
    forms = {0: SimpleOptions(zone=ZONE), 10**6: SimpleOptions("avro", ZONE)}
    parts = []
    for number, table in enumerate(tables):
        rows = {n: example for n, example in enumerate(examples) if example[0] == number}
        changes = changes_of(spark, table, rows)
        parts += [messages_of(changes, table, options, first) for first, options in forms.items()]
    with decode_simple(union(parts), ordered=True) as events:
        assert events.rejected.count() == 0
        found = {
            row["offset"]: (changes.schema, row)
            for changes in events.tables
            for row in changes.frame.drop("value", "key", "headers").collect()
        }
    assert found.keys() == {first + n for first in forms for n in range(len(examples))}
    for place, (schema, row) in found.items():
        n = place % 10**6
        number, op, old, data = examples[n]
        assert schema == with_ids(tables[number])
        assert row["reason"] is None, (row["detail"], examples[n])
        assert (row["op"], row["table_id"], row["commit_ts"]) == (op, n + 1000, COMMIT_TS)
        assert tuple(row["checksum"]) == (1, False, n + 1, 0)
        for said, want in ((row["old"], old), (row["data"], data)):
            assert (said is None) == (want is None)
            for name, value in zip([c.name for c in schema.columns], said or (), strict=said is not None):
                assert same(value, n if name == "id" else (want or {})[name]), (place, name, value, want)


def test_a_text_above_twenty_million_characters_is_read(spark: SparkSession) -> None:
    table = table_of(0, ['v"\\'])
    row: dict[str, Any] = {'v"\\': "x" * 20_000_001}
    messages = messages_of(changes_of(spark, table, {0: (0, "c", None, row)}), table, SimpleOptions(zone=ZONE), 1)
    with decode_simple(messages, ordered=True) as events:
        (changes,) = events.tables
        assert changes.good.select(F.length(F.col("data").getItem('v"\\'))).collect() == [(20_000_001,)]


def with_ids(table: TableSchema) -> TableSchema:
    """Return the table with the column ids that a reader gives it."""
    return replace(table, columns=tuple(replace(c, id=n) for n, c in enumerate(table.columns, 1)))


def same(got: Any, want: Any) -> bool:
    got = bytes(got) if isinstance(got, bytearray) else got
    return bool(got == want) and str(got)[:1] == str(want)[:1]  # 0.0 equals -0.0
