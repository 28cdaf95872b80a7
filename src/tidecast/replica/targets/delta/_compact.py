"""Delta tables kept quick to read: small files become large ones, and files that no version needs are removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

_VACUUM_AFTER = 20
"""So many compactions, one clean-up."""

_SIZES: Mapping[str, str] = {
    "spark.databricks.delta.optimize.minFileSize": str(64 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
}
"""Delta would make files of a gigabyte, and write the last one anew each time."""


def compact(spark: SparkSession, name: str, version: int, every: int) -> None:
    """Compact a table whose version is an `every`-th one; each twentieth time remove files, too."""
    if version < every or version % every >= min(2, every):
        return
    with _set(spark, _SIZES):
        spark.sql(f"OPTIMIZE {name}").collect()
    if version // every % _VACUUM_AFTER < _versions(every):
        spark.sql(f"VACUUM {name}").collect()


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
