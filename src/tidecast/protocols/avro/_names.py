"""Names that Avro takes, and the options of ENUM and SET as one text. Source: Avro protocol, names, allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable


def unescape_quotes(text: str) -> str:
    """Return a default of ENUM or SET as a schema shows it."""
    return text.replace("\\'", "'").replace("''", "'")


def join_options(options: Iterable[str]) -> str:
    """Return the options of ENUM or SET as the text of `allowed`."""
    return ",".join(unescape_quotes(o.replace(",", "\\,")) for o in options)


def split_options(allowed: str) -> tuple[str, ...]:
    """Return the options in an `allowed` text: cut at commas without a backslash before them."""
    return tuple(o.replace("\\,", ",") for o in re.split(r"(?<!\\),", allowed)) if allowed else ()
