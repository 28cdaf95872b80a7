"""Schema changes and watermarks as `avro-enable-watermark` sends them. Source: Avro protocol, DDL and watermarks."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidecast.model import Ddl
from tidecast.protocols.avro._json import Json, dumps

DDL, WATERMARK = b"\x01", b"\x02"
WATERMARK_LENGTH = 9

_UNKNOWN = 0
_OF_TABLE = r"ALTER TABLE .*? "
_ACTIONS: tuple[tuple[str, int], ...] = (
    (r"CREATE (DATABASE|SCHEMA)\b", 1),
    (r"DROP (DATABASE|SCHEMA)\b", 2),
    (r"ALTER (DATABASE|SCHEMA)\b", 26),
    (r"CREATE TABLE\b", 3),
    (r"DROP TABLE\b", 4),
    (r"CREATE\b[^`(]*\bVIEW\b", 21),
    (r"DROP VIEW\b", 24),
    (r"TRUNCATE TABLE\b", 11),
    (r"RENAME TABLE\b", 14),
    (r"CREATE (UNIQUE )?INDEX\b", 7),
    (r"DROP INDEX\b", 8),
    (_OF_TABLE + r"ADD PRIMARY KEY\b", 32),
    (_OF_TABLE + r"DROP PRIMARY KEY\b", 33),
    (_OF_TABLE + r"ADD CONSTRAINT .*FOREIGN KEY\b", 9),
    (_OF_TABLE + r"DROP FOREIGN KEY\b", 10),
    (_OF_TABLE + r"ADD (UNIQUE )?(INDEX|KEY|UNIQUE)\b", 7),
    (_OF_TABLE + r"DROP (INDEX|KEY)\b", 8),
    (_OF_TABLE + r"RENAME INDEX\b", 18),
    (_OF_TABLE + r"ALTER INDEX\b", 41),
    (_OF_TABLE + r"ADD PARTITION\b", 19),
    (_OF_TABLE + r"DROP PARTITION\b", 20),
    (_OF_TABLE + r"TRUNCATE PARTITION\b", 23),
    (_OF_TABLE + r"REORGANIZE PARTITION\b", 64),
    (_OF_TABLE + r"EXCHANGE PARTITION\b", 42),
    (_OF_TABLE + r"REMOVE PARTITIONING\b", 72),
    (_OF_TABLE + r"PARTITION BY\b", 71),
    (_OF_TABLE + r"ADD COLUMN\b", 5),
    (_OF_TABLE + r"DROP COLUMN\b", 6),
    (_OF_TABLE + r"(MODIFY|CHANGE|RENAME) COLUMN\b", 12),
    (_OF_TABLE + r"ALTER COLUMN\b", 15),
    (_OF_TABLE + r"(FORCE )?AUTO_INCREMENT\b", 13),
    (_OF_TABLE + r"COMMENT\b", 17),
    (_OF_TABLE + r"(CONVERT TO |DEFAULT )?(CHARACTER SET|CHARSET|COLLATE)\b", 22),
    (_OF_TABLE + r"RENAME (TO|AS)\b", 14),
    (r"RECOVER TABLE\b|FLASHBACK TABLE\b", 25),
)
_MULTI_SCHEMA_CHANGE = 61
_SPEC = r"(?:ADD|DROP|MODIFY|CHANGE|RENAME|ALTER|CONVERT|AUTO_INCREMENT|COMMENT)\b"
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|/\*.*?\*/", re.S)
_NAMED = re.compile(r"`(?:[^`]|``)+`")


def encode_ddl(ddl: Ddl) -> bytes:
    """Return the message of a schema change: a byte 1 and a JSON object.

    Its `type` is the number of TiDB's action, as far as the statement tells it, else 0.
    """
    said: Json = {
        "query": ddl.sql,
        "type": _action(ddl.sql),
        "schema": ddl.database,
        "table": ddl.table,
        "commitTs": ddl.commit_ts,
    }
    return DDL + dumps(said).encode()


def encode_watermark(commit_ts: Column) -> Column:
    """Return the message of a watermark, bigint to binary: a byte 2 and eight bytes, the highest first."""
    return F.concat(F.lit(WATERMARK), F.unhex(F.lpad(F.hex(commit_ts), 16, "0")))


def _action(sql: str) -> int:
    plain = _NAMED.sub("`n`", _QUOTED.sub("''", sql))
    if re.match(r"ALTER TABLE\b", plain, re.I) and _is_multi(plain):
        return _MULTI_SCHEMA_CHANGE
    return next((number for form, number in _ACTIONS if re.match(form, plain, re.I | re.S)), _UNKNOWN)


def _is_multi(plain: str) -> bool:
    """Tell whether an ALTER TABLE has several specifications, or one that TiDB carries out as several."""
    depth, top = 0, []
    for character in plain:
        depth += {"(": 1, ")": -1}.get(character, 0)
        top.append(character if depth == 0 else " ")
    if re.search(r"ADD CONSTRAINT .*FOREIGN KEY\b", plain, re.I):
        return True
    return any(re.match(_SPEC, part.strip(), re.I) for part in "".join(top).split(",")[1:])
