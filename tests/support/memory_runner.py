"""A runner without Spark: a source in memory, checkpoints in files. It moves changefeeds as the real one does."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidecast._errors import TidecastError
from tidecast.changefeed import Job, StepResult
from tidecast.config import ChangefeedConfig
from tidecast.model import Column, DataType, Index, TableSchema, compose
from tidecast.routing import TableMatcher

CHUNK = 10


def table(name: str, *, key: bool = True, version: int = 7, columns: Sequence[str] = ("id", "v")) -> TableSchema:
    """A table whose first column is its key, if it has one."""
    database, _, short = name.partition(".")
    index = Index("PRIMARY", unique=True, primary=True, nullable=False, columns=(columns[0],))
    return TableSchema(
        database,
        short,
        100,
        version,
        tuple(Column(c, DataType("bigint"), nullable=i > 0) for i, c in enumerate(columns)),
        (index,) if key else (),
    )


@dataclass
class MemoryRunner:
    """One source of events, for any number of changefeeds.

    `events` are commit-ts and table. `errors` has, by changefeed, what its next steps raise; `held` keeps steps from
    ending until it is set; `refuses` is what checking a sink raises; `dead` tells that no step can succeed any more;
    `end` is the commit-ts with which the source ends, 0 for one that goes on; `warnings` are those of each step.
    """

    known: Sequence[TableSchema] = (table("test.user"), table("shop.orders"))
    events: list[tuple[int, str]] = field(default_factory=list)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    refuses: TidecastError | None = None
    dead: bool = False
    end: int = 0
    warnings: Sequence[str] = ()
    held: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    steps: Counter[str] = field(default_factory=Counter)
    published: list[tuple[str, int, str]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.held.set()
        self._lock = threading.Lock()

    def now(self) -> int:
        return compose(int(time.time() * 1000), 1)

    def alive(self) -> bool:
        return not self.dead

    def check(self, config: ChangefeedConfig) -> None:
        if self.refuses:
            raise self.refuses

    def tables(self) -> Sequence[TableSchema]:
        return self.known

    def checkpoint_ts(self, job: Job) -> int:
        path = Path(str(job.folder)) / "checkpoint"
        return int(path.read_text()) if path.exists() else job.start_ts

    def overwrite(self, job: Job, checkpoint_ts: int) -> None:
        draft = Path(str(job.folder)) / "checkpoint.draft"
        draft.write_text(str(checkpoint_ts))
        draft.replace(draft.with_name("checkpoint"))

    def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)

    def step(self, job: Job) -> StepResult:
        with self._lock:
            self.steps[job.id] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.entered.set()
        try:
            self.held.wait(30)
            if self.errors.get(job.id):
                raise self.errors[job.id].pop(0)
            return self._move(job)
        finally:
            with self._lock:
                self.at_once -= 1

    def _move(self, job: Job) -> StepResult:
        begin = self.checkpoint_ts(job)
        matcher = TableMatcher(job.config.file.filter.rules)
        # Events up to a moment ago are all there; of those of this very moment another may still come.
        last = max(begin, min(job.target_ts or self.now(), self.end or self.now() - compose(50)))
        waiting = sorted(e for e in self.events if begin < e[0] <= last)
        chunk, more = waiting[:CHUNK], len(waiting) > CHUNK
        end = chunk[-1][0] if more else last
        sent = [(ts, name) for ts, name in chunk if matcher.matches(*name.split("."))]
        with self._lock:
            self.published += [(job.id, ts, name) for ts, name in sent]
        self.overwrite(job, end)
        versions = {t.name: t.version for t in self.known if t.name in {name for _, name in sent}}
        messages = Counter((name, job.config.default_topic) for _, name in sent)
        return StepResult(end, messages, versions, more=more, caught_up=not more, warnings=self.warnings)
