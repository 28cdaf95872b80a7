"""Catalogs of Iceberg tables, which a session has by its settings and by Iceberg's jar."""

from __future__ import annotations

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tidecast._errors import ConfigError, TerminalError
from tidecast.spark import sql_name


def check_iceberg(spark: SparkSession, catalog: str) -> None:
    """Open a catalog, which Spark does when it is first asked for something.

    Raises ConfigError where the session lacks Iceberg's jar, or for a setting that cannot be, and TerminalError where
    the catalog cannot be opened for another reason.
    """
    setting = f"spark.sql.catalog.{catalog}"
    try:
        spark.catalog.databaseExists(f"{sql_name(catalog)}.`_tidecast`")
    except IllegalArgumentException as error:
        cause = str(error).strip().partition("\n")[0]
        raise ConfigError(f"--to: Spark cannot open catalog {catalog!r}: {cause}", hint=f"see {setting}.*") from error
    except Exception as error:  # Spark gives it no class of its own, and Spark Connect another one
        if "Cannot find catalog plugin class" in str(error):
            hint = f"set {setting} before Spark starts, by --conf or spark_session(conf=…), or add the jar yourself"
            raise ConfigError(f"--to: this Spark session lacks Iceberg's jar for {catalog!r}", hint=hint) from error
        # The rest of the text may hold a password.
        hint = f"see {setting}.*; TIDECAST_DEBUG=1 shows the cause"
        raise TerminalError(f"--to: Spark cannot open catalog {catalog!r}", hint=hint) from error
