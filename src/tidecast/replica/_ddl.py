"""Schema changes that row changes do not show: tables and partitions that are emptied, dropped or renamed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidecast.model import Ddl

_QUOTED = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'", re.S)
_UNSEEN = re.compile(
    r"^\s*(?:(?:DROP|TRUNCATE|RENAME) (?:TABLE|DATABASE|SCHEMA)\b"
    r"|ALTER TABLE \S+ (?:RENAME (?:AS|TO)\b|(?:DROP|TRUNCATE|EXCHANGE) PARTITION\b))",
    re.I,
)


def not_carried_out(changes: Iterable[Ddl]) -> tuple[str, ...]:
    """Return a warning for each schema change that moves or removes rows without a row change for each of them."""
    unseen = [change.sql for change in changes if _UNSEEN.match(_QUOTED.sub("x", change.sql))]
    return tuple(f"not carried out on the tables: {sql}" for sql in unseen)
