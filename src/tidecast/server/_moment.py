"""Times as pages show them."""

from __future__ import annotations

import datetime as dt


def moment(seconds: float, digits: str = "seconds") -> str:
    """Return a time, in seconds since the epoch, on this machine's clock with its zone."""
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(" ", digits)
