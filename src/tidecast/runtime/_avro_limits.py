"""Avro's own limits, which keep a damaged length from taking all memory. Java reads them once, when it starts.

Source: Other documents, Avro's SystemLimitException.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from tidecast._limits import LARGEST_COLLECTION, LARGEST_MESSAGE
from tidecast.spark import java_properties

_log = logging.getLogger(__name__)

_LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": LARGEST_MESSAGE,
    "org.apache.avro.limits.string.maxLength": LARGEST_MESSAGE,
    "org.apache.avro.limits.collectionItems.maxLength": LARGEST_COLLECTION,
}
AVRO_LIMITS = " ".join(f"-D{name}={limit}" for name, limit in _LIMITS.items())
"""The limits as options of a Java that is to read Avro messages, on the driver and on executors."""

_CHECKED = "spark.tidecast.avroLimitsChecked"


def check_avro_limits(spark: SparkSession) -> None:
    """Warn, once for a session, where the Java that reads messages has no limits for Avro."""
    if spark.conf.get(_CHECKED, None) is not None:
        return
    spark.conf.set(_CHECKED, "true")
    found = java_properties(spark, _LIMITS)
    unset = [name for name, limit in zip(_LIMITS, found or [None] * len(_LIMITS), strict=True) if limit is None]
    if unset:
        _log.warning(
            "Avro reads messages without limits (%s): a damaged length can end Java for want of memory. Start Spark "
            "with these in spark.driver.extraJavaOptions and spark.executor.extraJavaOptions: %s",
            "not set: " + ", ".join(unset) if found else "this session does not tell its own",
            AVRO_LIMITS,
        )
