"""What a changefeed's file tells of the files that it writes, as parameters of a source's URI."""

from __future__ import annotations

import json
import os
from urllib.parse import parse_qsl, quote, urlsplit

from tidecast._csv_format import TOLD_BY
from tidecast._errors import ConfigError
from tidecast._uri import scheme_of
from tidecast.config._build import read_file, validate_file
from tidecast.protocols import find_protocol


def names_files(source: str) -> bool:
    """Tell whether a URI or a path may name what a storage sink writes: by its protocol."""
    protocol = find_protocol(dict(parse_qsl(source.partition("?")[2])).get("protocol", ""))
    return bool(protocol and protocol.files) and scheme_of(source) != "kafka"


def configured_source(source: str, toml: str | os.PathLike[str]) -> str:
    """Return a source's URI, or path, with what TiCDC's changefeed file tells of its files.

    Parameters that are there already stay. Raises ConfigError for a file that TiCDC refuses.
    """
    sink = validate_file(read_file(toml), str(toml)).sink
    query = source.partition("?")[2]
    there = {name for name, _ in parse_qsl(urlsplit(f"?{query}").query, keep_blank_values=True)}
    told = {"terminator": sink.terminator}
    for name, parameter in TOLD_BY.items():
        if hasattr(sink.csv, name):
            value = getattr(sink.csv, name)
            told[parameter] = str(value).lower() if isinstance(value, bool) else value
    if sink.content_compatible:  # what says nothing in the file may be on in the sink URI
        told[TOLD_BY["content_compatible"]] = "true"
    if sink.protocol:
        told["protocol"] = sink.protocol
    if sink.column_selectors and any(d.target_schema or d.target_table for d in sink.dispatchers):
        raise ConfigError(
            "column-selectors name tables of the source, and files the targets of its dispatchers",
            where=str(toml),
            hint="give a copy of the file without target-schema and target-table, whose selectors name the targets",
        )
    if sink.column_selectors:
        selectors = [selector.model_dump(by_alias=True) for selector in sink.column_selectors]
        told[TOLD_BY["column_selectors"]] = json.dumps(selectors)
    more = "&".join(f"{name}={quote(value, safe='')}" for name, value in told.items() if name not in there)
    return f"{source}{'&' if '?' in source else '?'}{more}"
