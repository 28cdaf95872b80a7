"""What of the running session decides how a column is built; for `reused`, too."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidecast.spark._java import java_version


def ansi_enabled() -> bool:
    """Tell whether the session casts by ANSI's rules."""
    return str(SparkSession.active().conf.get("spark.sql.ansi.enabled")).lower() == "true"


def active_java() -> int:
    """Return the version of the Java that computes the session's rows; see `java_version`."""
    return java_version(SparkSession.active())
