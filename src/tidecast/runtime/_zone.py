"""The time zone of the machine, by its name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from zoneinfo import ZoneInfo


def local_zone() -> str:
    """Return the system's time zone as Java and Python both know it: an IANA name, else an offset such as `+08:00`."""
    link = Path("/etc/localtime")
    linked = str(link.resolve()).partition("zoneinfo/")[2] if link.is_symlink() else ""
    for name in (os.environ.get("TZ", "").lstrip(":"), linked):
        if name and _known(name):
            return name
    minutes = -(time.altzone if time.localtime().tm_isdst > 0 else time.timezone) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}" if minutes else "UTC"


def _known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError):
        return False
    return True
