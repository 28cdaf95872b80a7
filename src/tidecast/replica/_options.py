"""The options of `replicate`, checked, which a retry of dead letters has, too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tidecast._policy import DdlPolicy, DdlWords, OnError, OnMismatch, OnUnrepresentable, TableMode
from tidecast.replica.settle import Policy
from tidecast.replica.tables import Contents, Settings
from tidecast.replica.targets import Target, parse_target
from tidecast.storage import AnyPath, folder_path


@dataclass(frozen=True)
class ApplyOptions:
    """The tables that events are applied to, and how; see `tidecast.replicate`."""

    to: str
    dead_letters: AnyPath
    policy: Policy
    on_ddl: DdlPolicy
    contents: Contents
    settings: Settings

    @classmethod
    def of(
        cls,
        to: str,
        *,
        dead_letters: str | None = None,
        on_error: str = OnError.DEAD_LETTER,
        on_mismatch: str = OnMismatch.DEAD_LETTER,
        ddl: DdlWords = (),
        mode: str = TableMode.CURRENT,
        metadata: Sequence[str] = (),
        on_unrepresentable: str = OnUnrepresentable.NULL,
        config: str | os.PathLike[str] | None = None,
    ) -> ApplyOptions:
        """Return what the options of `tidecast.replicate` say.

        Raises ConfigError for a wrong one, or a catalog without `dead_letters`.
        """
        target, settings = parse_target(to), Settings.of(config)
        letters = None if dead_letters is None else folder_path(dead_letters, "--dead-letters")
        return cls(
            to,
            target.dead_letters(letters),
            Policy(OnError.parse(on_error), OnMismatch.parse(on_mismatch), OnUnrepresentable.parse(on_unrepresentable)),
            DdlPolicy.parse(settings.ddl, ddl),
            Contents.parse(mode, metadata),
            settings,
        )

    @cached_property
    def target(self) -> Target:
        """The place of the tables."""
        return parse_target(self.to)
