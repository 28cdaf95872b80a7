"""Names of columns that Iceberg has for its own, and would take a table's column for."""

from __future__ import annotations

import re

_OWN = re.compile(
    "_(file|pos|deleted|spec_id|partition|row_id|last_updated_sequence_number|change_type|change_ordinal"
    "|commit_snapshot_id)(_*)",
    re.IGNORECASE,
)


def stored_name(name: str) -> str:
    """Return what a column is called in an Iceberg table: one with a name of Iceberg's has an underscore more.

    So has one with such a name and underscores after it, so that no two become one.
    Source: Other documents, Iceberg's reserved names.
    """
    return f"{name}_" if _OWN.fullmatch(name) else name


def shown_name(stored: str) -> str:
    """Undo `stored_name`."""
    found = _OWN.fullmatch(stored)
    return stored[:-1] if found and found[2] else stored
