"""Event filters and the split of key updates: which rows and schema changes leave, and as what."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidecast import ConfigError
from tidecast.config import load_config
from tidecast.model import CHECKSUM, Column, DataType, Ddl, Index, Op, TableChanges, TableSchema, row_type
from tidecast.publish._split import split_key_updates
from tidecast.routing._event_filter import EventFilters
from tidecast.routing._rules import EventFilter

TABLE = TableSchema(
    "shop",
    "orders",
    1,
    1,
    (
        Column("id", DataType("int"), nullable=False),
        Column("name", DataType("varchar", "utf8mb4", length=20)),
        Column("Price", DataType("decimal", length=10, decimal=2)),
        Column("paid", DataType("timestamp")),
        Column("code", DataType("int")),
    ),
    (
        Index("PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),
        Index("uk_code", unique=True, primary=False, nullable=True, columns=("code",)),
    ),
)

Row = tuple[int, str | None, str | None, str | None, int | None] | None

ROWS: list[tuple[Op, Row, Row]] = [
    (Op.CREATE, None, (1, "apple", "1.50", "2024-01-01 23:30:00", 7)),
    (Op.CREATE, None, (2, None, "20.00", None, None)),
    (Op.UPDATE, (1, "apple", "1.50", "2024-01-01 23:30:00", 7), (1, "pear", "9.00", "2024-01-02 00:30:00", 7)),
    (Op.UPDATE, (1, "pear", "9.00", "2024-01-02 00:30:00", 7), (3, "pear", "9.00", "2024-01-02 00:30:00", 7)),
    (Op.UPDATE, (2, None, "20.00", None, None), (2, None, "20.00", None, 8)),
    (Op.DELETE, (2, None, "20.00", None, 8), None),
]


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> TableChanges:
    """Six changes of one table, numbered by `offset`."""
    kind = row_type(TABLE)

    def side(row: Row) -> object:
        if row is None:
            return F.lit(None).cast(kind)
        return F.struct(*(F.lit(v).cast(f.dataType).alias(f.name) for v, f in zip(row, kind.fields, strict=True)))

    rows = [
        F.struct(
            F.lit(n).alias("offset"),
            F.lit(op).alias("op"),
            side(old).alias("old"),  # type: ignore[attr-defined]
            side(data).alias("data"),  # type: ignore[attr-defined]
            F.struct(F.lit(0), F.lit(False), F.lit(5), F.lit(6)).cast(CHECKSUM).alias("checksum"),
            F.lit(None).cast("string").alias("reason"),
        )
        for n, (op, old, data) in enumerate(ROWS)
    ]
    frame = spark.range(1).select(F.explode(F.array(*rows)).alias("r")).select("r.*")
    return TableChanges(TABLE, frame, len(rows))


def offsets(frame: DataFrame) -> list[int]:
    return sorted(r["offset"] for r in frame.select("offset").collect())


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"ignore-event": ["delete"]}, [0, 1, 2, 3, 4]),
        ({"ignore-event": ["all dml"]}, []),
        ({"ignore-event": ["insert", "all ddl"]}, [2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "price > 10 and id = 2"}, [0, 2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "name = 'apple' or name is null"}, [2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "name <> 'apple'"}, [0, 1, 2, 3, 4, 5]),
        ({"ignore-insert-value-expr": "id - 1"}, [0, 2, 3, 4, 5]),
        ({"ignore-delete-value-expr": "code = 8"}, [0, 1, 2, 3, 4]),
        ({"ignore-update-new-value-expr": "name like 'pe%'"}, [0, 1, 4, 5]),
        ({"ignore-update-old-value-expr": "name = 'apple'"}, [0, 1, 3, 4, 5]),
        # In the server's zone the order was paid on the second of January.
        ({"ignore-insert-value-expr": "substr(paid, 1, 10) = '2024-01-02'"}, [1, 2, 3, 4, 5]),
        ({"matcher": ["other.*"], "ignore-event": ["all dml"]}, [0, 1, 2, 3, 4, 5]),
        ({"matcher": ["SHOP.*"], "ignore-event": ["all dml"]}, []),
        ({"matcher": ["SHOP.*"], "ignore-insert-value-expr": "1 = 1"}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_filters_leave_out_what_they_say(rule: dict[str, object], left: list[int], changes: TableChanges) -> None:
    one = EventFilter.model_validate({"matcher": ["shop.*"], **rule})
    assert offsets(EventFilters([one], "Asia/Shanghai").passing(changes)) == left


SORTS: dict[str, tuple[DataType, object]] = {
    "big": (DataType("decimal", length=65, decimal=30), "5.5"),
    "at": (DataType("datetime", decimal=3), "2024-05-01 10:00:00.000"),
    "d": (DataType("date"), "2024-05-01"),
    "t": (DataType("time"), "09:30:00"),
    "st": (DataType("enum", "utf8mb4", elements=("new", "paid")), "paid"),
    "se": (DataType("set", "utf8mb4", elements=("a", "b", "c")), "a,c"),
    "name": (DataType("varchar", "utf8mb4", length=20), "5.5abc"),
    "flags": (DataType("bit", length=4, unsigned=True), b"\x05"),
    "isok": (DataType("tinyint", length=1), 1),
    "two": (DataType("tinyint"), 2),
    "nothing": (DataType("datetime"), None),
}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("big > 5", True),
        ("big > 5.6", False),
        ("at = '2024-05-01 10:00:00'", True),
        ("at > '2024-05-01 10:00:00'", False),
        ("at between '2024-05-01' and '2024-05-01 10:00:00'", True),
        ("at >= 20240501100000", True),
        ("at like '2024-05-01%'", True),
        ("d > 20240430", True),
        ("d = at", False),
        ("d in ('2024-04-30', '2024-05-01')", True),
        ("t > '9:00:00'", True),
        ("t > '-10:00:00' and t < '10:00'", True),
        ("st = 2", True),
        ("st = 'paid'", True),
        ("se = 5", True),
        ("se = 'a,c'", True),
        ("name > 5", True),
        ("name = '5.5abc'", True),
        ("flags = 5", True),
        ("flags & 4 = 4", True),
        ("isok", True),
        ("two", False),
        ("not isok", False),
        ("not (isok and flags)", False),
        ("two and big > 5 or st = 9", True),
        ("nothing > '2024-01-01'", False),
        ("nothing is null", True),
    ],
)
def test_expressions_compare_as_mysql_does(spark: SparkSession, expression: str, holds: bool) -> None:
    columns = tuple(Column(name, data_type) for name, (data_type, _) in SORTS.items())
    table = TableSchema("shop", "sorts", 1, 1, columns)
    row = F.struct(
        *(F.lit(v).cast(f.dataType).alias(f.name) for f, (_, v) in zip(row_type(table), SORTS.values(), strict=True))
    )
    frame = spark.range(1).select(F.lit(Op.CREATE).alias("op"), row.alias("data"))
    one = EventFilter.model_validate({"matcher": ["*.*"], "ignore-insert-value-expr": expression})
    assert EventFilters([one]).passing(TableChanges(table, frame, 1)).count() == (0 if holds else 1)


@pytest.mark.usefixtures("substituting")
@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("name = 'in ${env:HOME} ${'", True),
        ("`${env:HOME}` = 1 and `${env:HOME}` like '1%'", True),
        ("`${env:HOME}` = 2", False),
    ],
)
def test_expressions_name_no_variables_of_spark(spark: SparkSession, expression: str, holds: bool) -> None:
    table = TableSchema("shop", "odd", 1, 1, (Column("name", DataType("text")), Column("${env:HOME}", DataType("int"))))
    row = F.struct(F.lit("in ${env:HOME} ${").alias("name"), F.lit(1).alias("${env:HOME}"))
    frame = spark.range(1).select(F.lit(Op.CREATE).alias("op"), row.alias("data"))
    one = EventFilter.model_validate({"matcher": ["*.*"], "ignore-insert-value-expr": expression})
    assert EventFilters([one]).passing(TableChanges(table, frame, 1)).count() == (0 if holds else 1)


@pytest.mark.parametrize(
    ("expression", "code", "words"),
    [
        (
            "nofunction(price)",
            "CDC:ErrInvalidFilterExpression",
            "invalid filter expression 'nofunction(price)': it calls a function that is not known",
        ),
        ("crc32(name, 2) > 1", "CDC:ErrInvalidFilterExpression", "too few or too many arguments"),
        ("sum(price) > 1", "CDC:ErrInvalidFilterExpression", "it cannot be computed for a row"),
        (
            "weight > 5",
            "CDC:ErrExpressionColumnNotFound",
            "invalid filter expression(s). Cannot find column 'weight' from table 'shop.orders' in: weight > 5",
        ),
    ],
)
def test_expressions_that_cannot_be_are_refused(expression: str, code: str, words: str, changes: TableChanges) -> None:
    one = EventFilter.model_validate({"matcher": ["*.*"], "ignore-insert-value-expr": expression})
    with pytest.raises(ConfigError) as refused:
        EventFilters([one]).passing(changes)
    assert refused.value.code == code
    assert words in str(refused.value)
    assert "shop.orders" in str(refused.value)
    for foreign in ("SQLSTATE", "UNRESOLVED", "WRONG_NUM", "`"):
        assert foreign not in str(refused.value)


@pytest.mark.parametrize(
    ("rule", "sql", "dropped"),
    [
        ({"ignore-event": ["alter table"]}, "ALTER TABLE `shop`.`orders` ADD COLUMN `x` INT", True),
        ({"ignore-event": ["alter table"]}, "CREATE INDEX `i` ON `shop`.`orders` (`name`)", True),
        ({"ignore-event": ["add column"]}, "ALTER TABLE `shop`.`orders` DROP COLUMN `name`", False),
        ({"ignore-event": ["all ddl"]}, "TRUNCATE TABLE `shop`.`orders`", True),
        ({"ignore-event": ["truncate table"]}, "TRUNCATE TABLE `shop`.`orders`", True),
        ({"ignore-sql": ["^truncate"]}, "TRUNCATE TABLE `shop`.`orders`", True),
        ({"ignore-sql": ["^drop", "orders$"]}, "TRUNCATE TABLE `shop`.`orders`", False),
        ({"matcher": ["a.b"], "ignore-event": ["all ddl"]}, "TRUNCATE TABLE `shop`.`orders`", False),
        ({"ignore-event": ["alter ttl info"]}, "ALTER TABLE `shop`.`orders` TTL_ENABLE = 'OFF'", True),
        ({"ignore-event": ["add column"]}, "ALTER TABLE `shop`.`orders` ADD COLUMN (`a` INT, `b` INT)", False),
        ({"ignore-event": ["add column"]}, "ALTER TABLE `shop`.`orders` ADD COLUMN (`a` DECIMAL(5,2))", True),
        (
            {"ignore-event": ["create view"]},
            "CREATE ALGORITHM = UNDEFINED DEFINER = `root`@`%` SQL SECURITY DEFINER VIEW `shop`.`v` AS SELECT 1",
            True,
        ),
    ],
)
def test_schema_changes_are_left_out_by_type_and_text(rule: dict[str, object], sql: str, dropped: bool) -> None:
    one = EventFilter.model_validate({"matcher": ["shop.*"], **rule})
    assert EventFilters([one]).drops_ddl(Ddl("ALTER", sql, 1, TABLE)) is dropped


def test_a_schema_s_changes_go_by_the_schema() -> None:
    one = EventFilter.model_validate({"matcher": ["shop.orders"], "ignore-event": ["create schema"]})
    assert EventFilters([one]).drops_ddl(Ddl("QUERY", "CREATE DATABASE `shop`", 1))
    assert not EventFilters([one]).drops_ddl(Ddl("QUERY", "CREATE DATABASE `other`", 1))


@pytest.mark.parametrize("definer", ["CURRENT_USER", "`root`@`%`", "`the (VIEW`@`h`"])
def test_a_view_is_told_from_a_table(definer: str) -> None:
    head = f"CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = {definer} SQL SECURITY DEFINER"
    assert Ddl("CREATE", f"{head} VIEW `d`.`v` (`id`) AS SELECT `id` FROM `d`.`t`", 1).is_view
    assert Ddl("ERASE", "DROP VIEW `d`.`v`", 1).is_view
    assert (Ddl("ERASE", "DROP TABLE `d`.`t`", 1).database, Ddl("ERASE", "DROP TABLE `d`.`t`", 1).table) == ("d", "t")
    renamed = Ddl("RENAME", "RENAME TABLE `d`.`t` TO `e`.`u`", 1)
    assert (renamed.database, renamed.table, renamed.renamed_from) == ("e", "u", ("d", "t"))
    for clause in ("RENAME TO e.u", "RENAME AS e.u", "RENAME e.u"):
        altered = Ddl("RENAME", f"ALTER TABLE d.t {clause}", 1)
        assert (altered.database, altered.table) == ("e", "u")
    assert not Ddl("CREATE", "CREATE TABLE `d`.`view` (`view` INT COMMENT 'VIEW')", 1).is_view


def test_an_unknown_event_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "f.toml"
    config.write_text('[[filter.event-filters]]\nmatcher = ["*.*"]\nignore-event = ["all"]\n')
    with pytest.raises(ConfigError) as refused:
        load_config("kafka://127.0.0.1:9092/t?protocol=simple", config)
    assert refused.value.code == "CDC:ErrInvalidIgnoreEventType"


def test_a_key_update_becomes_a_delete_and_an_insert(changes: TableChanges) -> None:
    rows = split_key_updates(changes.frame, TABLE).orderBy("offset", "moved").collect()
    shown = [
        (r["offset"], r["op"], r["moved"], r["old"] and r["old"]["id"], r["data"] and r["data"]["id"]) for r in rows
    ]
    assert shown == [
        (0, "c", False, None, 1),
        (1, "c", False, None, 2),
        (2, "u", False, 1, 1),
        (3, "d", False, 1, None),
        (3, "c", True, None, 3),
        (4, "d", False, 2, None),  # the unique key came to have a value
        (4, "c", True, None, 2),
        (5, "d", False, 2, None),
    ]
    sums = {(r["offset"], r["op"]): (r["checksum"]["current"], r["checksum"]["previous"]) for r in rows}
    assert (sums[3, "d"], sums[3, "c"], sums[2, "u"]) == ((0, 6), (5, 0), (5, 6))
    assert set(split_key_updates(changes.frame, TABLE).columns) == {*changes.frame.columns, "moved"}
