"""When schemas are repeated, for readers that start in the middle of a Simple topic."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden_data import lines
from growing_topic import ID
from pyspark.sql import SparkSession

import tidecast
from tidecast.model import Column, DataType, Index, TableSchema
from tidecast.protocols import RoutedTable
from tidecast.publish._batch import OutgoingTable
from tidecast.publish._bootstrap import INACTIVE_MS, Bootstraps
from tidecast.publish._schema_events import SchemaEvents
from tidecast.routing import TableRoutes

ORDERS = TableSchema("shop", "orders", 1, 10, (Column("id", DataType("int")),))
ALTERED = TableSchema("shop", "orders", 1, 20, (Column("id", DataType("bigint")),))
PLAIN = TableSchema("shop", "plain", 0, 1, (Column("id", DataType("int")),))
NOW = 1_700_000_000_000


def started(interval: int = 120, rows: int = 100) -> Bootstraps:
    rules = Bootstraps(interval, rows)
    rules.repeated(ORDERS, "t", NOW)
    rules.took(ORDERS, "t", 1, NOW)
    return rules


def test_the_first_row_of_a_table_is_preceded_by_its_schema() -> None:
    rules = Bootstraps(120, 100)
    assert rules.is_new(ORDERS, NOW)
    rules = started()
    assert not rules.is_new(ORDERS, NOW)
    assert rules.due(NOW + 119_999) == []


def test_a_schema_is_repeated_by_time_and_by_rows() -> None:
    rules = started()
    assert rules.due(NOW + 120_000) == [(ORDERS, "t")]
    rules.took(ALTERED, "elsewhere", 98, NOW + 1000)
    assert rules.due(NOW + 2000) == []
    rules.took(ALTERED, "elsewhere", 1, NOW + 3000)
    assert rules.rows(ORDERS) == 100
    assert rules.due(NOW + 4000) == [(ALTERED, "t")], "the newest schema, in the topic of the first row"
    rules.repeated(ALTERED, "t", NOW + 5000)
    assert rules.due(NOW + 6000) == []
    assert rules.due(NOW + 125_000) == [(ALTERED, "t")]


def numbers(rules: Bootstraps, *versions: tuple[TableSchema, int]) -> list[int]:
    """Return the numbers that versions of a table get in one batch. In: each with the place of its first row."""
    batch: Any = SimpleNamespace(
        events=SimpleNamespace(tables=()),
        router=SimpleNamespace(routes=TableRoutes()),
        routed=lambda schema: RoutedTable(schema, schema, "t"),
    )
    changes: list[Any] = [SimpleNamespace(schema=one, rows_from=at, of_key=False) for one, at in versions]
    tables = [OutgoingTable(one, RoutedTable(one.schema, one.schema, "t"), 1) for one in changes]
    nothing: Any = None
    named = [one.source for one in SchemaEvents(batch, rules, nothing).named(tables)]
    for schema in named:
        rules.repeated(schema, "t", NOW)
        rules.took(schema, "t", 1, NOW)
    return [schema.version for schema in named]


def test_a_number_stands_for_one_schema_also_in_later_batches() -> None:
    plain = replace(PLAIN, version=0)
    other = replace(plain, columns=(*plain.columns, Column("v", DataType("int"))))
    rules = Bootstraps(120, 100)
    assert numbers(rules, (plain, 0), (other, 5)) == [1, 6], "a source that tells none: the place of the first row"
    assert numbers(rules, (other, 9), (plain, 12)) == [6, 13]

    rekeyed = replace(PLAIN, indexes=(Index("PRIMARY", True, True, False, ("id",)),))
    second = replace(other, version=2)
    rules = Bootstraps(120, 100)
    assert numbers(rules, (PLAIN, 0), (rekeyed, 3)) == [1, 2], "a registry, where the key has a schema of its own"
    assert numbers(rules, (rekeyed, 5), (second, 7)) == [2, 3]

    first, altered = replace(plain, version=1), replace(other, version=2)
    rules = Bootstraps(120, 100)
    assert [numbers(rules, (one, 0)) for one in (first, altered, first)] == [[1], [2], [3]], "as it was at first again"
    rules.due(NOW + 10 * INACTIVE_MS)
    assert numbers(rules, (altered, 9)) == [4], "also after it was quiet"

    rules = Bootstraps(120, 100)
    tso = 1_700_000_000_000 << 18
    assert numbers(rules, (replace(plain, version=tso), 0), (replace(plain, version=tso + 9), 1)) == [tso, tso + 9]


def test_the_next_row_of_a_quiet_table_is_like_its_first() -> None:
    rules = started()
    assert rules.due(NOW + INACTIVE_MS) == [(ORDERS, "t")]
    assert not rules.is_new(ORDERS, NOW + INACTIVE_MS)
    assert rules.due(NOW + INACTIVE_MS + 1) == []
    assert rules.is_new(ORDERS, NOW + INACTIVE_MS + 1)


def test_a_table_that_messages_call_otherwise_is_a_new_one() -> None:
    before = Bootstraps(120, 100)
    before.follow(lambda schema: f"archive.{schema.table}")
    before.repeated(ORDERS, "t", NOW)
    after = Bootstraps(120, 100, before.state())
    after.follow(lambda schema: f"archive.{schema.table}")
    assert after.is_told(ORDERS)
    after.follow(lambda schema: schema.name)
    assert after.is_new(ORDERS, NOW)
    assert not after.is_told(ORDERS)


@pytest.mark.parametrize(("interval", "rows"), [(0, 100), (120, 0), (-1, 100), (0, 0)])
def test_either_option_turns_them_off(interval: int, rows: int) -> None:
    assert not Bootstraps(interval, rows).enabled
    assert Bootstraps(1, 1).enabled


def test_what_is_known_survives_a_restart() -> None:
    before = started()
    before.took(ORDERS, "t", 98, NOW)
    after = Bootstraps(120, 100, before.state())
    assert not after.is_new(ORDERS, NOW)
    assert after.due(NOW + 1000) == []
    after.took(ORDERS, "t", 1, NOW + 1000)
    assert after.due(NOW + 1000) == [(ORDERS, "t")]


def test_tables_without_an_id_are_known_by_their_names() -> None:
    rules = Bootstraps(120, 100)
    rules.repeated(PLAIN, "t", NOW)
    other = TableSchema("shop", "other", 0, 1, PLAIN.columns)
    assert not rules.is_new(PLAIN, NOW)
    assert rules.is_new(other, NOW)


SCHEMA = {
    "schema": "shop",
    "table": "orders",
    "tableID": 7,
    "version": 400,
    "columns": [ID],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Simple topic with a table and 25 rows, and no bootstrap."""
    create = {"version": 1, "type": "CREATE", "sql": "CREATE TABLE `shop`.`orders`", "commitTs": 401, "buildTs": 1}
    messages: list[dict[str, Any]] = [{**create, "tableSchema": SCHEMA}]
    head = {"version": 1, "database": "shop", "table": "orders", "tableID": 7, "type": "INSERT", "buildTs": 1}
    messages += [{**head, "commitTs": 500 + n, "schemaVersion": 400, "data": {"id": str(n)}} for n in range(25)]
    path = tmp_path_factory.mktemp("source") / "orders.jsonl"
    values = (base64.b64encode(json.dumps(m).encode()).decode() for m in messages)
    path.write_text("".join(json.dumps({"partition": 0, "key": None, "value": v}) + "\n" for v in values))
    return f"file://{path}?protocol=simple"


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"in-msg-count": 10}, {0: [1, 11, 22], 1: [1, 2, 3]}),
        ({"in-msg-count": 10, "to-all-partition": "false"}, {0: [1, 11, 22], 1: []}),
        ({"in-msg-count": 10000}, {0: [1], 1: [1]}),
        ({"interval-in-sec": 0}, {0: [], 1: []}),
    ],
)
def test_schemas_are_repeated_among_the_rows(
    options: dict[str, Any], places: dict[int, list[int]], source: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The offsets of the bootstraps in the partition with all rows, and in the other one."""
    config = tmp_path / "f.toml"
    config.write_text("[sink]\n" + "".join(f"send-bootstrap-{name} = {value}\n" for name, value in options.items()))
    sink = f"file://{tmp_path}/out?protocol=simple&format=jsonl&partition-num=2"
    result = tidecast.convert(source, sink, config=str(config), tz="UTC", spark=spark)

    records = [r for part in (tmp_path / "out").glob("*.jsonl.gz") for r in lines(part)]
    told = {(r["partition"], r["offset"]): json.loads(base64.b64decode(r["value"])) for r in records}
    full = next(p for (p, _), m in told.items() if m["type"] == "INSERT")
    found = {p: sorted(o for (q, o), m in told.items() if q == p and m["type"] == "BOOTSTRAP") for p in (0, 1)}
    if options.get("to-all-partition") != "false":
        assert (found[full], found[1 - full]) == (places[0], places[1])
    else:
        assert (len(found[0]), found[1]) == (len(places[0]), [])
    assert result.bootstraps == len(places[0])
    assert all(
        r["key"] == ("" if m["type"] != "CREATE" else None) for r, m in zip(records, map(_value, records), strict=True)
    )


def _value(record: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(base64.b64decode(record["value"])))
