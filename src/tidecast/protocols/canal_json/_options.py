"""Options of the Canal-JSON protocol. Source: Canal-JSON protocol, options."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CanalOptions:
    """How events become Canal-JSON messages; the names are those of TiCDC's sink URI and configuration.

    `zone` is the time zone of the server, in which TIMESTAMP values are shown.
    """

    enable_tidb_extension: bool = False
    content_compatible: bool = False
    only_output_updated_columns: bool = False
    delete_only_output_handle_key_columns: bool = False
    zone: str = "UTC"

    @property
    def only_updated(self) -> bool:
        """Tell whether the old row of an update shows only the columns that changed."""
        return self.only_output_updated_columns or self.content_compatible
