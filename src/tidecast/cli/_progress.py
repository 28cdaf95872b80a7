"""Progress: a bar on a terminal, plain lines elsewhere, nothing beside JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Step = Callable[[str, int, int], None]
"""What is being done, and how many of how many parts of it are."""


@contextmanager
def progress(silent: bool = False) -> Iterator[Step]:
    """Give a function that shows each step on standard error."""
    if silent:
        yield lambda text, done, total: None
    elif not sys.stderr.isatty():
        yield _plain
    else:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting Spark", total=None)

            def step(text: str, done: int, total: int) -> None:
                bar.update(task, description=text, completed=done, total=total or None)

            yield step


def _plain(text: str, done: int, total: int) -> None:
    print(f"{text} ({done} of {total})" if total else text, file=sys.stderr, flush=True)
