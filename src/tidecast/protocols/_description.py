"""The description of a message, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Description:
    """The description of one message, for people: empty or None where the message does not have it.

    `columns` are names and types. The ids are those of schemas in a registry.
    """

    type: str = ""
    table: str = ""
    commit_ts: int | None = None
    sql: str | None = None
    columns: Sequence[tuple[str, str]] = ()
    key_schema_id: int | str | None = None
    value_schema_id: int | str | None = None
