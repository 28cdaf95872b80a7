"""Counts in words."""

from __future__ import annotations


def counted(count: int, one: str, many: str) -> str:
    """Return a count with what there is one of, or many: `1 row waits`, `2,411 rows wait`."""
    return f"{count:,} {one if count == 1 else many}"
