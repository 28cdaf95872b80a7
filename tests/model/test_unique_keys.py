"""The unique keys that CREATE TABLE makes, and which statements may change those of a table."""

from __future__ import annotations

import pytest

from tidecast.model import read_statement


@pytest.mark.parametrize(
    ("clauses", "keys"),
    [
        ("`a` INT, UNIQUE KEY `u` (`a`)", {"u": ("a",)}),
        ("a INT, b INT, UNIQUE (a DESC, b)", {"a": ("a", "b")}),
        ("a INT, CONSTRAINT `c` UNIQUE INDEX `u` USING BTREE (`a`)", {"c": ("a",)}),
        ("a INT, CONSTRAINT UNIQUE u (a), UNIQUE KEY v (b), b INT", {"u": ("a",), "v": ("b",)}),
        ("a INT NOT NULL UNIQUE COMMENT 'unique', b INT COMMENT 'UNIQUE'", {"a": ("a",)}),
        ("a VARCHAR(9), UNIQUE KEY u (a(3)), UNIQUE KEY v ((a + 1)), KEY k (a), CONSTRAINT p PRIMARY KEY (a)", {}),
    ],
)
def test_create_table_tells_unique_keys_of_whole_columns(clauses: str, keys: dict[str, tuple[str, ...]]) -> None:
    statement = read_statement(f"CREATE TABLE t ({clauses}) COMMENT = 'x'")
    assert statement
    assert statement.unique == keys


@pytest.mark.parametrize(
    ("sql", "may"),
    [
        ("ALTER TABLE t ADD COLUMN c INT", False),
        ("ALTER TABLE t ADD INDEX i (c)", False),
        ("CREATE INDEX i ON t (c)", False),
        ("RENAME TABLE t TO u", False),
        ("CREATE UNIQUE INDEX i ON t (c)", True),
        ("ALTER TABLE t ADD COLUMN c INT, ADD CONSTRAINT u UNIQUE (c)", True),
        ("ALTER TABLE t DROP INDEX u", True),
        ("ALTER TABLE t DROP PRIMARY KEY", True),
        ("DROP INDEX u ON t", True),
    ],
)
def test_some_statements_may_change_unique_keys(sql: str, may: bool) -> None:
    statement = read_statement(sql)
    assert statement
    assert statement.may_change_keys is may
