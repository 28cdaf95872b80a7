"""Options of the Simple protocol. Source: Simple protocol, options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SimpleOptions:
    """How rows become Simple messages; the names are those of TiCDC's sink URI.

    `zone` is the time zone of the server, in which TIMESTAMP values are shown.
    """

    encoding_format: Literal["json", "avro"] = "json"
    zone: str = "UTC"
