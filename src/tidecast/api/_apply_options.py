"""The options of `replicate`, checked, which a retry of dead letters has, too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._policy import DdlPolicy, DdlWords, OnError, OnMismatch, OnUnrepresentable
from tidecast._progress import Progress
from tidecast.api._source import folder
from tidecast.model import Events
from tidecast.replica import AppliedKeys, Contents, Proofs, Replicated, Settings, parse_target
from tidecast.storage import AnyPath


@dataclass(frozen=True)
class ApplyOptions:
    """The tables that events are applied to, and how; see `tidecast.replicate`."""

    to: str
    dead_letters: AnyPath
    on_error: OnError
    on_mismatch: OnMismatch
    on_unrepresentable: OnUnrepresentable
    on_ddl: DdlPolicy
    contents: Contents
    settings: Settings

    @classmethod
    def of(
        cls,
        to: str,
        *,
        dead_letters: str | None,
        on_error: str = OnError.DEAD_LETTER,
        on_mismatch: str,
        ddl: DdlWords,
        mode: str,
        metadata: Sequence[str],
        on_unrepresentable: str,
        config: str | os.PathLike[str] | None,
    ) -> ApplyOptions:
        """Return what the options of `tidecast.replicate` say. Raises ConfigError for a wrong one."""
        target, settings = parse_target(to), Settings.of(config)
        return cls(
            to,
            target.dead_letters(folder(dead_letters, "--dead-letters")),
            OnError.parse(on_error),
            OnMismatch.parse(on_mismatch),
            OnUnrepresentable.parse(on_unrepresentable),
            DdlPolicy.parse(settings.ddl, ddl),
            Contents.parse(mode, metadata),
            settings,
        )

    def check(self, spark: SparkSession) -> None:
        """Refuse tables that the session cannot write."""
        parse_target(self.to).check(spark)

    def apply(
        self,
        events: Events,
        progress: Progress,
        applied: AppliedKeys | None = None,
        proofs: Proofs | None = None,
        *,
        dry_run: bool = False,
    ) -> Replicated:
        """Apply a batch; see `tidecast.replica.replicate`."""
        return replica.replicate(
            events.rejected.sparkSession,
            events,
            self.to,
            dead_letters=self.dead_letters,
            on_error=self.on_error,
            on_mismatch=self.on_mismatch,
            ddl=self.on_ddl,
            contents=self.contents,
            on_unrepresentable=self.on_unrepresentable,
            settings=self.settings,
            applied=applied,
            proofs=proofs,
            progress=progress,
            dry_run=dry_run,
        )
