"""How far Spark is with what it does now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote


class RunningTasks:
    """The tasks of a session's stages, of those that have ended, too, for another thread to ask."""

    def __init__(self, session: SparkSession) -> None:
        self._stages: dict[int, tuple[int, int]] = {}
        self._tracker = None
        if is_remote():
            session.registerProgressHandler(self._hear)
        else:
            self._tracker = session.sparkContext.statusTracker()

    def begin(self) -> None:
        """Count anew: only stages that run from now on."""
        self._stages = {}

    def read(self) -> tuple[int, int]:
        """Return how many of how many tasks are done, as far as stages have begun; all of them where none runs."""
        if self._tracker is not None:
            found = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
            running = {stage.stageId: (stage.numCompletedTasks, stage.numTasks) for stage in found if stage}
            ended = {stage: (total, total) for stage, (_, total) in self._stages.items()}
            self._stages = ended | running
        counts = list(self._stages.values())
        return sum(done for done, _ in counts), sum(total for _, total in counts)

    def _hear(self, *, stages: Iterable[Any] | None, **_: object) -> None:
        """Take what a Spark Connect server tells of an operation's stages."""
        for stage in stages or ():
            ended = stage.num_tasks if stage.done else stage.num_completed_tasks
            self._stages[stage.stage_id] = (ended, stage.num_tasks)
