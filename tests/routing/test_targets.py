"""Table routes: which name a table has in messages, and what is refused."""

from __future__ import annotations

import pytest

from tidecast import ConfigError
from tidecast._errors import TerminalError
from tidecast.model import Ddl, TableSchema
from tidecast.routing import Dispatcher, TableRoutes, check_target

ORDERS = TableSchema("sales", "orders", 1, 5, ())


def rule(*matcher: str, schema: str = "", table: str = "", topic: str = "") -> Dispatcher:
    given = {"target-schema": schema, "target-table": table, "topic": topic}
    return Dispatcher.model_validate({"matcher": matcher} | {name: text for name, text in given.items() if text})


@pytest.mark.parametrize(
    ("schema", "table", "expected"),
    [
        ("archive", "", ("archive", "orders")),
        ("", "{table}_bak", ("sales", "orders_bak")),
        ("{schema}_mirror", "", ("sales_mirror", "orders")),
        ("archive", "{schema}_{table}", ("archive", "sales_orders")),
    ],
)
def test_names_are_filled_in(schema: str, table: str, expected: tuple[str, str]) -> None:
    assert TableRoutes([rule("sales.*", schema=schema, table=table)]).name("sales", "orders") == expected


def test_the_first_rule_with_a_target_counts() -> None:
    rules = [rule("*.*", topic="t"), rule("sales.orders", schema="a"), rule("Sales.*", schema="b")]
    routes = TableRoutes(rules)
    assert [routes.name("sales", name) for name in ("orders", "items")] == [("a", "orders"), ("b", "items")]
    assert routes.name("crm", "orders") == ("crm", "orders")
    assert TableRoutes(rules, case_sensitive=True).name("sales", "items") == ("sales", "items")
    assert not TableRoutes(rules[:1])


def test_a_table_named_as_a_placeholder_is_none() -> None:
    assert TableRoutes([rule("*.*", table="{schema}-{table}")]).name("{table}", "{schema}") == (
        "{table}",
        "{table}-{schema}",
    )


@pytest.mark.parametrize("expression", ["{db}", "{Schema}", "a{", "}"])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match=r"must contain only literal text, \{schema\}, and \{table\}") as error:
        check_target("target-schema", expression)
    assert error.value.code == "CDC:ErrInvalidTableRoutingRule"
    assert f'target-schema "{expression}"' in str(error.value)


def test_a_schema_change_speaks_of_names_in_messages() -> None:
    routes = TableRoutes([rule("sales.*", schema="archive", table="{table}_r")])
    renamed = Ddl("RENAME", "RENAME TABLE `sales`.`temp` TO `sales`.`orders`", 6, ORDERS, named=("sales", "orders"))
    told = routes.ddl(renamed)
    assert told.sql == "RENAME TABLE `archive`.`temp_r` TO `archive`.`orders_r`"
    assert told.schema
    assert told.schema.name == "archive.orders_r"
    assert (told.named, told.renamed_from) == (("archive", "orders_r"), ("archive", "temp_r"))
    dropped = routes.ddl(Ddl("ERASE", "DROP TABLE temp", 7, named=("sales", "temp")))
    assert (dropped.sql, dropped.database, dropped.table) == ("DROP TABLE `archive`.`temp_r`", "archive", "temp_r")
    made = routes.ddl(Ddl("QUERY", "CREATE DATABASE `sales`", 1, named=("sales", "")))
    assert (made.sql, made.database, made.table) == ("CREATE DATABASE `archive`", "archive", "")
    other = Ddl("QUERY", "create  database crm", 1)
    assert routes.ddl(other) == other


def test_letter_case_is_that_of_the_schema() -> None:
    routes = TableRoutes([rule("sales.*", table="{table}_r"), rule("crm.*", table="{table}")])
    assert routes.ddl(Ddl("ALTER", "ALTER TABLE SALES.Orders COMMENT 'x'", 6, ORDERS)).sql == (
        "ALTER TABLE `sales`.`orders_r` COMMENT 'x'"
    )
    unrouted = Ddl("ALTER", "ALTER TABLE Crm.T COMMENT 'x'", 6, TableSchema("crm", "t", 1, 5, ()))
    assert routes.ddl(unrouted) == unrouted


def test_a_table_without_a_database_is_one_of_that_before() -> None:
    moved = Ddl("RENAME", "ALTER TABLE temp RENAME TO crm.orders", 6, TableSchema("crm", "orders", 1, 5, ()),
                TableSchema("sales", "temp", 1, 4, ()))  # fmt: skip
    assert TableRoutes([rule("sales.*", schema="x"), rule("crm.*", schema="y")]).ddl(moved).sql == (
        "ALTER TABLE `x`.`temp` RENAME TO `y`.`orders`"
    )


@pytest.mark.parametrize(
    "targets", [[("sales.a*", "x"), ("sales.*", "y")], [("sales.*", "of_{table}")]], ids=["several", "a table's"]
)
def test_a_database_whose_tables_go_to_several_is_no_one(targets: list[tuple[str, str]]) -> None:
    routes = TableRoutes(rule(matcher, schema=schema) for matcher, schema in targets)
    with pytest.raises(TerminalError, match="tables of database sales go to several") as error:
        routes.ddl(Ddl("QUERY", "DROP DATABASE `sales`", 9))
    assert error.value.code == "CDC:ErrTableRoutingFailed"


def test_targets_that_come_to_one_database_are_one() -> None:
    routes = TableRoutes([rule("sales.a*", schema="{schema}"), rule("sales.*", schema="sales", table="{table}_r")])
    dropped = Ddl("QUERY", "DROP DATABASE `sales`", 9)
    assert routes.ddl(dropped) == dropped


def test_sql_that_cannot_be_read_is_not_passed_on() -> None:
    with pytest.raises(TerminalError, match=r"commit-ts 9.*no names of tables can be read") as error:
        TableRoutes([rule("sales.*", schema="x")]).ddl(Ddl("ALTER", "ALTER SEQUENCE", 9, ORDERS))
    assert error.value.code == "CDC:ErrTableRoutingFailed"
