"""Statements that are none: whatever stands there, it is read or said to be unreadable."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_data import lines
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidecast.model import read_statement, renamed_tables

_TEXT = """
CREATE ALTER DROP RENAME TRUNCATE TABLE TABLES VIEW DATABASE INDEX IF NOT EXISTS ON TO AS LIKE ADD MODIFY CHANGE COLUMN
DEFAULT COMMENT GENERATED ALWAYS STORED EXCHANGE PARTITION WITH CHECK OPTION SELECT FROM JOIN WHERE CONVERT CHARACTER
SET CHARSET COLLATE REFERENCES CONSTRAINT PRIMARY KEY INT VARCHAR DECIMAL ENUM UPDATE CURRENT_TIMESTAMP NULL
( ) , . ; = - * `t` `d`.`t` t 't' "t" 1 1e9 b'1' x'ff' 0x 0b2 `t ' /* */ /*T! -- # @ \\
"""
_WORDS = _TEXT.split()


@pytest.fixture(scope="module")
def statements(golden: Callable[[str], Path]) -> list[str]:
    """The statements of a golden file, and some that it has not."""
    messages = (json.loads(base64.b64decode(m["value"])) for m in lines(golden("simple-json.jsonl.gz")) if m["value"])
    told = {str(m["sql"]) for m in messages if m.get("sql")}
    view = "CREATE VIEW `d`.`v` AS SELECT `t`.`id` FROM `d`.`t` WHERE `t`.`id` IN (SELECT 1) WITH CASCADED CHECK OPTION"
    return [*sorted(told), view, "ALTER TABLE t ADD COLUMN (a DECIMAL(5,2) GENERATED ALWAYS AS ((b)) STORED, c INT)"]


def _read(sql: str) -> None:
    for clauses in (False, True):
        read_statement(sql, tidb_clauses=clauses)
    new = renamed_tables(sql, "d", lambda database, table: ("x", f"{table}_r"), lambda name: "x")
    assert new is None or isinstance(new, str)


@given(words=st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join))
@example(words="ALTER TABLE t ADD COLUMN a INT (1")
@example(words="CREATE VIEW v AS SELECT 1 FROM t CHECK")
@example(words="CREATE VIEW v AS SELECT " + "(" * 3000)
@settings(max_examples=1000)
def test_words_in_any_order_are_no_error(words: str) -> None:
    _read(words)


@given(data=st.data())
@settings(max_examples=1000)
def test_damaged_statements_are_no_error(statements: list[str], data: Any) -> None:
    sql = data.draw(st.sampled_from(statements))
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(sql))] * 2)))
    put = data.draw(st.sampled_from(["", sql[begin:end] * 2, *_WORDS]) | st.text(max_size=3))
    _read(sql[:begin] + put + sql[end:])
