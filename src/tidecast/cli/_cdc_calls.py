"""API calls that several commands of `tidecast cli` make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tidecast._tso import compose
from tidecast.cli._cdc_client import ApiError, Client
from tidecast.cli._cdc_flags import Flags

NO_FILES: dict[str, Any] = {"ca_path": "", "cert_path": "", "key_path": ""}
"""The upstream's certificates, of which no server of ours knows."""


def upstream(flags: Flags) -> dict[str, Any]:
    """Return the members of a request that name an upstream, for a TiCDC that reads from several."""
    if not flags.upstream_pd:
        return NO_FILES
    files = {f"{name}_path": getattr(flags, f"upstream_{name}") for name in ("ca", "cert", "key")}
    return {"pd_addrs": flags.upstream_pd.split(","), **files}


def changefeed_path(flags: Flags, verb: str = "") -> str:
    """Return the path of the changefeed that the flags name, whatever its id is made of."""
    path = f"changefeeds/{quote(flags.changefeed_id, safe='')}"
    return f"{path}/{verb}" if verb else path


def get_changefeed(flags: Flags, client: Client) -> dict[str, Any]:
    """Return what the server knows of the changefeed that the flags name."""
    found: dict[str, Any] = client("GET", changefeed_path(flags), keyspace=flags.keyspace)
    return found


def current_ts(client: Client, upstream_id: int, where: Mapping[str, Any] = NO_FILES) -> int:
    """Return the present moment of an upstream as a TSO; `where` is as `upstream` returns it."""
    tso = client("POST", "tso", {"id": upstream_id, **where})
    return compose(tso["timestamp"], tso["logic_time"])


def all_tables(
    flags: Flags, client: Client, start_ts: int, config: Mapping[str, Any]
) -> tuple[Mapping[str, Any], str | None]:
    """Return the tables, or why they cannot be had, which is only worth a line."""
    body = NO_FILES | {"replica_config": config, "start_ts": start_ts, "sink_uri": ""}
    try:
        return client("POST", "get_all_tables", body, keyspace=flags.keyspace), None
    except ApiError as error:
        return {}, str(error)
