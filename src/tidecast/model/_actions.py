"""What a schema change does, told by its statement: TiDB's action number and TiCDC's name of the event."""

from __future__ import annotations

import re
from typing import NamedTuple


class Action(NamedTuple):
    """A kind of schema change: TiDB's number of the DDL action, and its name in TiCDC's event filters."""

    number: int
    event: str


UNKNOWN = Action(0, "")
MULTI_SCHEMA_CHANGE = Action(61, "multi schema change")

_OF_TABLE = r"ALTER TABLE .*? "
_ACTIONS: tuple[tuple[str, Action], ...] = (
    (r"CREATE (DATABASE|SCHEMA)\b", Action(1, "create schema")),
    (r"DROP (DATABASE|SCHEMA)\b", Action(2, "drop schema")),
    (r"ALTER (DATABASE|SCHEMA)\b", Action(26, "modify schema charset and collate")),
    (r"CREATE TABLE\b", Action(3, "create table")),
    (r"DROP TABLE\b", Action(4, "drop table")),
    (r"CREATE (OR REPLACE )?((ALGORITHM|DEFINER|SQL SECURITY)\b[^(]*? )?VIEW\b", Action(21, "create view")),
    (r"DROP VIEW\b", Action(24, "drop view")),
    (r"TRUNCATE TABLE\b", Action(11, "truncate table")),
    (r"RENAME TABLE\b", Action(14, "rename table")),
    (r"(RECOVER|FLASHBACK) TABLE\b", Action(25, "recover table")),
    (r"CREATE (UNIQUE )?INDEX\b", Action(7, "create index")),
    (r"DROP INDEX\b", Action(8, "drop index")),
    (_OF_TABLE + r"ADD PRIMARY KEY\b", Action(32, "add primary key")),
    (_OF_TABLE + r"DROP PRIMARY KEY\b", Action(33, "drop primary key")),
    (_OF_TABLE + r"DROP FOREIGN KEY\b", Action(10, "drop foreign key")),
    (_OF_TABLE + r"ADD (UNIQUE )?(INDEX|KEY|UNIQUE)\b", Action(7, "create index")),
    (_OF_TABLE + r"DROP (INDEX|KEY)\b", Action(8, "drop index")),
    (_OF_TABLE + r"RENAME INDEX\b", Action(18, "rename index")),
    (_OF_TABLE + r"ALTER INDEX\b", Action(41, "alter index visibility")),
    (_OF_TABLE + r"ADD PARTITION\b", Action(19, "add table partition")),
    (_OF_TABLE + r"DROP PARTITION\b", Action(20, "drop table partition")),
    (_OF_TABLE + r"TRUNCATE PARTITION\b", Action(23, "truncate table partition")),
    (_OF_TABLE + r"REORGANIZE PARTITION\b", Action(64, "reorganize table partition")),
    (_OF_TABLE + r"EXCHANGE PARTITION\b", Action(42, "exchange table partition")),
    (_OF_TABLE + r"REMOVE PARTITIONING\b", Action(72, "remove table partitioning")),
    (_OF_TABLE + r"PARTITION BY\b", Action(71, "alter table partitioning")),
    (_OF_TABLE + r"ADD COLUMN\b", Action(5, "add column")),
    (_OF_TABLE + r"DROP COLUMN\b", Action(6, "drop column")),
    (_OF_TABLE + r"(MODIFY|CHANGE|RENAME) COLUMN\b", Action(12, "modify column")),
    (_OF_TABLE + r"ALTER COLUMN\b", Action(15, "set default value")),
    (_OF_TABLE + r"REMOVE TTL\b", Action(66, "alter ttl remove")),
    (_OF_TABLE + r"TTL(_ENABLE|_JOB_INTERVAL)?\b", Action(65, "alter ttl info")),
    (_OF_TABLE + r"(FORCE )?AUTO_INCREMENT\b", Action(13, "rebase auto id")),
    (_OF_TABLE + r"COMMENT\b", Action(17, "modify table comment")),
    (
        _OF_TABLE + r"(CONVERT TO |DEFAULT )?(CHARACTER SET|CHARSET|COLLATE)\b",
        Action(22, "modify table charset and collate"),
    ),
    (_OF_TABLE + r"RENAME (TO|AS)\b", Action(14, "rename table")),
)
_SPEC = r"(?:ADD|DROP|MODIFY|CHANGE|RENAME|ALTER|CONVERT|AUTO_INCREMENT|COMMENT)\b"
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'", re.S)
_COMMENT = re.compile(r"/\*T!?(?:\[\w+\])?|/\*.*?\*/|\*/", re.S)
_NAMED = re.compile(r"`(?:[^`]|``)+`")


def ddl_action(sql: str) -> Action:
    """Return what a statement does, as far as its text tells it; the text is one that TiCDC has printed."""
    plain = _NAMED.sub("`n`", _COMMENT.sub("", _QUOTED.sub("''", sql)))
    if re.match(r"ALTER TABLE\b", plain, re.I) and _is_multi(plain):
        return MULTI_SCHEMA_CHANGE
    return next((action for form, action in _ACTIONS if re.match(form, plain, re.I | re.S)), UNKNOWN)


def _is_multi(plain: str) -> bool:
    """Tell whether an ALTER TABLE has several specifications, or one that TiDB carries out as several."""
    depth, top = 0, []
    for character in plain:
        depth += {"(": 1, ")": -1}.get(character, 0)
        top.append(character if depth == 0 else " ")
    if re.search(r"ADD CONSTRAINT .*FOREIGN KEY\b", plain, re.I) or _adds_several(plain):
        return True
    return any(re.match(_SPEC, part.strip(), re.I) for part in "".join(top).split(",")[1:])


def _adds_several(plain: str) -> bool:
    """Tell whether an ALTER TABLE adds several columns in one bracket."""
    bracket = re.match(_OF_TABLE + r"ADD COLUMN (IF NOT EXISTS )?\(", plain, re.I | re.S)
    depth = 1
    for character in plain[bracket.end() :] if bracket else "":
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            break
        if depth == 1 and character == ",":
            return True
    return False
