"""Names of tables in SQL, replaced: what is a name is found, and nothing else is touched."""

from __future__ import annotations

import pytest

from tidecast.model import Ddl, TableSchema, renamed_tables

MOVED = {("d", "t"): ("x", "t_r"), ("d", "u"): ("x", "u_r"), ("e", "t"): ("y", "t`q")}


def renamed(sql: str) -> str | None:
    return renamed_tables(sql, "d", lambda *name: MOVED.get(name, name), lambda name: {"d": "x"}.get(name, name))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE `d`.`t` (`t` INT DEFAULT '`d`.`t`')", "CREATE TABLE `x`.`t_r` (`t` INT DEFAULT '`d`.`t`')"),
        ("create table if not exists t (id int) -- of d.t", "create table if not exists `x`.`t_r` (id int) -- of d.t"),
        ("CREATE TABLE `d`.`v` LIKE `d`.`t`", "CREATE TABLE `d`.`v` LIKE `x`.`t_r`"),
        ("CREATE TABLE v (LIKE e.t)", "CREATE TABLE `d`.`v` (LIKE `y`.`t``q`)"),
        ("CREATE TABLE v (`a` INT, CHECK (`a` LIKE `t`))", "CREATE TABLE v (`a` INT, CHECK (`a` LIKE `t`))"),
        ("ALTER TABLE `d`.`t` RENAME TO `d`.`u`", "ALTER TABLE `x`.`t_r` RENAME TO `x`.`u_r`"),
        ("ALTER TABLE t RENAME = u", "ALTER TABLE `x`.`t_r` RENAME = `x`.`u_r`"),
        ("ALTER TABLE `d`.`t` RENAME COLUMN `t` TO `u`", "ALTER TABLE `x`.`t_r` RENAME COLUMN `t` TO `u`"),
        ("ALTER TABLE `d`.`t` RENAME INDEX `t` TO `u`", "ALTER TABLE `x`.`t_r` RENAME INDEX `t` TO `u`"),
        (
            "ALTER TABLE `d`.`v` ADD CONSTRAINT `t` FOREIGN KEY (`t`) REFERENCES `d`.`t`(`t`)",
            "ALTER TABLE `d`.`v` ADD CONSTRAINT `t` FOREIGN KEY (`t`) REFERENCES `x`.`t_r`(`t`)",
        ),
        (
            "ALTER TABLE `d`.`t` EXCHANGE PARTITION `t` WITH TABLE `d`.`u` WITHOUT VALIDATION",
            "ALTER TABLE `x`.`t_r` EXCHANGE PARTITION `t` WITH TABLE `x`.`u_r` WITHOUT VALIDATION",
        ),
        (
            "RENAME TABLE `d`.`t` TO `e`.`t`, `e`.`v` TO `d`.`u`;",
            "RENAME TABLE `x`.`t_r` TO `y`.`t``q`, `e`.`v` TO `x`.`u_r`;",
        ),
        ("DROP TABLE IF EXISTS `d`.`t`, `u`, `v`", "DROP TABLE IF EXISTS `x`.`t_r`, `x`.`u_r`, `d`.`v`"),
        ("TRUNCATE TABLE `d`.`t`", "TRUNCATE TABLE `x`.`t_r`"),
        ("truncate t", "truncate `x`.`t_r`"),
        ("CREATE UNIQUE INDEX `t` ON `d`.`t` (`t`)", "CREATE UNIQUE INDEX `t` ON `x`.`t_r` (`t`)"),
        ("DROP INDEX `t` ON `d`.`t`", "DROP INDEX `t` ON `x`.`t_r`"),
        (
            "CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `d`.`v` AS "
            "SELECT `d`.`t`.`id`,`t`.`t`,`u`.`t` FROM (`d`.`t` JOIN `e`.`t` AS `u`) WHERE `t`.`id`>1",
            "CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `d`.`v` AS "
            "SELECT `x`.`t_r`.`id`,`t_r`.`t`,`u`.`t` FROM (`x`.`t_r` JOIN `y`.`t``q` AS `u`) WHERE `t_r`.`id`>1",
        ),
        (
            "CREATE VIEW v AS SELECT a.id FROM t a, u WHERE id IN (SELECT id FROM (SELECT * FROM e.t) AS w)",
            "CREATE VIEW `d`.`v` AS SELECT a.id FROM `x`.`t_r` a, `x`.`u_r` WHERE id IN "
            "(SELECT id FROM (SELECT * FROM `y`.`t``q`) AS w)",
        ),
        (
            "CREATE VIEW v AS SELECT COALESCE((SELECT MAX(a) FROM t), 0), EXTRACT(YEAR FROM made), TRIM('x' FROM b), "
            "u.n FROM (SELECT 1) s, u WHERE TRUE WITH CASCADED CHECK OPTION",
            "CREATE VIEW `d`.`v` AS SELECT COALESCE((SELECT MAX(a) FROM `x`.`t_r`), 0), EXTRACT(YEAR FROM made), "
            "TRIM('x' FROM b), `u_r`.n FROM (SELECT 1) s, `x`.`u_r` WHERE TRUE WITH CASCADED CHECK OPTION",
        ),
        (
            "CREATE VIEW v (a) AS WITH c AS (SELECT * FROM d.t) SELECT c.a FROM c STRAIGHT_JOIN e.t w "
            "GROUP BY a WITH ROLLUP",
            "CREATE VIEW `d`.`v` (a) AS WITH c AS (SELECT * FROM `x`.`t_r`) SELECT c.a FROM c STRAIGHT_JOIN "
            "`y`.`t``q` w GROUP BY a WITH ROLLUP",
        ),
        ("CREATE VIEW v AS SELECT t.a FROM t t, d.d", "CREATE VIEW `d`.`v` AS SELECT t.a FROM `x`.`t_r` t, d.d"),
        ("CREATE VIEW v AS TABLE t", "CREATE VIEW `d`.`v` AS TABLE `x`.`t_r`"),
        ("CREATE TABLE v LIKE d.w", "CREATE TABLE v LIKE d.w"),
        ("FLASHBACK TABLE t TO u", "FLASHBACK TABLE `x`.`t_r` TO `x`.`u_r`"),
        ("FLASHBACK DATABASE d TO e", "FLASHBACK DATABASE `x` TO e"),
        ("ALTER DATABASE CHARACTER SET utf8mb4", "ALTER DATABASE CHARACTER SET utf8mb4"),
        ("DROP SEQUENCE IF EXISTS t, s", "DROP SEQUENCE IF EXISTS `x`.`t_r`, `d`.`s`"),
        ("CREATE PLACEMENT POLICY `d` FOLLOWERS=4", "CREATE PLACEMENT POLICY `d` FOLLOWERS=4"),
        ("DROP VIEW `d`.`t`", "DROP VIEW `x`.`t_r`"),
        ("CREATE DATABASE `d` CHARACTER SET = utf8mb4", "CREATE DATABASE `x` CHARACTER SET = utf8mb4"),
        ("ALTER DATABASE `d` COLLATE = utf8mb4_bin", "ALTER DATABASE `x` COLLATE = utf8mb4_bin"),
        ("DROP SCHEMA IF EXISTS d", "DROP SCHEMA IF EXISTS `x`"),
        ("CREATE DATABASE `e`", "CREATE DATABASE `e`"),
        (r"CREATE TABLE `d`.`t` (`e` ENUM('a\'))", r"CREATE TABLE `x`.`t_r` (`e` ENUM('a\'))"),
    ],
)  # fmt: skip
def test_names_of_tables_are_replaced(sql: str, expected: str) -> None:
    assert renamed(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "'",
        "CREATE VIEW v AS SELECT t.a FROM t, (SELECT t.b FROM u t) w",
        "CREATE VIEW v AS WITH t AS (SELECT * FROM d.t) SELECT t.a FROM t",
        "FLUSH",
    ],
)
def test_what_cannot_be_told_is_not_guessed(sql: str) -> None:
    assert renamed(sql) is None


@pytest.mark.parametrize(
    "sql", ["RENAME TABLE `d`.`t` TO `e`.`u`", "ALTER TABLE t RENAME e.u", "ALTER TABLE `t` RENAME = u"]
)
def test_a_rename_tells_the_name_before(sql: str) -> None:
    before, after = TableSchema("d", "t", 1, 1, ()), TableSchema("e", "u", 1, 2, ())
    assert Ddl("RENAME", sql, 2, after, before).renamed_from == ("d", "t")
    assert Ddl("ALTER", sql, 2, after, before).renamed_from is None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("RENAME TABLE d.t TO e.u", ("d", "t")),
        ("ALTER TABLE d.t RENAME e.u", ("d", "t")),
        ("ALTER TABLE t RENAME TO u", ("e", "t")),
        ("RENAME TABLE t TO u", ("e", "t")),
        ("ALTER TABLE t RENAME TO e.u", None),  # of the session's database, which nothing tells
        ("ALTER TABLE d.t RENAME COLUMN a TO b", None),
        ("no SQL", None),
    ],
)
def test_a_rename_tells_the_name_before_by_its_sql(sql: str, expected: tuple[str, str] | None) -> None:
    assert Ddl("RENAME", sql, 2, TableSchema("e", "u", 1, 2, ())).renamed_from == expected


@pytest.mark.parametrize(("table", "database"), [("`d`.`t`", "d"), ("`t`", "e")])
def test_an_exchange_of_a_partition_is_of_the_table_that_has_it(table: str, database: str) -> None:
    """TiCDC's messages name the other one."""
    change = Ddl("ALTER", f"ALTER TABLE {table} EXCHANGE PARTITION `p` WITH TABLE `e`.`n`", 1, named=("e", "n"))
    assert (change.database, change.table) == (database, "t")
    assert change.shown_as == ("e", "n")
