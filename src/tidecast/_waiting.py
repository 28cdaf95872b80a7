"""How long to wait between looks at something that has nothing new, or that does not answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """How long to wait, in seconds: where nothing is new, and after an error that may pass, twice as long each time."""

    idle: float = 1.0
    first_retry: float = 1.0
    last_retry: float = 60.0

    def retry(self, errors: int) -> float:
        """Return the delay after so many errors in a row."""
        return min(self.first_retry * 2.0 ** min(errors - 1, 30), self.last_retry)
