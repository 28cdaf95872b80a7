"""Tables kept quick to read: small files become large ones, and files that no version needs are removed."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from tidecast.replica._report import Replicated
from tidecast.replica.targets import parse_target

_log = logging.getLogger(__name__)


def maintain(spark: SparkSession, to: str, applied: Replicated, every: int) -> None:
    """Compact tables that a batch has brought to each `every`-th version, and the ledger; with 0 do nothing.

    Each twentieth time files are removed that the table has not needed for as long as its property says,
    `delta.deletedFileRetentionDuration` or Iceberg's `history.expire.max-snapshot-age-ms`, otherwise for a week. A
    failure is logged, and the work is done the next time.
    """
    if not every:
        return
    target = parse_target(to)
    changed = [(t.database, t.table) for t in applied.tables if t.upserted or t.deleted]
    for name in (*changed, None):
        try:
            place = target.table(spark, *name, make_database=False) if name else target.ledger(spark)
            place.compact(every)
        except Exception as error:  # conflicts with other writers are no errors of PySpark
            what = ".".join(name) if name else "the ledger"
            _log.warning("%s could not be compacted: %s", what, str(error).strip().partition("\n")[0])
