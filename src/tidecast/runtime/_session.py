"""The local Spark session that tidecast works in when nobody brings another."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidecast.runtime._jars import fetch_jars
from tidecast.runtime._java import find_java

# Settings that are lists: what a caller gives is added to ours instead of replacing it.
_LISTS = {"spark.jars": ",", "spark.sql.extensions": ",", "spark.driver.extraJavaOptions": " "}


def spark_session(
    app_name: str = "tidecast", *, cores: int | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Give a local Spark session with the Kafka, Avro and Delta connectors.

    The first call fetches the connectors and, if need be, finds a Java; see `fetch_jars` and `find_java`. `cores`
    defaults to all of the machine's. `conf` overrides any setting; to the lists (`spark.jars`,
    `spark.sql.extensions`, `spark.driver.extraJavaOptions`) it adds. A session that already runs is returned with
    nothing but `conf` applied. Spark's own log is silent; `TIDECAST_SPARK_LOG=warn` turns it on.
    Raises `MissingRuntime` when Java or a connector cannot be had.
    """
    given = dict(conf or {})
    running = _running_session()
    if running is not None:
        for name, value in given.items():
            running.conf.set(name, value)
        return running
    _silence_python_side()
    cores = cores or _usable_cores()
    settings = _settings(cores)
    for name, value in given.items():
        settings[name] = _LISTS[name].join(filter(None, [settings[name], value])) if name in _LISTS else value
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Spark starts its Java and its Python workers with the environment of this moment, and offers no other way.
    with _environment(JAVA_HOME=str(find_java().home), PYSPARK_PYTHON=sys.executable):
        session = builder.getOrCreate()
    atexit.register(_remove_litter, Path("artifacts").absolute())
    return session


def _settings(cores: int) -> dict[str, str]:
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.jars": ",".join(map(str, fetch_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        # One process does all the work: more pieces than cores only cost.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.driver.memory": f"{min(max(cores, 2), 16)}g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}",
        # Java compiles no method above 8000 bytes: tables of many columns had better have several.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Each table has classes of its own, and Spark by default forgets all but a hundred: it would make them anew in
        # every batch of a dozen tables or more.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Otherwise Spark walks the Python stack for each part of an expression, and plans take twice as long.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Otherwise Spark clones the session for every frame that is kept, and never lets the clone go.
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
        "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
        # Without a UI nobody looks at what has been; a server runs for long.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _running_session() -> SparkSession | None:
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    stopped = SparkContext._active_spark_context is None and not is_remote()
    return None if stopped else session


def _silence_python_side() -> None:
    """Keep pyspark and py4j from printing exceptions that they raise as well; log4j2.properties does so for Java."""
    if "TIDECAST_SPARK_LOG" not in os.environ:
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        for name in ("py4j.clientserver", "py4j.java_gateway"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_not_from_py4j)  # it takes the root logger for its own


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _remove_litter(folder: Path) -> None:
    """Remove the empty folder that Spark 4.0.0 makes where it was started (SPARK-52396; mended in 4.0.1)."""
    with suppress(OSError):  # what is not empty is not Spark's
        for inner in folder.glob("spark-*"):
            inner.rmdir()
        folder.rmdir()


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux tells which cores this process may use
        return os.cpu_count() or 1


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
