"""Tables against their ledger."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidecast import replica
from tidecast._progress import Progress, no_progress
from tidecast.replica import Proven, parse_target
from tidecast.runtime import spark_session


def prove(to: str, *, progress: Progress = no_progress, spark: SparkSession | None = None) -> Proven:
    """Prove that tables hold what the batches of `replicate` made of them; see `tidecast.replica.prove`.

    `to` is the folder or catalog that `replicate` was given with a checkpoint. The ledger there tells how many rows
    each table has after a batch, and the sum of a hash of each row; both are computed once more from the rows. A row
    that was changed, removed or doubled since, by whatever else, shows, also after further batches; so does a file that
    is damaged or missing. `progress` is told of each table.

    Raises ConfigError where there is no table, TerminalError where the ledger cannot be read.
    """
    parse_target(to)  # a wrong call need not wait for Spark
    return replica.prove(spark or spark_session(), to, progress=progress)
