"""Shows a command's progress on standard error: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tidecast._progress import Finished, Progress, RowCount, no_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidecast.runtime import RunningTasks

_LINE_S, _BAR_S = 10.0, 0.5
"""How often a line is printed while nothing else is told, and how often a bar moves."""

Show = Callable[[str, int, int], None]
"""Shows a text, and how many of how many parts are done; of none where that is not known."""


@contextmanager
def progress(silent: bool = False) -> Iterator[Progress]:
    """Give a function that shows each step, and meanwhile how far Spark is with its tasks."""
    if silent:
        yield no_progress
        return
    with ExitStack() as kept:
        bar = _bar(kept) if sys.stderr.isatty() else None
        watch = _Watch(_print if bar is None else bar)
        kept.enter_context(watch.running(_LINE_S if bar is None else _BAR_S))

        def step(text: str, done: int, total: int) -> None:
            if bar is None:
                _print(f"{text} ({done:,} of {total:,})" if total else text, done, total)
            else:
                bar(text, done, total)
            finished = isinstance(text, Finished)
            watch.tell("reading" if finished else text, done, total, waits=finished)

        yield step


def _bar(kept: ExitStack) -> Show:
    from rich import progress as rich_progress  # late, so that `--help` is fast
    from rich.console import Console

    columns = (
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    shown = kept.enter_context(rich_progress.Progress(*columns, console=Console(stderr=True), transient=True))
    task = shown.add_task("starting Spark", total=None)
    return lambda text, done, total: shown.update(task, description=text, completed=done, total=total or None)


def _print(text: str, done: int, total: int) -> None:
    print(text, file=sys.stderr, flush=True)


class _Watch:
    """Shows Spark's progress with the current step, repeatedly."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._step = ("", 0, 0)
        self._session: SparkSession | None = None
        self._tasks: RunningTasks | None = None
        self._since: float | None = None

    def tell(self, text: str, done: int, total: int, *, waits: bool = False) -> None:
        """Begin a step, which may wait before it begins; called by the thread whose session is the active one."""
        self._step, self._since = (text, done, total), None if waits else time.monotonic()
        if self._tasks:
            self._tasks.begin()
        if self._session is None and (sql := sys.modules.get("pyspark.sql")):
            self._session = sql.SparkSession.getActiveSession()

    @contextmanager
    def running(self, seconds: float) -> Iterator[None]:
        """Tell so often, until the block ends."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(seconds):
                try:
                    self.look()
                except Exception:
                    return  # Spark is ending, or has lost its Java: the command itself tells that

        thread = threading.Thread(target=watch, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(seconds)

    def look(self) -> None:
        """Tell how far it is, if anything runs."""
        if self._session is None:
            return
        if self._tasks is None:
            from tidecast.runtime import RunningTasks

            self._tasks = RunningTasks(self._session)
        done, total = self._tasks.read()
        if done < total:
            now, since = time.monotonic(), self._since
            if since is None:
                since = self._since = now
            self._show(said(self._step, (done, total), now - since), done, total)


def said(step: tuple[str, int, int], tasks: tuple[int, int], seconds: float) -> str:
    """Return a step in words: `shop.orders (2 of 6, 34 of 120 tasks, 28 %, about 36 s left)`.

    `tasks` are those of the stages that have begun, and `seconds` is how long the step has taken. Of a `RowCount` they
    tell how many rows are done, and how many a second: `verifying rows (340,000 of 1,200,000, 34 of 120 tasks, …)`.
    """
    text, done, total = step
    share = tasks[0] / tasks[1]
    rows = isinstance(total, RowCount)
    if rows:
        done = round(total * share)
    alone = tasks[1] == 1  # of which nobody knows how far it is
    words = [f"{total:,} in all" if rows and alone else f"{done:,} of {total:,}"] if total else []
    words += [] if alone else [f"{tasks[0]:,} of {tasks[1]:,} tasks", f"{100 * share:.0f} %"]
    if share and seconds >= 1:
        words += [f"{done / seconds:,.0f} a second"] if rows else []
        words.append(f"about {_duration(seconds / share - seconds)} left")
    elif seconds >= 1:
        words.append(f"{_duration(seconds)} so far")
    return f"{text} ({', '.join(words)})" if words else text


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
