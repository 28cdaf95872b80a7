"""Progress: a bar on a terminal, plain lines elsewhere, nothing beside JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tidecast._progress import Progress, no_progress


@contextmanager
def progress(silent: bool = False) -> Iterator[Progress]:
    """Give a function that shows each step on standard error."""
    if silent:
        yield no_progress
    elif not sys.stderr.isatty():
        yield _plain
    else:
        from rich import progress as rich_progress  # which `--help` shall not wait for
        from rich.console import Console

        columns = (
            rich_progress.SpinnerColumn(),
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.TimeElapsedColumn(),
        )
        with rich_progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting Spark", total=None)

            def step(text: str, done: int, total: int) -> None:
                bar.update(task, description=text, completed=done, total=total or None)

            yield step


def _plain(text: str, done: int, total: int) -> None:
    print(f"{text} ({done} of {total})" if total else text, file=sys.stderr, flush=True)
