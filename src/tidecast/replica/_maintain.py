"""Tables kept quick to read: small files become large ones, and files that no version needs are removed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidecast.replica._report import Replicated
from tidecast.replica._target import DeltaTarget, parse_target

_log = logging.getLogger(__name__)

_VACUUM_AFTER = 20
"""So many compactions, one clean-up."""

_SIZES: Mapping[str, str] = {
    "spark.databricks.delta.optimize.minFileSize": str(64 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
}
"""Delta would make files of a gigabyte, and write the last one anew each time."""


def maintain(spark: SparkSession, to: str, applied: Replicated, every: int) -> None:
    """Compact tables that a batch has brought to each `every`-th version, and the ledger; with 0 do nothing.

    Each twentieth time files are removed that the table has not needed for as long as its property
    `delta.deletedFileRetentionDuration` says, by Delta's default a week. What fails is told in the log, and done the
    next time.
    """
    if not every:
        return
    target = parse_target(to)
    changed = [(t.database, t.table) for t in applied.tables if t.upserted or t.deleted]
    for name in (*changed, None):
        try:
            place = target.table(spark, *name, make_database=False) if name else target.ledger(spark)
            _compact(spark, place, every)
        except Exception as error:  # Delta's conflicts with other writers are no errors of PySpark
            what = ".".join(name) if name else "the ledger"
            _log.warning("%s could not be compacted: %s", what, str(error).strip().partition("\n")[0])


def _compact(spark: SparkSession, place: DeltaTarget, every: int) -> None:
    version = place.version()
    if not version or version < every or version % every >= min(2, every):
        return
    with _set(spark, _SIZES):
        spark.sql(f"OPTIMIZE {place.name}").collect()
    if version // every % _VACUUM_AFTER < _versions(every):
        spark.sql(f"VACUUM {place.name}").collect()


def _versions(every: int) -> int:
    """Return how many counts in a row are one: a compaction makes a version, too."""
    return 2 if every == 1 else 1


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
