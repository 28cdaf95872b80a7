"""What a session's Java tells of itself. Asked by SQL, which is the only way there is through Spark Connect."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_VERSION, _UNKNOWN = "spark.tidecast.javaVersion", "0"


def java_properties(spark: SparkSession, names: Iterable[str]) -> list[str | None] | None:
    """Return system properties of the Java that computes rows, None for those that it lacks.

    Without a list, the session does not tell: not every cluster lets SQL call Java.
    """
    asked = ", ".join(f"java_method('java.lang.System', 'getProperty', '{name}')" for name in names)
    try:
        found = spark.sql(f"SELECT {asked}").collect()[0]
    except PySparkException:
        return None
    return [None if value in (None, "null") else value for value in found]


def java_version(spark: SparkSession) -> int:
    """Return the version of the Java that computes rows, such as 17; 0 where the session does not tell.

    A session is asked once, and keeps the answer among its settings.
    """
    version = spark.conf.get(_VERSION, None)
    if version is None:
        found = java_properties(spark, ["java.specification.version"])
        version = (found and found[0]) or _UNKNOWN
        spark.conf.set(_VERSION, version)
    return int(version) if version.isdecimal() else int(_UNKNOWN)  # before Java 9 it was `1.8`
