"""Rows written as Debezium whose values no golden message has."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidecast.model import Column, DataType, Index, TableSchema
from tidecast.protocols import RoutedTable, Rows
from tidecast.protocols.debezium import DebeziumEncoder, DebeziumOptions
from tidecast.protocols.debezium._schema import column_schema
from tidecast.values import row_type


def table(*columns: Column) -> RoutedTable:
    schema = TableSchema(
        "d",
        "t",
        0,
        1,
        (Column("id", DataType("int"), nullable=False), *columns),
        (Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
    )
    return RoutedTable(schema, schema, "topic")


def inserts(table: RoutedTable, *rows: dict[str, Any]) -> Rows:
    count = len(rows)
    columns = {"op": ["c"] * count, "commit_ts": [1 << 40] * count, "data": pa.array(rows, row_type(table.schema))}
    columns["old"] = pa.nulls(count, row_type(table.schema))
    return Rows.of_changes(table.schema, pa.RecordBatch.from_pydict(columns))


ENCODER = DebeziumEncoder(DebeziumOptions(disable_schema=True), 1, whole=True)


def test_a_number_that_is_not_finite_is_refused() -> None:
    numbers = table(Column("f", DataType("float")), Column("d", DataType("double")))
    rows = inserts(
        numbers,
        {"id": 1, "f": float("nan"), "d": 1.0},
        {"id": 2, "f": 1.0, "d": float("-inf")},
        {"id": 3, "f": 1.0, "d": 1.0},
    )
    assert ENCODER.unencodable(numbers, rows).to_pylist() == [
        "column f holds nothing that Debezium can say",
        "column d holds nothing that Debezium can say",
        None,
    ]


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (DataType("float", length=12), "float"),
        (DataType("float"), "float"),
        (DataType("float", length=12, decimal=2), "double"),
        (DataType("float", length=7, decimal=4), "double"),
    ],
)
def test_a_float_with_a_scale_is_a_double_whatever_its_length(kind: DataType, form: str) -> None:
    field = column_schema(Column("f", kind), extended=False)
    assert field["type"] == form


@pytest.mark.parametrize(
    ("default", "shown"), [("1.555", 1.555), ("-1.555", -1.555), ("7", 7), ("1e3", 1000), ("rand()", 0)]
)
def test_a_default_may_have_more_digits_than_its_column(default: str, shown: float) -> None:
    prices = table(Column("price", DataType("decimal", length=10, decimal=2), default=default))
    rows = inserts(prices, {"id": 1, "price": None}, {"id": 2, "price": Decimal("100.10")})
    payloads = [json.loads(value)["payload"]["after"] for value in ENCODER.value(prices, rows).to_pylist()]
    assert payloads == [{"id": 1, "price": shown}, {"id": 2, "price": 100.1}]
