"""A stream with all that a replica does to its surroundings, in batches, and the tables that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from growing_topic import ID, Said, ddl, row, table, watermark

from tidecast.model import compose

_T0 = compose(1_700_000_000_000)


def _number(name: str, kind: str = "int", **more: Any) -> Said:
    return {**ID, "name": name, "dataType": {**ID["dataType"], "mysqlType": kind}, "nullable": True, **more}


_FIRST, _GROWN, _MOVED = _T0, _T0 + 100, _T0 + 200
_KEYED = table(_FIRST, ID, _number("value"), _number("extra"), name="keyed")
_LOG = table(_FIRST, _number("n"), name="log") | {"indexes": []}
_LATE = table(_FIRST, ID, name="late")
_EMPTY = table(_FIRST, ID, name="empty")
_COMING = table(_FIRST, ID, _number("value", "bigint"), name="coming")
_COMING_2 = table(_GROWN, ID, _number("value"), _number("more"), name="coming")
_C = _number("c", nullable=False, default="5")
_KEYED_2 = table(_GROWN, ID, _number("value"), _number("extra"), _C, name="keyed")
_LOG_2 = table(_GROWN, _number("n"), _number("m"), name="log") | {"indexes": []}
_KEYED_3 = table(_MOVED, ID, _number("amount"), _number("extra"), _C, name="keyed")
_KEYED_4 = table(_MOVED + 1, ID, _number("amount"), _C, name="keyed")
_KEYED_5 = table(_MOVED + 2, ID, _number("amount", "bigint"), _C, name="keyed")

_ROWS = [row(_T0 + n, _FIRST, name="keyed", id=n, value=n, extra=n) for n in range(1, 8)]
_LOGGED = [row(_T0 + n, _FIRST, name="log", n=n) for n in range(1, 6)]
_ADD_C = ddl("ALTER TABLE `d`.`keyed` ADD COLUMN `c` INT NOT NULL DEFAULT 5", _GROWN, _KEYED_2)
_ADD_M = ddl("ALTER TABLE `d`.`log` ADD COLUMN `m` INT", _GROWN, _LOG_2)
_RENAME = ddl("ALTER TABLE `d`.`keyed` RENAME COLUMN `value` TO `amount`", _MOVED, _KEYED_3)


def _moved(ts: int, version: int, old: int, new: int, **data: Any) -> list[Said]:
    """The update of a key."""
    return [
        row(ts, version, kind="DELETE", name="keyed", id=old, **data),
        row(ts, version, name="keyed", id=new, **data),
    ]


BATCHES: Sequence[Sequence[Said]] = (
    [
        ddl("CREATE TABLE `d`.`keyed`", _FIRST, _KEYED),
        ddl("CREATE TABLE `d`.`log`", _FIRST, _LOG),
        ddl("CREATE TABLE `d`.`empty`", _FIRST, _EMPTY),
        ddl("CREATE TABLE `d`.`coming`", _FIRST, _COMING),
        *_ROWS,
        *_LOGGED,
        {"no": "message"},
        row(_T0 + 9, _FIRST, name="late", id=1),
        watermark(_T0 + 4),
        *_LOGGED[2:],
    ],
    [
        *_ROWS[5:],
        row(_T0 + 50, _FIRST, kind="DELETE", name="keyed", id=3, value=3, extra=3),
        _ADD_C,
        _ADD_M,
        ddl("ALTER TABLE `d`.`coming` MODIFY COLUMN `value` INT, ADD COLUMN `more` INT", _GROWN, _COMING_2),
        *_moved(_T0 + 101, _GROWN, 4, 40, value=4, extra=4, c=5),
        row(_T0 + 102, _GROWN, name="keyed", id=8, value=8, extra=8, c=8),
        row(_T0 + 103, _GROWN, name="log", n=6, m=6),
        row(_T0 + 103, _GROWN, name="log", n=7, m=7),
        ddl("CREATE TABLE `d`.`late`", _FIRST, _LATE),
        row(_T0 + 104, _FIRST, name="late", id=2),
        {"no": "message either"},
        watermark(_T0 + 110),
    ],
    [
        _ADD_C,
        _RENAME,
        ddl("ALTER TABLE `d`.`keyed` DROP COLUMN `extra`", _MOVED + 1, _KEYED_4),
        ddl("ALTER TABLE `d`.`keyed` MODIFY COLUMN `amount` BIGINT", _MOVED + 2, _KEYED_5),
        row(_T0 + 210, _MOVED + 2, name="keyed", id=9, amount=2**40, c=9),
        row(_T0 + 211, _MOVED + 2, kind="DELETE", name="keyed", id=1, amount=1, c=5),
        row(_T0 + 212, _GROWN, name="log", n=8, m=8),
        row(_T0 + 212, _GROWN, name="coming", id=1, value=1, more=1),
        row(_T0 + 213, _FIRST, kind="DELETE", name="late", id=1),
        watermark(_T0 + 220),
    ],
)
"""New tables, rows and dead letters; columns that come, change and go; a row, and tables, that wait."""

TABLES: dict[str, list[tuple[int | None, ...]]] = {
    "keyed": [
        (2, 2, 5),
        (5, 5, 5),
        (6, 6, 5),
        (7, 7, 5),
        (8, 8, 8),
        (9, 2**40, 9),
        (40, 4, 5),
    ],
    "log": [(1, None), (2, None), (3, None), (4, None), (5, None), (6, 6), (7, 7), (8, 8)],
    "late": [(2,)],
    "empty": [],
    "coming": [(1, 1, 1)],
}
"""The rows of the tables in the end."""
