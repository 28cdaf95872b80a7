"""How far Spark is with what it does now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote


class RunningTasks:
    """The tasks of a session's running stages, for another thread to ask."""

    def __init__(self, session: SparkSession) -> None:
        self._told: dict[str | None, tuple[int, ...]] = {}
        self._tracker = None
        if is_remote():
            session.registerProgressHandler(self._hear)
        else:
            self._tracker = session.sparkContext.statusTracker()

    def read(self) -> tuple[int, int]:
        """Return how many of how many tasks are done; none of none where nothing runs."""
        if self._tracker is None:
            counts = list(self._told.values())
        else:
            found = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
            counts = [(stage.numCompletedTasks, stage.numTasks) for stage in found if stage]
        return sum(done for done, _ in counts), sum(total for _, total in counts)

    def _hear(self, *, stages: Iterable[Any] | None, operation_id: str | None, done: bool, **_: object) -> None:
        """Take what a Spark Connect server tells of one operation; of stages that have ended, too."""
        if done:
            self._told.pop(operation_id, None)
            return
        counts = ((stage.num_completed_tasks, stage.num_tasks) for stage in stages or () if not stage.done)
        self._told[operation_id] = tuple(map(sum, zip((0, 0), *counts, strict=True)))
