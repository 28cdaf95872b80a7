"""Requests and answers about a changefeed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidecast.changefeed._feed import Feed, Problem, State
from tidecast.model import TableSchema, physical_ms
from tidecast.storage import AnyPath


@dataclass(frozen=True)
class ChangefeedSpec:
    """A request for a changefeed. `config` is a replica config, of which anything may be missing.

    A missing member has its default; if it is a `patch`, an update leaves it as it is.
    """

    id: str = ""
    sink_uri: str = field(default="", repr=False)
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    start_ts: int = 0
    target_ts: int = 0
    patch: bool = False


class TableEligibility(NamedTuple):
    """Tables by what a filter does with them: `every` of the schemas it speaks of, and those that pass it."""

    every: Sequence[TableSchema]
    eligible: Sequence[TableSchema]
    ineligible: Sequence[TableSchema]


@dataclass(frozen=True)
class Snapshot:
    """A changefeed at a moment.

    `rate` is in messages a second, `synced_ts` the checkpoint after the last message; `caught_up` tells that it runs
    and has published all that its source holds. After an error that may pass, `retry_in` are the seconds until it
    is tried again, None while it is. `rows_waiting` are rows whose schemas the source has not shown. Dead letters lie
    in `dead_letters_at`.
    """

    feed: Feed
    checkpoint_ts: int
    rate: float
    messages: Mapping[tuple[str, str], int]
    skipped: Mapping[str, int]
    dead_letters: int
    rows_waiting: int
    synced_ts: int
    caught_up: bool
    retry_in: float | None
    dead_letters_at: AnyPath

    def lag(self, now: int) -> float | None:
        """Return how far it is behind its source, in seconds: None where it is finished.

        As long as it has not caught up, that is how old its checkpoint is.
        """
        if self.feed.state is State.FINISHED:
            return None
        return 0.0 if self.caught_up else lag_seconds(now, self.checkpoint_ts)

    def source_age(self, now: int) -> float | None:
        """Return how old the source's end is, in seconds; None where nobody knows."""
        return lag_seconds(now, self.checkpoint_ts) if self.caught_up else None

    @property
    def error(self) -> Problem | None:
        """The error that the changefeed suffers from now."""
        return self.feed.error if self.feed.state in (State.WARNING, State.FAILED) else None


def lag_seconds(now: int, checkpoint_ts: int) -> float:
    """Return how old a checkpoint is at a present TSO, in seconds."""
    return (physical_ms(now) - physical_ms(checkpoint_ts)) / 1000
