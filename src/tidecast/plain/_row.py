"""One message that was read in Python: what `tidecast.model.Events` says of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from tidecast.model import Op, Reason, TableSchema, compose
from tidecast.plain._from_text import Value
from tidecast.plain._takes_spark import need

_MS = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class PlainRow:
    """A row that changed; see `tidecast.model.TableChanges`.

    `expected` is the checksum that it carries, None where it carries none; `corrupted` tells that the source found it
    damaged.
    """

    schema: TableSchema
    op: Op
    commit_ts: int | None
    old: Mapping[str, Value] | None
    data: Mapping[str, Value] | None
    expected: int | None = None
    corrupted: bool = False


@dataclass(frozen=True)
class Problem:
    """Why a message cannot be used; see `tidecast.model.Events.dead_letters`."""

    reason: Reason
    detail: str | None = None


PlainMessage = PlainRow | Problem | None
"""A row, a problem, or neither in a schema change, a bootstrap or a watermark."""


def check_commit_ts(commit_ts: int) -> None:
    """Raise TakesSpark for a commit-ts that is negative, or ahead of this machine's clock."""
    now = (dt.datetime.now(dt.UTC) - dt.datetime.fromtimestamp(0, dt.UTC)) // _MS
    need(0 <= commit_ts < compose(now), "a commit-ts that is no time")
