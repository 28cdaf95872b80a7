"""JSON, durations such as `1m30s`, numbers, regular expressions and hosts, as Go writes and reads them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
from typing import Protocol

import re2

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+|0)")
_MOST_DIGITS = 4000  # Python reads no more than 4300
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BOOLS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)
MARKUP = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""What Go's JSON escapes that other JSON shows as it is."""

_ESCAPES = str.maketrans(MARKUP) | dict.fromkeys(range(0xD800, 0xE000), "\\ufffd")
_NO_TEXT = re.compile("[\udc80-\udcff]")


def to_json(value: object, indent: int | None = None) -> str:
    """Return JSON text as Go's encoder writes it: members in their order, `<`, `>` and `&` escaped.

    So is half of a pair, which is no text: it stands for a byte that is no UTF-8.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    # These characters have no place in JSON outside of strings, so that the whole text may be escaped at once.
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False).translate(_ESCAPES)


def text_of(content: bytes) -> str:
    """Return bytes as Go takes them for text: each one that is no part of UTF-8 is U+FFFD."""
    return _NO_TEXT.sub("\ufffd", content.decode(errors="surrogateescape"))


def quoted(text: str) -> str:
    """Return a text in quotation marks, as Go's `%q` writes it."""
    return json.dumps(text, ensure_ascii=False)


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a Go duration such as `10m` or `1h30m`; ValueError where it is none."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no duration: write a number with ns, us, ms, s, m or h")
    parts = re.findall(_PART, found[2])
    nanoseconds = sum(round(float(number) * _UNITS[unit]) for number, unit in parts)
    return -nanoseconds if found[1] == "-" else nanoseconds


def time_text(moment: dt.datetime) -> str:
    """Return a moment as Go's JSON has it: with no zeros at the end of the second, and Z for a zone of UTC's time."""
    whole, zone = f"{moment:%Y-%m-%dT%H:%M:%S}", moment.isoformat()[-6:]
    part = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{whole}{part}{'Z' if zone == '+00:00' else zone}"


def parse_int(text: str, bits: int = 64) -> int:
    """Return a whole number of so many bits; ValueError where it is none, as `1_0`, which only Python takes for one."""
    most = 1 << bits - 1
    if not _INTEGER.fullmatch(text) or len(text) > _MOST_DIGITS or not -most <= (number := int(text)) < most:
        raise ValueError(f"{text!r} is no whole number of {bits} bits")
    return number


def parse_bool(text: str) -> bool:
    """Return a truth value; ValueError where it is none."""
    if text not in _BOOLS:
        raise ValueError(f"{text!r} is no truth value: write true or false")
    return _BOOLS[text]


def duration_text(nanoseconds: int) -> str:
    """Return a duration as Go takes it, in the largest unit of which it is a whole number."""
    for unit in ("h", "m", "s", "ms", "us"):
        if nanoseconds % _UNITS[unit] == 0:
            return f"{nanoseconds // _UNITS[unit]}{unit}"
    return f"{nanoseconds}ns"


def duration_string(nanoseconds: int) -> str:
    """Return a duration as Go prints it, such as `498727h47m41.735s`, `1m0s` or `1.5ms`."""
    size = abs(nanoseconds)
    sign = "-" if nanoseconds < 0 else ""
    if 0 < size < _UNITS["s"]:
        unit = next(name for name in ("ms", "µs", "ns") if size >= _UNITS[name])
        return f"{sign}{_decimal(size, _UNITS[unit])}{unit}"
    hours, rest = divmod(size, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    larger = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{larger}{_decimal(rest, _UNITS['s'])}s"


def _decimal(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{part:0{digits}d}".rstrip("0").rstrip(".") if part else str(whole)


def is_loopback(host: str | None) -> bool:
    """Tell whether a host is this machine, reached from within, as Go has it.

    Go's clients ask no proxy for that, whatever proxy is set.
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class Regexp(Protocol):
    """A regular expression, ready to use."""

    def search(self, text: str) -> object | None:
        """Return what it finds in a text, None for nothing."""


def parse_regexp(pattern: str, *, fold: bool = False) -> Regexp:
    """Return a regular expression as Go reads it, which is RE2; with `fold` letter case does not count.

    Raises ValueError where it is none, such as one that looks ahead.
    """
    options = re2.Options()
    options.case_sensitive = not fold
    options.log_errors = False
    try:
        compiled: Regexp = re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        words = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else "it is not Unicode text"
        raise ValueError(f"error parsing regexp: {words}") from None
    return compiled
