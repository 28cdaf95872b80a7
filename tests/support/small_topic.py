"""A topic of one table with a few rows, in Simple, and what becomes of it when commands publish and apply it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

_CREATED, _CHANGED = 456389768249344000, 456389768773632000
_INT = {"mysqlType": "int", "charset": "binary", "collate": "binary", "length": 11}
_NAME = {"mysqlType": "varchar", "charset": "utf8mb4", "collate": "utf8mb4_bin", "length": 32}
_TABLE = {
    "schema": "shop",
    "table": "t",
    "tableID": 100,
    "version": _CREATED,
    "columns": [
        {"name": "id", "dataType": _INT, "nullable": False, "default": None},
        {"name": "name", "dataType": _NAME, "nullable": True, "default": None},
    ],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}


def _message(kind: str, commit_ts: int, **members: object) -> str:
    known = {"version": 1, "type": kind, "commitTs": commit_ts, "buildTs": commit_ts >> 18, **members}
    return json.dumps(known)


def _row(kind: str, commit_ts: int, **sides: object) -> str:
    named = {"database": "shop", "table": "t", "tableID": 100, "schemaVersion": _CREATED}
    return _message(kind, commit_ts, **named, **sides)


TWO_ROWS = [
    _message("CREATE", _CREATED, sql="CREATE TABLE `t`", tableSchema=_TABLE),
    _row("INSERT", _CHANGED, data={"id": "1", "name": "one"}),
    _row("INSERT", _CHANGED, data={"id": "2", "name": "two"}),
]
"""The table `shop.t` with the rows (1, one) and (2, two)."""

CHANGED_ROWS = [
    *TWO_ROWS,
    _row("UPDATE", _CHANGED + 1, data={"id": "1", "name": "new"}, old={"id": "1", "name": "one"}),
    _row("DELETE", _CHANGED + 1, old={"id": "2", "name": "two"}),
    _row("INSERT", _CHANGED + 1, data={"id": "3", "name": "three"}),
]
"""The same, and then the changes to (1, new) and (3, three)."""


def json_lines(messages: list[str]) -> str:
    """Return messages as the lines of a topic in a file."""
    return "".join(json.dumps({"value": base64.b64encode(m.encode()).decode()}) + "\n" for m in messages)


def write_topic(path: Path, messages: list[str]) -> None:
    """Write messages as a topic in a file."""
    path.write_text(json_lines(messages))
