"""Names in schemas, and the options of ENUM and SET as one text. Source: Debezium protocol, names, allowed."""

from __future__ import annotations

import re

from tidecast.model import DataType, Kind

_ENUM_ESCAPES = ((",", "\\,"), ("\\'", "'"), ("''", "'"))


def sanitize_table(name: str) -> str:
    """Return a table's name as a schema name's part: digits and dots stay."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)


def join_options(data_type: DataType) -> str:
    """Return the options of ENUM or SET as the text of `allowed`; only ENUM's commas are escaped."""
    options = list(data_type.elements)
    if data_type.kind is Kind.ENUM:
        for found, put in _ENUM_ESCAPES:
            options = [o.replace(found, put) for o in options]
    return ",".join(options)


def split_options(kind: Kind, allowed: str) -> tuple[str, ...]:
    """Return the options in an `allowed` text."""
    if not allowed:
        return ()
    if kind is Kind.SET:
        return tuple(allowed.split(","))
    return tuple(o.replace("\\,", ",") for o in re.split(r"(?<!\\),", allowed))
