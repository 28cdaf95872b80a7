"""Options of the Debezium protocol. Source: Debezium protocol, options."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DebeziumOptions:
    """How events become Debezium messages; the names are those of TiCDC's sink URI and configuration.

    `cluster_id` is the TiCDC cluster's name, which stands in every message. `zone` is the server's time zone; it only
    matters in TIMESTAMP columns, for a NULL where there is a default, and for the first hours of 1970.
    """

    disable_schema: bool = False
    output_old_value: bool = True
    enable_tidb_extension: bool = False
    cluster_id: str = "default"
    zone: str = "UTC"
