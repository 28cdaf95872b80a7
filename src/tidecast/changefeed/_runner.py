"""The interface between a changefeed's state and its work: it moves forward step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidecast.config import ChangefeedConfig
from tidecast.model import TableSchema
from tidecast.storage import AnyPath

DEAD_LETTERS = "dead-letters"
"""The place of dead letters in a changefeed's folder."""


@dataclass(frozen=True)
class Job:
    """A changefeed as its runner sees it.

    Events with `start_ts` < commit-ts are published, and those up to `target_ts` where it is not 0. `folder` is the
    changefeed's own, in which its runner keeps its checkpoint. `revision` counts updates. After one, all above the
    checkpoint is published once more: the sink may be another, and rules or target may let more pass.
    """

    id: str
    config: ChangefeedConfig
    start_ts: int
    target_ts: int
    folder: AnyPath
    revision: int = 0


@dataclass(frozen=True)
class StepResult:
    """The result of a step: the checkpoint-ts reached, messages by table and topic, schema versions by table.

    `more` tells that the source holds more already, `caught_up` that all it holds has been published. `rows_waiting`
    are rows whose schemas the source has not shown; `warnings` what else a user should know.
    """

    checkpoint_ts: int
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)
    versions: Mapping[str, int] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0
    more: bool = False
    caught_up: bool = False
    rows_waiting: int = 0
    warnings: Sequence[str] = ()


class Runner(Protocol):
    """Moves changefeeds over one source. Its methods are called from several threads, one at a time for a job."""

    def now(self) -> int:
        """Return the present moment as a TSO."""

    def alive(self) -> bool:
        """Tell whether what does the work still runs; where it does not, no step can succeed any more."""

    def check(self, config: ChangefeedConfig) -> None:
        """Connect to the sink and its registry and make the default topic ready. Raises TidecastError."""

    def tables(self) -> Sequence[TableSchema]:
        """Return the newest schema of every table that the source has, and of every view."""

    def checkpoint_ts(self, job: Job) -> int:
        """Return how far a changefeed has come, its start-ts where it has not begun."""

    def overwrite(self, job: Job, checkpoint_ts: int) -> None:
        """Set how far a changefeed has come, back or forward."""

    def step(self, job: Job) -> StepResult:
        """Publish what the source holds beyond the checkpoint, up to a bounded amount, and save the new checkpoint.

        Raises TransientError for a failure that may pass, any other TidecastError for one that will not.
        """

    def forget(self, job_id: str) -> None:
        """Drop what is kept in memory of a changefeed that is being removed; its folder goes as well."""
