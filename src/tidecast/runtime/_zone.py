"""The time zone of the machine, by its name."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from zoneinfo import ZoneInfo

from tidecast._errors import ConfigError

# Offsets, and the short names of old that Java knows beside them, in the forms that Spark takes.
_OTHER_ZONE = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:?\d{1,2}(:?\d{2})?)?|[A-Z]{3}|SystemV/\w+")


def local_zone() -> str:
    """Return the system's time zone as Java and Python both know it: an IANA name, else an offset such as `+08:00`."""
    link = Path("/etc/localtime")
    linked = str(link.resolve()).partition("zoneinfo/")[2] if link.is_symlink() else ""
    for name in (os.environ.get("TZ", "").lstrip(":"), linked):
        if name and _known(name):
            return name
    minutes = -(time.altzone if time.localtime().tm_isdst > 0 else time.timezone) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}" if minutes else "UTC"


def unknown_zone(name: str) -> ConfigError:
    """Return the error for a name that is no time zone."""
    hint = "name one as Asia/Shanghai, or give an offset as +08:00"
    return ConfigError(f"unknown time zone {name!r}", code="CDC:ErrLoadTimezone", hint=hint)


def check_zone(name: str) -> str:
    """Return a time zone's name. Raises ConfigError for one that Spark cannot know; in doubt it is Spark's to tell."""
    if not (_known(name) or _OTHER_ZONE.fullmatch(name)):
        raise unknown_zone(name)
    return name


def _known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return False
    return True
