"""The options of ENUM and SET as one text, `allowed`. Source: Avro protocol, allowed; Debezium protocol, allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable


def join_options(options: Iterable[str]) -> str:
    """Return options as the text of `allowed`."""
    return ",".join(o.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for o in options)


def split_options(allowed: str) -> tuple[str, ...]:
    """Return the options in an `allowed` text: cut at commas without a backslash before them."""
    return tuple(o.replace("\\,", ",") for o in re.split(r"(?<!\\),", allowed)) if allowed else ()
