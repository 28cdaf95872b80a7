"""All tables at one time of their source."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._errors import ConfigError
from tidecast._tso import compose, physical_ms, read_tso
from tidecast.replica import Snapshot, parse_target
from tidecast.runtime import spark_session


def snapshot(to: str, as_of: str | int, *, spark: SparkSession | None = None) -> Snapshot:
    """Find the tables in `to` as their source was at a time, by the ledger; see `tidecast.replica.snapshot`.

    `as_of` is a TSO, or a time in ISO 8601, in UTC where it names no zone; what was committed in that millisecond is in
    it. `Snapshot.table("shop.orders")` gives a table's rows.

    Raises ConfigError for another `as_of` or a place without a ledger, and TerminalError where the ledger has no batch
    up to that time after which all tables were at one time of their source: with `replicate(…, resolved_only=True)`
    each batch is one.
    """
    parse_target(to)
    ts = tso_of(as_of)
    return replica.snapshot(spark or spark_session(), to, ts)


def tso_of(as_of: str | int) -> int:
    """Return the TSO that `as_of` says. Raises ConfigError where it says none."""
    text = str(as_of).strip()
    tso = read_tso(text)
    if tso is None:
        raise ConfigError(f"--as-of cannot be {text!r}", hint="write a TSO or an ISO time, 2026-01-31T12:00:00Z")
    return tso if text.isdecimal() else compose(physical_ms(tso) + 1) - 1
