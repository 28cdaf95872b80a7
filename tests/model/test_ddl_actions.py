"""What a statement does, also where MySQL leaves words out that TiDB prints."""

from __future__ import annotations

import pytest

from tidecast.model import ddl_action, read_statement


@pytest.mark.parametrize(
    ("sql", "event"),
    [
        ("TRUNCATE TABLE `d`.`t`", "truncate table"),
        ("TRUNCATE t", "truncate table"),
        ("ALTER TABLE `t` DROP COLUMN `a`", "drop column"),
        ("ALTER TABLE t DROP a", "drop column"),
        ("ALTER TABLE t DROP a, DROP KEY k", "multi schema change"),
        ("ALTER TABLE t DROP KEY k", "drop index"),
        ("ALTER TABLE t DROP FOREIGN KEY k", "drop foreign key"),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`), ALGORITHM = INPLACE, LOCK = NONE", "create index"),
        ("ALTER TABLE `t` ALGORITHM = INPLACE, ADD COLUMN `a` INT", "add column"),
        ("ALTER TABLE `t` ADD COLUMN `a` INT, DEFAULT CHARACTER SET = UTF8MB4", "multi schema change"),
        ("ALTER TABLE `t` ADD COLUMN `a` INT, DEFAULT COLLATE = UTF8MB4_BIN", "multi schema change"),
        ("ALTER TABLE `t` ADD COLUMN (`a` INT)", "add column"),
        ("ALTER TABLE `t` ADD COLUMN (`a` INT, `b` INT)", "multi schema change"),
        ("ALTER TABLE `t` ADD COLUMN (`a` INT, INDEX `i`(`a`))", "multi schema change"),
        ("ALTER TABLE t ADD (a INT, UNIQUE (a))", "multi schema change"),
        ("ALTER TABLE `t` CHARACTER SET = UTF8MB4 COLLATE = UTF8MB4_BIN", "modify table charset and collate"),
        ("ALTER TABLE t DROP PARTITION p", "drop table partition"),
        ("ALTER TABLE t FIRST PARTITION LESS THAN (10)", "drop table partition"),
        ("ALTER TABLE t LAST PARTITION LESS THAN (10)", "add table partition"),
        ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (10))", "add table partition"),
        ("ALTER TABLE t ADD PARTITION (PARTITION p DEFAULT)", "add table partition"),
        ("ALTER TABLE t ADD PARTITION PARTITIONS 2", "reorganize table partition"),
        ("ALTER TABLE t ADD PARTITION IF NOT EXISTS (PARTITION `values`)", "reorganize table partition"),
        ("ALTER TABLE t COALESCE PARTITION 2", "reorganize table partition"),
        ("ALTER TABLE t /*!50100 DROP PARTITION p */", "drop table partition"),
        ("ALTER TABLE t /*! TRUNCATE PARTITION p */", "truncate table partition"),
        ("ALTER TABLE t COMMENT = '/*! DROP PARTITION p */'", "modify table comment"),
        ('ALTER TABLE t COMMENT = "/*! DROP PARTITION p */"', "modify table comment"),
        ("ALTER TABLE t COMMENT = 'a' /* , DROP PARTITION p */", "modify table comment"),
        ("ALTER TABLE `t` SPLIT MAXVALUE PARTITION LESS THAN (10)", "reorganize table partition"),
        ("ALTER TABLE `t` MERGE FIRST PARTITION LESS THAN (10)", "reorganize table partition"),
        ("ALTER TABLE `t` ADD COLUMN `a` INT, FORCE AUTO_INCREMENT = 5", "multi schema change"),
        ("ALTER TABLE t ALTER a DROP DEFAULT", "set default value"),
        ("ALTER TABLE t ALTER INDEX i INVISIBLE", "alter index visibility"),
        ("ALTER TABLE t RENAME KEY i TO j", "rename index"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "modify column"),
        ("ALTER TABLE t RENAME u", "rename table"),
        ("ALTER TABLE t RENAME TO u", "rename table"),
        ("ALTER TABLE `t` RENAME `u`", "rename table"),
    ],
)
def test_the_event_of_a_statement(sql: str, event: str) -> None:
    assert ddl_action(sql).event == event


@pytest.mark.parametrize(("ddl_type", "number"), [("", 61), ("ALTER", 61), ("CINDEX", 9)])
def test_the_type_tells_whether_a_foreign_key_makes_an_index(ddl_type: str, number: int) -> None:
    sql = "ALTER TABLE `d`.`t` ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `d`.`u`(`id`)"
    assert ddl_action(sql, ddl_type).number == number


@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("ALTER TABLE t ADD FULLTEXT INDEX (b) WITH PARSER standard", 230),
        ("CREATE FULLTEXT INDEX i ON t (b)", 230),
        ("CREATE HYBRID INDEX i ON t (b, c) PARAMETER 'x'", 231),
        ("CREATE VECTOR INDEX i ON t ((VEC_COSINE_DISTANCE(v)))", 0),
        ("CREATE UNIQUE INDEX i ON t (b)", 7),
        ("CREATE INDEX IF NOT EXISTS `on` USING BTREE ON t (b)", 7),
        ("DROP INDEX `i` ON `t`", 8),
        ("DROP INDEX IF EXISTS `i` ON `t`", 8),
        ("DROP INDEX `PRIMARY` ON `t`", 33),
        ("ALTER TABLE `t` DROP INDEX `primary`", 33),
        ("ALTER TABLE `t` DROP KEY IF EXISTS `PRIMARY`", 33),
        ("ALTER TABLE `t` DROP INDEX `PRIMARY`, DROP COLUMN `a`", 61),
        ("ALTER TABLE `t` DROP PRIMARY KEY", 33),
    ],
)
def test_the_number_of_an_index(sql: str, number: int) -> None:
    assert ddl_action(sql).number == number


def test_an_index_of_any_kind_is_no_column() -> None:
    statement = read_statement(
        "CREATE TABLE t (vector VECTOR(3) COMMENT 'x', VECTOR INDEX ((VEC_L2_DISTANCE(vector))))"
    )
    assert statement
    assert [(d.name, d.comment) for d in statement.definitions.values()] == [("vector", "x")]


def test_a_truncate_names_its_table() -> None:
    statement = read_statement("TRUNCATE `d`.`t`")
    assert statement
    assert (statement.verb, statement.subject, statement.name) == ("TRUNCATE", "TABLE", ("d", "t"))


def test_a_bracket_adds_columns_and_keys() -> None:
    statement = read_statement(
        "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS (`a` INT DEFAULT 5, UNIQUE `i`(`a`), `b` TIME(2))"
    )
    assert statement
    assert statement.actions == (("ADD", "COLUMN"), ("ADD", "UNIQUE"), ("ADD", "COLUMN"))
    assert {d.name: (d.default, d.arguments) for d in statement.definitions.values()} == {
        "a": ("5", ()),
        "b": (None, (2,)),
    }
    assert statement.may_change_keys


def test_a_default_is_read_without_the_word_column() -> None:
    statement = read_statement("ALTER TABLE t ALTER a SET DEFAULT 5")
    assert statement
    assert statement.definitions["a"].default == "5"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE `t` LIKE `u`", "CREATE"),
        ("CREATE VIEW `v` AS SELECT 1", "QUERY"),
        ("ALTER TABLE `t` RENAME AS `u`", "RENAME"),
        ("ALTER TABLE `t` ADD CONSTRAINT `p` PRIMARY KEY(`a`)", "CINDEX"),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`), ADD INDEX `j`(`b`)", "ALTER"),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`), ALGORITHM = INPLACE", "CINDEX"),
        ("ALTER TABLE `t` DROP FOREIGN KEY `f`", "DINDEX"),
        ("ALTER TABLE `t` EXCHANGE PARTITION `p` WITH TABLE `u`", "ALTER"),
        ("ALTER TABLE `t` /*T![ttl] TTL = `a` + INTERVAL 1 DAY */", "QUERY"),
        ("ALTER TABLE `t` /*T![ttl] REMOVE TTL */", "QUERY"),
        ("ALTER TABLE `t` ADD FULLTEXT INDEX `f`(`a`)", "QUERY"),
        ("ALTER TABLE `t` ADD VECTOR INDEX `v`((VEC_COSINE_DISTANCE(`a`)))", "QUERY"),
        ("ALTER TABLE `t` SHARD_ROW_ID_BITS = 4", "QUERY"),
        ("no statement", "QUERY"),
    ],
)
def test_the_type_of_a_statement_is_that_of_its_number(sql: str, expected: str) -> None:
    assert ddl_action(sql).type == expected


def test_an_index_of_another_kind_is_no_column() -> None:
    statement = read_statement("ALTER TABLE t ADD VECTOR INDEX v((VEC_COSINE_DISTANCE(a))), ADD vector INT")
    assert statement
    assert [*statement.definitions] == ["vector"]
