"""How work tells what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how many of how many parts of it are."""


class RowCount(int):
    """A total whose parts are rows: only Spark's tasks tell how many of them are done."""


class Finished(str):
    """Tells what was done: what Spark does from then on belongs to something else."""


def no_progress(text: str, done: int, total: int) -> None:
    """Show progress to nobody."""
