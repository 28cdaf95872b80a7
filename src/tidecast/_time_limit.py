"""How long patterns of a changefeed may be read and matched, where a stranger has written them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tidecast._errors import ConfigError

_ends: ContextVar[float] = ContextVar("ends", default=math.inf)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let `check_time` refuse after so many seconds."""
    token = _ends.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends.reset(token)


def check_time() -> None:
    """Raise ConfigError (`CDC:ErrFilterRuleInvalid`) when the time is over. Between two calls little may happen."""
    if time.monotonic() > _ends.get():
        raise ConfigError(
            "filter rules, matchers and column patterns take too long",
            code="CDC:ErrFilterRuleInvalid",
            hint="write fewer or simpler ones",
        )
